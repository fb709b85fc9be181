"""What the adders share: how far each lane is in its episode."""

from __future__ import annotations

import numpy as np


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
