"""Ape-X DQN on Catch: 0.9 within 60,000 environment steps."""

from repertory.agents import apex_dqn
from repertory.launch import experiment

TARGET = 0.9


def make(seed: int):
    return experiment.ExperimentConfig(
        agent=apex_dqn.Config(),
        environment='catch',
        seed=seed,
        max_actor_steps=60_000,
        evaluation_episodes=50,
        evaluation_period_seconds=3.0,
    ), experiment.Topology(envs_per_actor=16)


VARIANTS = {'apex_dqn': make}
