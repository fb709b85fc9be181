"""Ape-X DPG on Pendulum-v1: -250 within 100,000 environment steps."""

from repertory.agents import apex_dpg
from repertory.launch import experiment

TARGET = -250.0


def make(seed: int):
    return experiment.ExperimentConfig(
        agent=apex_dpg.PENDULUM,
        environment='gym:Pendulum-v1',
        seed=seed,
        max_actor_steps=12_000,
        evaluation_episodes=20,
        evaluation_period_seconds=10.0,
    ), experiment.Topology(envs_per_actor=4)


VARIANTS = {'apex_dpg': make}
