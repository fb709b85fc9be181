"""What the adders share: how far each lane is in its episode, and what it saw."""

from __future__ import annotations

import numpy as np
import tree

from repertory.components import types


def count_steps(steps: np.ndarray, is_first: np.ndarray) -> np.ndarray:
    """Returns the steps [N] of each lane's episode after one more row.

    Args:
        steps: int [N] before; -1 where no episode has begun.
        is_first: bool [N], of the row.

    Raises:
        ValueError: if a lane's first row is not FIRST.
    """
    not_begun = np.flatnonzero((steps < 0) & ~is_first)
    if len(not_begun):
        raise ValueError(
            f"step_type of a lane's first row must be FIRST, got another in lanes "
            f'{not_begun.tolist()}; add the rows from the reset on.'
        )
    return np.where(is_first, 0, steps + 1)


class History:
    """The last rows of all lanes, for priorities; without the recurrent state.

    Args:
        size: rows that are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._scalars: list[np.ndarray] = []  # Of [size, N], written in turn.
        self._extras: types.Nest = None
        self.now = -1

    def append(self, row: types.Row) -> None:
        """Keeps a row; `now` is its number."""
        scalars = (row.reward, row.discount, row.step_type)
        extras = {name: row.extras[name] for name in row.extras if name != 'state'}
        if not self._scalars:
            self._scalars = [self._make_buffer(leaf) for leaf in scalars]
            self._extras = tree.map_structure(self._make_buffer, extras)
        self.now += 1
        slot = self.now % self._size
        for buffer, leaf in zip(self._scalars, scalars, strict=True):
            buffer[slot] = leaf
        tree.map_structure(
            lambda buffer, leaf: buffer.__setitem__(slot, leaf), self._extras, extras
        )

    def scalars(
        self, times: np.ndarray, lanes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns reward, discount and step type of rows; those to come are PADDING."""
        slots, is_padding = np.minimum(times, self.now) % self._size, times > self.now
        reward, discount, step_type = (leaf[slots, lanes] for leaf in self._scalars)
        return (
            np.where(is_padding, np.zeros_like(reward), reward),
            np.where(is_padding, np.ones_like(discount), discount),
            np.where(
                is_padding, step_type.dtype.type(types.StepType.PADDING), step_type
            ),
        )

    def extras(self, times: np.ndarray, lanes: np.ndarray) -> dict[str, types.Nest]:
        """Returns the extras of rows; for those to come, the newest ones."""
        slots = np.minimum(times, self.now) % self._size
        return tree.map_structure(lambda leaf: leaf[slots, lanes], self._extras)

    def _make_buffer(self, leaf: np.ndarray) -> np.ndarray:
        return np.zeros((self._size, *leaf.shape), leaf.dtype)
