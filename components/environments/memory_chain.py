"""A cue at the start, asked for again and again: a test of memory."""

from __future__ import annotations

import dm_env
import numpy as np
from dm_env import specs


class MemoryChain(dm_env.Environment):
    """Shows one of some symbols at step 0 and asks for it every `query_period` steps.

    The observation is float32 [num_symbols + 1]: the symbol, one-hot, at step 0 only,
    then a flag that is 1 where the symbol is asked for. Nothing else changes in time,
    so what is not remembered is not known. The action taken from an asking
    observation is the answer, and all other actions are without effect. A right
    answer is rewarded with 1 / num_queries, with the next observation; the last
    answer terminates the episode. An agent without memory is right once in
    num_symbols times, unless it sees its own previous action and copies it on.

    Args:
        seed: in [0, 2^31).
        num_symbols: at least 2.
        query_period: environment steps, at least 1.
        num_queries: at least 1.

    Raises:
        ValueError: if one of these is less.
    """

    def __init__(
        self,
        seed: int,
        num_symbols: int = 4,
        query_period: int = 8,
        num_queries: int = 6,
    ):
        for name, value, least in (
            ('num_symbols', num_symbols, 2),
            ('query_period', query_period, 1),
            ('num_queries', num_queries, 1),
        ):
            if value < least:
                raise ValueError(f'{name} must be >= {least}, got {value}.')
        self._random = np.random.default_rng(seed)
        self._num_symbols = num_symbols
        self._query_period = query_period
        self._num_queries = num_queries
        self._cue = self._time = 0
        self._correct: list[bool] = []
        self._ended = True
        #: Of the last complete episode, bool [num_queries]; None before there is one.
        self.last_episode_correct: np.ndarray | None = None

    def reset(self) -> dm_env.TimeStep:
        self._cue = int(self._random.integers(self._num_symbols))
        self._time = 0
        self._correct = []
        self._ended = False
        return dm_env.restart(self._observation())

    def step(self, action) -> dm_env.TimeStep:
        if self._ended:
            return self.reset()
        reward = 0.0
        if self._asks():
            self._correct.append(bool(action == self._cue))
            reward = self._correct[-1] / self._num_queries
        self._time += 1
        self._ended = len(self._correct) == self._num_queries
        if self._ended:
            self.last_episode_correct = np.array(self._correct)
        return dm_env.TimeStep(
            dm_env.StepType.LAST if self._ended else dm_env.StepType.MID,
            np.float32(reward),
            np.float32(not self._ended),
            self._observation(),
        )

    def observation_spec(self) -> specs.BoundedArray:
        shape = (self._num_symbols + 1,)
        return specs.BoundedArray(shape, np.float32, 0, 1, 'cue_and_query')

    def action_spec(self) -> specs.DiscreteArray:
        return specs.DiscreteArray(self._num_symbols, name='answer')

    def reward_spec(self) -> specs.BoundedArray:
        return specs.BoundedArray((), np.float32, 0, 1 / self._num_queries, 'reward')

    def discount_spec(self) -> specs.BoundedArray:
        return specs.BoundedArray((), np.float32, 0, 1, 'discount')

    def _asks(self) -> bool:
        return self._time > 0 and self._time % self._query_period == 0

    def _observation(self) -> np.ndarray:
        observation = np.zeros(self._num_symbols + 1, np.float32)
        if self._time == 0:
            observation[self._cue] = 1
        if self._asks() and not self._ended:
            observation[-1] = 1
        return observation
