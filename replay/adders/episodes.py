"""What the adders share: how far each lane is in its episode, and what it saw."""

from __future__ import annotations

import numpy as np
import tree

from repertory.components import types

_OTHERS = 'state', 'version'


def count_steps(steps: np.ndarray, is_first: np.ndarray) -> np.ndarray:
    """Returns the steps [N] of each lane's episode after one more row.

    Args:
        steps: int [N] before; -1 where no episode has begun.
        is_first: bool [N], of the row.

    Raises:
        ValueError: if a lane's first row is not FIRST.
    """
    if steps.min() < 0:
        not_begun = np.flatnonzero((steps < 0) & ~is_first)
        if len(not_begun):
            raise ValueError(
                f"step_type of a lane's first row must be FIRST, got another in lanes "
                f'{not_begun.tolist()}; add the rows from the reset on.'
            )
    return np.where(is_first, 0, steps + 1)


class History:
    """The last rows of all lanes, for priorities.

    Without the extras that `actor.PolicyActor` adds: `state` and `version`.

    Args:
        size: rows that are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._buffers: list[np.ndarray] = []  # Of [size, N, ...], written in turn.
        self._extras: types.Nest = None  # Those of the buffers that are extras.
        self.now = -1

    def append(self, row: types.Row) -> None:
        """Keeps a row; `now` is its number."""
        extras = {name: row.extras[name] for name in row.extras if name not in _OTHERS}
        leaves = [row.reward, row.discount, row.step_type, *tree.flatten(extras)]
        if not self._buffers:
            self._buffers = [
                np.zeros((self._size, *leaf.shape), leaf.dtype) for leaf in leaves
            ]
            self._extras = tree.unflatten_as(extras, self._buffers[3:])
        self.now += 1
        slot = self.now % self._size
        for buffer, leaf in zip(self._buffers, leaves, strict=True):
            buffer[slot] = leaf

    def scalars(
        self, times: np.ndarray, lanes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns reward, discount and step type of rows; those to come are PADDING."""
        is_padding = times > self.now
        slots = np.minimum(times, self.now) % self._size
        reward, discount, step_type = (leaf[slots, lanes] for leaf in self._buffers[:3])
        if not is_padding.any():
            return reward, discount, step_type
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
