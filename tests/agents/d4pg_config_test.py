"""D4PG's config: what is refused, and the paper's values."""

import dataclasses

import pytest

from repertory.agents.d4pg import builder, config
from tests.agents import d4pg_fakes


@pytest.mark.parametrize(
    'change, message',
    [
        ({'n_step': 0}, 'n_step must be >= 1, got 0'),
        ({'discount': 1.1}, r'discount must be in \[0, 1\], got 1.1'),
        ({'vmin': 1.0, 'vmax': 1.0}, 'vmin must be < vmax and both finite, got 1.0'),
        ({'vmax': float('inf')}, 'vmin must be < vmax and both finite'),
        ({'num_atoms': 1}, 'num_atoms must be >= 2, got 1'),
        ({'noise_sigma': -0.1}, 'noise_sigma must be >= 0 and finite'),
        ({'noise_theta': 0.0}, r'noise_theta must be in \(0, 1\]'),
        ({'critic_learning_rate': 0.0}, 'critic_learning_rate must be positive'),
        ({'max_action_gradient_norm': 0.0}, 'must be > 0 or None'),
        ({'policy_sizes': ()}, 'policy_sizes must be 1 or more sizes'),
        ({'network': 'relu', 'critic_sizes': (9,)}, 'critic_sizes must be 2 or more'),
        ({'min_replay_size': 2_000_000}, 'never become ready'),
        ({'samples_per_insert': -1.0}, 'samples_per_insert must be > 0'),
        ({'reward_scale': float('nan')}, 'reward_scale must be positive'),
    ],
)
def test_a_setting_that_cannot_work_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        config.Config(**change)


def test_the_paper_preset_has_the_papers_values():
    paper = dataclasses.asdict(config.PAPER)
    expected = {
        'critic': 'categorical',
        'n_step': 5,
        'discount': 0.99,
        'batch_size': 256,
        'max_replay_size': 1_000_000,
        'num_atoms': 51,
        'policy_learning_rate': 1e-4,
        'critic_learning_rate': 1e-4,
        'target_update_period': 100,
        'noise_sigma': 0.3,
        'noise_theta': 1.0,
        'max_gradient_norm': None,
        'max_action_gradient_norm': None,
        'policy_sizes': (400, 300),
        'critic_sizes': (400, 300),
    }
    assert {name: paper[name] for name in expected} == expected
    networks = builder.Builder(config.PAPER).make_networks(d4pg_fakes.make_spec())
    shapes = [tuple(v.shape) for v in networks.critic.trainable_variables]
    # The action joins at the second layer.
    assert (3, 400) in shapes and (400 + 2, 300) in shapes and (300, 51) in shapes
