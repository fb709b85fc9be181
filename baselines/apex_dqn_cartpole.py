"""Ape-X DQN on CartPole-v1: 475 within 60,000 environment steps."""

from repertory.agents import apex_dqn
from repertory.launch import experiment

TARGET = 475.0


def make(seed: int):
    return experiment.ExperimentConfig(
        agent=apex_dqn.CARTPOLE,
        environment='gym:CartPole-v1',
        seed=seed,
        max_actor_steps=60_000,
        evaluation_episodes=20,
        evaluation_period_seconds=4.0,
    ), experiment.Topology(envs_per_actor=16)


VARIANTS = {'apex_dqn': make}
