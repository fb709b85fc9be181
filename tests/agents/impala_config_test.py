"""IMPALA's config: what is refused, and the paper's values and optimizer."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from repertory.agents.impala import builder, config
from repertory.launch import checks, experiment


@pytest.mark.parametrize(
    'change, message',
    [
        ({'unroll_length': 0}, 'unroll_length must be >= 1, got 0'),
        ({'discount': 1.1}, r'discount must be in \[0, 1\], got 1.1'),
        ({'lambda_': -0.1}, r'lambda_ must be in \[0, 1\]'),
        ({'reward_scale': 0.0}, 'reward_scale must be positive'),
        ({'clip_rho': 0.0}, 'clip_rho must be > 0 or None'),
        ({'entropy_cost': -1.0}, 'entropy_cost must be >= 0'),
        ({'learning_rate': float('nan')}, 'learning_rate must be positive'),
        ({'learning_rate_decay_steps': 0}, 'learning_rate_decay_steps must be > 0'),
        ({'hidden_sizes': (0,)}, 'hidden_sizes must be >= 1'),
        ({'max_queue_size': 17}, r'max_queue_size must be >= .* = 18, got 17'),
        ({'updates_per_call': 3}, r'max_queue_size must be >= .* = 50, got 48'),
    ],
)
def test_a_setting_that_cannot_work_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        config.Config(**change)


@pytest.mark.parametrize(
    'lanes, message',
    [
        (12, 'envs_per_actor must divide batch_size, got 12 and 16'),
        (32, 'envs_per_actor must divide batch_size'),
    ],
)
def test_lanes_that_do_not_fit_are_refused_before_anything_starts(lanes, message):
    run = experiment.ExperimentConfig(agent=config.Config(), environment='catch')
    with pytest.raises(ValueError, match=message):
        checks.check_together(run, experiment.Topology(envs_per_actor=lanes))
    queue = dataclasses.replace(run, agent=config.Config(max_queue_size=20))
    with pytest.raises(ValueError, match='max_queue_size must be >= .* = 48, got 20'):
        checks.check_together(queue, experiment.Topology(envs_per_actor=16))


def test_the_paper_preset_has_the_papers_values():
    paper = dataclasses.asdict(config.PAPER)
    expected = {
        'unroll_length': 20,
        'batch_size': 32,
        'discount': 0.99,
        'clip_rho': 1.0,
        'clip_c': 1.0,
        'clip_pg_rho': 1.0,
        'lambda_': 1.0,
        'baseline_cost': 0.5,
        'entropy_cost': 0.01,
        'reward_transform': 'clip',
        'optimizer': 'rmsprop',
        'learning_rate': 6e-4,
        'optimizer_epsilon': 0.01,
        'max_gradient_norm': 40.0,
        'core': 'none',
    }
    assert {name: paper[name] for name in expected} == expected


def test_the_papers_optimizer_starts_at_one_and_decays_linearly():
    optimizer = builder._make_optimizer(
        dataclasses.replace(config.PAPER, learning_rate_decay_steps=4)
    )
    variable = tf.Variable([1.0])
    optimizer.initialize([variable])
    optimizer.apply([tf.constant([2.0])], [variable])
    # The first mean square is 0.99 * 1 + 0.01 * 2^2, and epsilon is inside the root.
    np.testing.assert_allclose(variable, [1 - 6e-4 * 2 / np.sqrt(1.03 + 0.01)], 1e-6)
    np.testing.assert_allclose(optimizer.learning_rate, 6e-4 * 3 / 4, rtol=1e-6)
