"""Ape-X DQN on CartPole-v1: 475 within 60,000 environment steps.

The preset is there soon, and comes and goes; `slow` is there late, and stays.
"""

from repertory.agents import apex_dqn
from repertory.launch import experiment

TARGET = 475.0
NUM_SEEDS = 3
_SLOW = apex_dqn.Config(max_replay_size=50_000, learning_rate=5e-4)


def make(seed: int, agent=apex_dqn.CARTPOLE, steps: int = 60_000, period: float = 4.0):
    return experiment.ExperimentConfig(
        agent=agent,
        environment='gym:CartPole-v1',
        seed=seed,
        max_actor_steps=steps,
        evaluation_episodes=20,
        evaluation_period_seconds=period,
    ), experiment.Topology(envs_per_actor=16)


def make_slow(seed: int):
    return make(seed, _SLOW, steps=200_000, period=10.0)


VARIANTS = {'apex_dqn': make, 'slow': make_slow}
