"""R2D2 on bsuite's memory_len/10: 0.9 within 60,000 environment steps.

A bit is shown once and asked for 12 steps later; guessing gives 0 in the mean. The
first evaluations say little: an untrained LSTM can tell the bits apart by chance.
"""

from repertory.agents import r2d2
from repertory.launch import experiment

TARGET = 0.9
NUM_SEEDS = 3


def make(seed: int):
    return experiment.ExperimentConfig(
        agent=r2d2.Config(),
        environment='bsuite:memory_len/10',
        seed=seed,
        max_actor_steps=60_000,
        evaluation_episodes=100,
        evaluation_period_seconds=4.0,
    ), experiment.Topology(envs_per_actor=16)


VARIANTS = {'r2d2': make}
