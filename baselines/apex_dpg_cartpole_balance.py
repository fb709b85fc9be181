"""Ape-X DPG on dm_control's cartpole:balance: 950 within 15,000 environment steps."""

from repertory.agents import apex_dpg
from repertory.launch import experiment

TARGET = 950.0
NUM_SEEDS = 3


def make(seed: int):
    return experiment.ExperimentConfig(
        agent=apex_dpg.PENDULUM,
        environment='control:cartpole:balance',
        seed=seed,
        max_actor_steps=15_000,
        evaluation_episodes=4,
        evaluation_period_seconds=15.0,
    ), experiment.Topology(envs_per_actor=4)


VARIANTS = {'apex_dpg': make}
