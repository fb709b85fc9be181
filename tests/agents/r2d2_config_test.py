"""R2D2's config: what is refused, and the paper's values."""

import dataclasses

import pytest

from repertory.agents.r2d2 import config


@pytest.mark.parametrize(
    'change, message',
    [
        ({'trace_length': 0}, 'trace_length must be >= 1, got 0'),
        ({'burn_in_length': -1}, 'burn_in_length must be >= 0'),
        ({'sequence_period': 17}, 'sequence_period must be <= trace_length, got 17'),
        ({'discount': 1.1}, r'discount must be in \[0, 1\], got 1.1'),
        ({'max_priority_weight': -0.1}, r'max_priority_weight must be in \[0, 1\]'),
        ({'epsilon': 0.0}, r'epsilon must be in \(0, 1\]'),
        ({'min_replay_size': 30_000}, 'never become ready'),
        ({'learning_rate': float('nan')}, 'learning_rate must be positive'),
        ({'rescaling_epsilon': 0.0}, 'rescaling_epsilon must be positive'),
        ({'max_gradient_norm': 0.0}, 'max_gradient_norm must be > 0 or None'),
        ({'samples_per_insert': -1.0}, 'samples_per_insert must be > 0'),
        ({'hidden_sizes': (0,)}, 'hidden_sizes must be >= 1'),
        ({'batch_size': 30_000}, 'batch_size must be <= max_replay_size'),
    ],
)
def test_a_setting_that_cannot_work_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        config.Config(**change)


def test_the_paper_preset_has_the_papers_values():
    paper = dataclasses.asdict(config.PAPER)
    expected = {
        'burn_in_length': 40,
        'trace_length': 80,
        'sequence_period': 40,
        'zero_state': False,
        'action_reward': True,
        'n_step': 5,
        'discount': 0.997,
        'rescaling_epsilon': 1e-3,
        'batch_size': 64,
        'max_replay_size': 100_000,
        'priority_exponent': 0.9,
        'importance_sampling_exponent': 0.6,
        'max_priority_weight': 0.9,
        'lstm_size': 512,
        'dueling_size': 512,
        'learning_rate': 1e-4,
        'optimizer_epsilon': 1e-3,
        'max_gradient_norm': 40.0,
        'target_update_period': 2_500,
        'epsilon': 0.4,
        'epsilon_alpha': 7.0,
        'variable_update_period': 400,
    }
    assert {name: paper[name] for name in expected} == expected
