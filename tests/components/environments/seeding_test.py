from __future__ import annotations

import functools

import numpy as np
import pytest

from repertory.components import core
from repertory.components.environments import catch, seeding, vector
from repertory.components.environments.wrappers import single_precision


def all_seeds(experiment_seed, num_actors=64, num_lanes=16):
    roles = [
        core.Role(actor_index=index, num_actors=num_actors, num_lanes=num_lanes)
        for index in range(num_actors)
    ]
    roles.append(core.Role(evaluation=True, num_lanes=num_lanes))
    return [
        seeding.lane_seed(experiment_seed, role, lane)
        for role in roles
        for lane in range(num_lanes)
    ]


def test_no_two_lanes_of_a_run_share_a_seed():
    seeds = all_seeds(7)
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_seeds_repeat_between_runs_and_differ_between_experiments():
    assert all_seeds(7) == all_seeds(7)
    assert not set(all_seeds(7)) & set(all_seeds(8))


def test_lanes_see_different_first_episodes():
    def starts(role):
        factory = functools.partial(catch.Catch, columns=40)
        lanes = seeding.make_lanes(factory, 7, role)
        environment = vector.SerialVectorEnvironment(lanes)
        noops = np.ones(role.num_lanes, np.int32)
        boards = [environment.reset().observation]
        boards += [environment.step(noops).observation for _ in range(50)]
        columns = np.argmax(np.stack(boards)[:, :, 0], axis=-1)
        return [tuple(lane) for lane in columns.T]

    roles = [
        core.Role(actor_index=0, num_actors=2, num_lanes=3),
        core.Role(actor_index=1, num_actors=2, num_lanes=3),
        core.Role(evaluation=True, num_lanes=3),
    ]
    seen = [lane for role in roles for lane in starts(role)]
    assert len(set(seen)) == 9
    assert seen == [lane for role in roles for lane in starts(role)]


def test_lanes_are_in_single_precision():
    (lane,) = seeding.make_lanes(catch.Catch, 0, core.Role())
    assert isinstance(lane, single_precision.SinglePrecision)


def test_what_is_no_seed_or_lane_is_refused():
    with pytest.raises(ValueError, match='experiment_seed must be >= 0, got -1'):
        seeding.lane_seed(-1, core.Role(), 0)
    with pytest.raises(ValueError, match=r'lane must be in \[0, 1\), got 1'):
        seeding.lane_seed(0, core.Role(), 1)
