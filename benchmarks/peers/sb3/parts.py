"""What the peer runs: Stable-Baselines3's DQN on CartPole."""

from __future__ import annotations

import gymnasium
import stable_baselines3

ZOO_STEPS = 50_000
_EXPLORATION = 0.16  # Of ZOO_STEPS.


def make_dqn(seed: int, steps: int) -> stable_baselines3.DQN:
    """Returns DQN with the hyperparameters that RL Baselines3 Zoo tuned for this task.

    Args:
        seed: of the agent and its environment.
        steps: environment steps that it will train for; exploration ends where the
            Zoo's does, whatever they are.
    """
    return stable_baselines3.DQN(
        'MlpPolicy',
        gymnasium.make('CartPole-v1'),
        learning_rate=2.3e-3,
        batch_size=64,
        buffer_size=100_000,
        learning_starts=1_000,
        gamma=0.99,
        target_update_interval=10,
        train_freq=256,
        gradient_steps=128,
        exploration_fraction=_EXPLORATION * ZOO_STEPS / steps,
        exploration_final_eps=0.04,
        policy_kwargs={'net_arch': [256, 256]},
        seed=seed,
        device='cpu',
    )
