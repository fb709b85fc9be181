"""Ape-X DQN with sides that can be slowed down; nodes import it by name."""

from __future__ import annotations

import dataclasses
import time

from repertory.agents.apex_dqn import builder, config
from repertory.components.environments import catch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(config.Config):
    """Ape-X DQN whose learner sleeps before each call."""

    learner_sleep_seconds: float = 0.0
    """Before each learner call."""

    def make_builder(self):
        return Builder(self)


class Builder(builder.Builder):
    """Hands the learner its samples late."""

    def make_learner(
        self, networks, target_networks, environment_spec, samples, replay_addresses
    ):
        def late():
            while True:
                time.sleep(self._config.learner_sleep_seconds)
                yield next(samples)

        return super().make_learner(
            networks, target_networks, environment_spec, late(), replay_addresses
        )


class SlowCatch(catch.Catch):
    """Catch that sleeps at each step."""

    def step(self, action):
        time.sleep(0.001)
        return super().step(action)


def make_slow_catch(seed):
    return SlowCatch(seed=seed)
