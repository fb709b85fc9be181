"""Stacks the last observations of an episode."""

from __future__ import annotations

import collections

import dm_env
import numpy as np
import tree
from dm_env import specs

from repertory.components import specs as specs_lib
from repertory.components import types
from repertory.components.environments.wrappers import base


class FrameStack(base.EnvironmentWrapper):
    """Adds a last axis that holds the newest observations, the newest last.

    Frames are of one episode only: at its first step the first frame is repeated. The
    spec says that they are a stack, so replay stores each frame once.

    Args:
        environment: with any nest of observations.
        num_frames: at least 1.

    Raises:
        ValueError: if `num_frames` is less than 1.
    """

    def __init__(self, environment: dm_env.Environment, num_frames: int):
        super().__init__(environment)
        if num_frames < 1:
            raise ValueError(f'num_frames must be >= 1, got {num_frames}.')
        self._frames: collections.deque[types.Nest] = collections.deque(
            maxlen=num_frames
        )
        self._num_frames = num_frames
        self._single_array = isinstance(environment.observation_spec(), specs.Array)

    def reset(self) -> dm_env.TimeStep:
        return self._stack(self._environment.reset())

    def step(self, action) -> dm_env.TimeStep:
        return self._stack(self._environment.step(action))

    def observation_spec(self) -> types.Nest:
        return tree.map_structure(self._extend, self._environment.observation_spec())

    def _stack(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
        # Copied, for the environment may write to its arrays again.
        if self._single_array:
            frame = np.array(timestep.observation)
        else:
            frame = tree.map_structure(np.array, timestep.observation)
        self._frames.extend([frame] * (self._num_frames if timestep.first() else 1))
        if self._single_array:
            return timestep._replace(observation=np.stack(self._frames, axis=-1))
        return timestep._replace(
            observation=tree.map_structure(
                lambda *frames: np.stack(frames, axis=-1), *self._frames
            )
        )

    def _extend(self, spec: specs.Array) -> specs_lib.StackedFrames:
        # Bounds may be per element: a last axis lets them broadcast.
        minimum, maximum = (bound[..., None] for bound in _bounds(spec))
        shape = (*spec.shape, self._num_frames)
        return specs_lib.StackedFrames(shape, spec.dtype, minimum, maximum, spec.name)


def _bounds(spec: specs.Array) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(spec, specs.BoundedArray):
        return spec.minimum, spec.maximum
    if spec.dtype.kind == 'f':
        return np.array(-np.inf), np.array(np.inf)
    if spec.dtype.kind == 'b':
        return np.array(False), np.array(True)
    limits = np.iinfo(spec.dtype)
    return np.array(limits.min), np.array(limits.max)
