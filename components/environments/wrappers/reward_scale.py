"""Multiplies rewards."""

from __future__ import annotations

import math

import dm_env
from dm_env import specs

from repertory.components.environments.wrappers import base


class RewardScale(base.EnvironmentWrapper):
    """Multiplies each reward by `scale`; returns that are logged are scaled too.

    Raises:
        ValueError: if `scale` is not a finite number greater than 0.
    """

    def __init__(self, environment: dm_env.Environment, scale: float):
        super().__init__(environment)
        if not (math.isfinite(scale) and scale > 0):
            raise ValueError(f'scale must be finite and > 0, got {scale}.')
        self._scale = scale

    def step(self, action) -> dm_env.TimeStep:
        timestep = self._environment.step(action)
        if timestep.first():
            return timestep
        return timestep._replace(reward=timestep.reward * self._scale)

    def reward_spec(self) -> specs.Array:
        spec = self._environment.reward_spec()
        if not isinstance(spec, specs.BoundedArray):
            return specs.Array(spec.shape, float, spec.name)
        minimum, maximum = spec.minimum * self._scale, spec.maximum * self._scale
        return specs.BoundedArray(spec.shape, float, minimum, maximum, spec.name)
