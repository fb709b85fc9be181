"""D4PG on Pendulum-v1: -200 within 60,000 environment steps.

Variants: D3PG, D4PG with prioritized replay, and a control that must fail, whose
support cannot tell values apart.
"""

import dataclasses
import functools

from repertory.agents import d4pg
from repertory.launch import experiment

TARGET = -200.0


def make(seed: int, **changes):
    return experiment.ExperimentConfig(
        agent=dataclasses.replace(d4pg.PENDULUM, **changes),
        environment='gym:Pendulum-v1',
        seed=seed,
        max_actor_steps=20_000,
        evaluation_episodes=20,
        evaluation_period_seconds=15.0,
    ), experiment.Topology(envs_per_actor=4)


VARIANTS = {
    'd4pg': make,
    # A squared loss wants values of some size, which a cross-entropy does not see.
    'd3pg': functools.partial(make, critic='scalar', reward_scale=0.1),
    'prioritized': functools.partial(make, sampler='prioritized'),
    # Of rewards as they are. Of rewards / 100 it tells the best returns apart, which
    # is enough for some seeds.
    'support_of_one': functools.partial(make, vmin=-1.0, vmax=1.0, reward_scale=1.0),
}
