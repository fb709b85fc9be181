"""Ape-X DQN on CartPole-v1: 400 within 200,000 environment steps."""

from repertory.agents import apex_dqn
from repertory.launch import experiment

TARGET = 400.0


def make(seed: int):
    return experiment.ExperimentConfig(
        agent=apex_dqn.Config(max_replay_size=50_000, learning_rate=5e-4),
        environment='gym:CartPole-v1',
        seed=seed,
        max_actor_steps=200_000,
        evaluation_episodes=20,
        evaluation_period_seconds=10.0,
    ), experiment.Topology(envs_per_actor=16)


VARIANTS = {'apex_dqn': make}
