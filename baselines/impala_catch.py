"""IMPALA on Catch: 0.9 within 200,000 environment steps."""

from repertory.agents import impala
from repertory.launch import experiment

TARGET = 0.9


def make(seed: int):
    return experiment.ExperimentConfig(
        agent=impala.Config(),
        environment='catch',
        seed=seed,
        max_actor_steps=200_000,
        evaluation_episodes=50,
        evaluation_period_seconds=2.0,
    ), experiment.Topology(envs_per_actor=16)


VARIANTS = {'impala': make}
