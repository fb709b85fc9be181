"""An environment of Atari's shapes that costs nothing, for both sides."""

from __future__ import annotations

import dm_env
import numpy as np
from dm_env import specs

_NUM_FRAMES = 64


class Frames(dm_env.Environment):
    """Shows random frames uint8 [84, 84, 4] for episodes of 1,000 steps."""

    def __init__(self, seed: int):
        random = np.random.default_rng(seed)
        shape = (_NUM_FRAMES, 84, 84, 4)
        self._frames = random.integers(0, 256, shape, np.uint8)
        self._time = 0

    def reset(self) -> dm_env.TimeStep:
        self._time = 0
        return dm_env.restart(self._frames[0])

    def step(self, action) -> dm_env.TimeStep:
        if self._time == 1_000:
            return self.reset()
        self._time += 1
        reward = np.float32(self._time % 7 == 0)
        observation = self._frames[self._time % _NUM_FRAMES]
        if self._time == 1_000:
            return dm_env.termination(reward, observation)
        return dm_env.transition(reward, observation, np.float32(1))

    def observation_spec(self) -> specs.BoundedArray:
        return specs.BoundedArray((84, 84, 4), np.uint8, 0, 255, 'frames')

    def action_spec(self) -> specs.DiscreteArray:
        return specs.DiscreteArray(6, name='action')

    def reward_spec(self) -> specs.Array:
        return specs.Array((), np.float32, 'reward')
