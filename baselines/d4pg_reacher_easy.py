"""D4PG on dm_control's reacher:easy: 700 within 150,000 environment steps."""

from repertory.agents import d4pg
from repertory.launch import experiment

TARGET = 700.0
NUM_SEEDS = 3


def make(seed: int):
    return experiment.ExperimentConfig(
        agent=d4pg.CONTROL,
        environment='control:reacher:easy',
        seed=seed,
        max_actor_steps=80_000,
        evaluation_episodes=10,
        evaluation_period_seconds=30.0,
    ), experiment.Topology(envs_per_actor=4)


VARIANTS = {'d4pg': make}
