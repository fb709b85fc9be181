"""R2D2 learns: what a learner step moves, and memory that needs stored states."""

import dataclasses

import numpy as np
import pytest
import tree

from baselines import r2d2_memory
from repertory.agents.r2d2 import builder
from repertory.launch import local
from tests.agents import r2d2_fakes

networks = pytest.fixture(r2d2_fakes.make_networks)


def test_a_learner_step_moves_parameters_and_copies_the_target(networks):
    online, target = networks
    random = np.random.default_rng(0)
    row = r2d2_fakes.make_row(
        random.normal(size=(10, 2)), random.normal(size=10), [1] * 10
    )
    sample = tree.map_structure(
        lambda x: x[None], r2d2_fakes.make_sample(row, r2d2_fakes.random_state())
    )
    agent = r2d2_fakes.make_config(target_update_period=2, action_reward=False)
    traces = []
    unroll = online.q.unroll
    online.q.unroll = lambda *args, **kwargs: (
        traces.append(1) or unroll(*args, **kwargs)
    )
    one = builder.Builder(agent).make_learner(
        online, target, None, iter([sample] * 3), []
    )
    one._update_priorities = None
    before = [v.numpy() for v in online.q.variables]
    for copied in (False, True, False):
        metrics = one.step()
        assert np.isfinite(list(metrics.values())).all()
        assert metrics['valid_fraction'] == 1.0
        same = [
            np.array_equal(a, b)
            for a, b in zip(online.q.variables, target.q.variables, strict=True)
        ]
        assert all(same) == copied
    moved = [np.abs(a - b).max() for a, b in zip(online.q.variables, before)]
    assert min(moved) > 0
    assert len(traces) == 1


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    'variant',
    [
        pytest.param('stored_state', marks=pytest.mark.ci_slow),
        pytest.param('zero_state', marks=pytest.mark.slow),
        pytest.param('feed_forward', marks=pytest.mark.slow),
    ],
)
def test_memory_needs_stored_states_and_burn_in(tmp_path, variant):
    make = r2d2_memory.VARIANTS[variant]
    experiment, topology = make(seed=0)
    # No wrong answer in an evaluation: at less, one query can still be half wrong.
    experiment = dataclasses.replace(experiment, target_return=5.999)
    local.run_experiment(experiment, topology, tmp_path / 'run')
    accuracy = r2d2_memory.measure(tmp_path / 'run')['accuracy']
    if variant == 'stored_state':
        assert min(accuracy.values()) >= 0.9, accuracy
    elif variant == 'zero_state':
        assert max(accuracy[40], accuracy[48]) <= 0.7, accuracy
    else:
        assert max(accuracy.values()) <= 0.4, accuracy
