"""An environment of Atari's shapes that costs next to nothing, for both sides."""

from __future__ import annotations

import dm_env
import numpy as np
from dm_env import specs

from repertory.components import specs as specs_lib

_NUM_FRAMES = 64  # As many as there are different ones.
_STACKED = 4
_LENGTH = 1_000  # Environment steps of an episode.


class Frames(dm_env.Environment):
    """Shows stacks uint8 [84, 84, 4] of random frames for episodes of 1,000 steps.

    They are those of `FrameStack` over single frames, made beforehand: at each step a
    new frame, at the first one its frame four times.
    """

    def __init__(self, seed: int):
        random = np.random.default_rng(seed)
        frames = random.integers(0, 256, (_NUM_FRAMES, 84, 84), np.uint8)
        # Behind the stacks of an episode's first steps come those of all others.
        times = np.arange(_STACKED + _NUM_FRAMES)[:, None] + np.arange(1 - _STACKED, 1)
        self._stacks = np.stack(
            [
                np.stack(frames[np.maximum(row, 0) % _NUM_FRAMES], axis=-1)
                for row in times
            ]
        )
        self._time = 0

    def reset(self) -> dm_env.TimeStep:
        self._time = 0
        return dm_env.restart(self._stacks[0])

    def step(self, action) -> dm_env.TimeStep:
        if self._time == _LENGTH:
            return self.reset()
        self._time += 1
        reward = np.float32(self._time % 7 == 0)
        time = self._time
        if time >= _STACKED:
            time = _STACKED + (time - _STACKED) % _NUM_FRAMES
        if self._time == _LENGTH:
            end = dm_env.termination(reward, self._stacks[time])
            return end._replace(discount=np.float32(0))
        return dm_env.transition(reward, self._stacks[time], np.float32(1))

    def observation_spec(self) -> specs_lib.StackedFrames:
        shape = (84, 84, _STACKED)
        return specs_lib.StackedFrames(shape, np.uint8, 0, 255, 'frames')

    def action_spec(self) -> specs.DiscreteArray:
        return specs.DiscreteArray(6, name='action')

    def reward_spec(self) -> specs.Array:
        return specs.Array((), np.float32, 'reward')

    def discount_spec(self) -> specs.Array:
        return specs.BoundedArray((), np.float32, 0, 1, 'discount')
