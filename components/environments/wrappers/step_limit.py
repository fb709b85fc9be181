"""Cuts episodes after a number of steps."""

from __future__ import annotations

import dm_env

from repertory.components.environments.wrappers import base


class StepLimit(base.EnvironmentWrapper):
    """Truncates: the step that reaches the limit is LAST and keeps its discount.

    The value of the final observation still counts: an episode cut
    here has not ended in the environment.

    Args:
        environment: any.
        limit: environment steps, at least 1.

    Raises:
        ValueError: if `limit` is less than 1.
    """

    def __init__(self, environment: dm_env.Environment, limit: int):
        super().__init__(environment)
        if limit < 1:
            raise ValueError(f'limit must be >= 1, got {limit}.')
        self._limit = limit
        self._num_steps = 0
        self._ended = True

    def reset(self) -> dm_env.TimeStep:
        self._num_steps = 0
        self._ended = False
        return self._environment.reset()

    def step(self, action) -> dm_env.TimeStep:
        if self._ended:
            return self.reset()
        timestep = self._environment.step(action)
        self._num_steps += 1
        if self._num_steps == self._limit:
            timestep = timestep._replace(step_type=dm_env.StepType.LAST)
        self._ended = timestep.last()
        return timestep
