"""Repeats each action."""

from __future__ import annotations

import copy

import dm_env
import tree

from repertory.components import specs, types
from repertory.components.environments.wrappers import base


class ActionRepeat(base.EnvironmentWrapper):
    """Takes each action several times, or until the episode ends.

    One step's reward is the sum of what the inner steps give, each times the
    discounts before it; its discount is the product of theirs.

    Args:
        environment: any.
        num_repeats: inner steps for one step, at least 1.

    Raises:
        ValueError: if `num_repeats` is less than 1.
    """

    def __init__(self, environment: dm_env.Environment, num_repeats: int):
        super().__init__(environment)
        if num_repeats < 1:
            raise ValueError(f'num_repeats must be >= 1, got {num_repeats}.')
        self._num_repeats = num_repeats

    def observation_spec(self) -> types.Nest:
        # Of a stack's frames the agent sees only each `num_repeats`-th come.
        return specs.unstacked(self._environment.observation_spec())

    def step(self, action) -> dm_env.TimeStep:
        reward, discount = 0.0, 1.0
        for _ in range(self._num_repeats):
            # A copy, for the environment may write to its action.
            timestep = self._environment.step(tree.map_structure(copy.copy, action))
            if timestep.first():  # the episode had ended, and this is a reset
                return timestep
            reward = reward + discount * timestep.reward
            discount = discount * timestep.discount
            if timestep.last():
                break
        return timestep._replace(reward=reward, discount=discount)
