"""What every wrapper inherits: all calls go to the environment inside."""

from __future__ import annotations

from typing import Any

import dm_env


def names(environment: dm_env.Environment) -> list[str]:
    """Returns the classes' names, from the outermost wrapper to the environment."""
    found = [type(environment).__name__]
    while isinstance(environment, EnvironmentWrapper):
        environment = environment._environment
        found.append(type(environment).__name__)
    return found


class EnvironmentWrapper(dm_env.Environment):
    """Hands every call on; a subclass overrides what it changes."""

    def __init__(self, environment: dm_env.Environment):
        self._environment = environment

    def reset(self) -> dm_env.TimeStep:
        return self._environment.reset()

    def step(self, action) -> dm_env.TimeStep:
        return self._environment.step(action)

    def observation_spec(self):
        return self._environment.observation_spec()

    def action_spec(self):
        return self._environment.action_spec()

    def reward_spec(self):
        return self._environment.reward_spec()

    def discount_spec(self):
        return self._environment.discount_spec()

    def close(self) -> None:
        self._environment.close()

    def __getattr__(self, name: str) -> Any:
        # Attributes of the environment inside stay reachable, such as `last_info`.
        if name.startswith('_'):
            raise AttributeError(name)
        return getattr(self._environment, name)
