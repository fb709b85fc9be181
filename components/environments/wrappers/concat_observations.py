"""One flat vector for a nest of observations."""

from __future__ import annotations

import dm_env
import numpy as np
import tree
from dm_env import specs

from repertory.components.environments.wrappers import base


class ConcatObservations(base.EnvironmentWrapper):
    """Concatenates all fields, flattened, into one float32 vector.

    Fields follow each other as `tree.flatten` lists them: a dict's by sorted key.
    """

    def __init__(self, environment: dm_env.Environment):
        super().__init__(environment)
        leaves = tree.flatten(environment.observation_spec())
        self._sizes = [int(np.prod(leaf.shape, dtype=int)) for leaf in leaves]
        self._spec = specs.Array((sum(self._sizes),), np.float32, 'observation')

    def reset(self) -> dm_env.TimeStep:
        return self._concat(self._environment.reset())

    def step(self, action) -> dm_env.TimeStep:
        return self._concat(self._environment.step(action))

    def observation_spec(self) -> specs.Array:
        return self._spec

    def _concat(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
        vector = np.empty(self._spec.shape, np.float32)
        start = 0
        for size, leaf in zip(self._sizes, tree.flatten(timestep.observation)):
            vector[start : start + size] = np.reshape(leaf, -1)
            start += size
        return timestep._replace(observation=vector)
