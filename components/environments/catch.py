"""Catch: a ball falls, a paddle must be under it."""

from __future__ import annotations

import dm_env
import numpy as np
from dm_env import specs

_ZERO, _ONE = np.float32(0), np.float32(1)
_MOVES = (-1, 0, 1)


class Catch(dm_env.Environment):
    """The game of Mnih et al. (2014), "Recurrent Models of Visual Attention", sec. 4.2.

    The observation is float32 [rows, columns], 1 at the ball and at the paddle. The
    ball starts in the top row in a random column and falls one row a step; the
    paddle moves in the bottom row, by action 0 left, 1 not, 2 right. The episode
    terminates when the ball is down, after rows - 1 steps, with reward 1 if it is
    caught and -1 if not; all other rewards are 0.

    Raises:
        ValueError: if there are fewer than 2 rows or columns.
    """

    def __init__(self, seed: int, rows: int = 10, columns: int = 5):
        if rows < 2 or columns < 2:
            raise ValueError(
                f'rows and columns must be >= 2, got {rows} and {columns}; '
                'nothing could fall or be missed.'
            )
        self._random = np.random.default_rng(seed)
        self._rows = rows
        self._columns = columns
        self._ball_row = self._ball_column = self._paddle = 0
        self._ended = True

    def reset(self) -> dm_env.TimeStep:
        self._ball_row = 0
        self._ball_column = int(self._random.integers(self._columns))
        self._paddle = self._columns // 2
        self._ended = False
        return dm_env.restart(self._observation())

    def step(self, action) -> dm_env.TimeStep:
        if self._ended:
            return self.reset()
        paddle = self._paddle + _MOVES[action]
        self._paddle = min(max(paddle, 0), self._columns - 1)
        self._ball_row += 1
        if self._ball_row < self._rows - 1:
            return dm_env.TimeStep(
                dm_env.StepType.MID, _ZERO, _ONE, self._observation()
            )
        self._ended = True
        reward = _ONE if self._paddle == self._ball_column else -_ONE
        return dm_env.TimeStep(dm_env.StepType.LAST, reward, _ZERO, self._observation())

    def observation_spec(self) -> specs.BoundedArray:
        return specs.BoundedArray(
            (self._rows, self._columns), np.float32, 0, 1, 'board'
        )

    def action_spec(self) -> specs.DiscreteArray:
        return specs.DiscreteArray(len(_MOVES), name='action')

    def reward_spec(self) -> specs.BoundedArray:
        return specs.BoundedArray((), np.float32, -1, 1, 'reward')

    def discount_spec(self) -> specs.BoundedArray:
        return specs.BoundedArray((), np.float32, 0, 1, 'discount')

    def _observation(self) -> np.ndarray:
        board = np.zeros((self._rows, self._columns), np.float32)
        board[self._ball_row, self._ball_column] = 1
        board[self._rows - 1, self._paddle] = 1
        return board
