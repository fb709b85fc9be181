"""Seeds that differ by experiment, role and lane, and the lanes made with them."""

from __future__ import annotations

import functools
from collections.abc import Callable

import dm_env
import numpy as np

from repertory.components import core
from repertory.components.environments.wrappers import single_precision

EnvironmentFactory = Callable[[int], dm_env.Environment]  # by seed, in [0, 2^31)

_HALF_RANGE = 2**30
_STRIDE = 0x9E3779B1  # odd, so that index -> index * _STRIDE mod 2^30 is one to one.


def lane_seed(experiment_seed: int, role: core.Role, lane: int) -> int:
    """Returns the seed of one lane, in [0, 2^31).

    No two lanes of a run share a seed, as long as its actors have equally many lanes:
    evaluators have the odd seeds, and within actors or evaluators lanes are a fixed
    odd stride apart. Where they start depends on `experiment_seed`.

    Raises:
        ValueError: if `experiment_seed` is negative or `lane` is not one of the role.
    """
    if experiment_seed < 0:
        raise ValueError(f'experiment_seed must be >= 0, got {experiment_seed}.')
    if not 0 <= lane < role.num_lanes:
        raise ValueError(f'lane must be in [0, {role.num_lanes}), got {lane}.')
    start = int(np.random.SeedSequence(experiment_seed).generate_state(1)[0])
    index = role.actor_index * role.num_lanes + lane
    return 2 * ((start + index * _STRIDE) % _HALF_RANGE) + role.evaluation


def lane_factories(
    factory: EnvironmentFactory, experiment_seed: int, role: core.Role
) -> list[Callable[[], dm_env.Environment]]:
    """Returns a function for each lane of `role` that makes it, in single precision."""
    return [
        functools.partial(_make_lane, factory, lane_seed(experiment_seed, role, lane))
        for lane in range(role.num_lanes)
    ]


def make_lanes(
    factory: EnvironmentFactory, experiment_seed: int, role: core.Role
) -> list[dm_env.Environment]:
    """Returns the environments of `role`, one a lane, in single precision."""
    return [make() for make in lane_factories(factory, experiment_seed, role)]


def _make_lane(factory: EnvironmentFactory, seed: int) -> dm_env.Environment:
    return single_precision.wrap(factory(seed))
