"""What the adders share: steps of episodes, and what may be a priority."""

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


def check_priorities(priorities: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    """Returns the priorities as float64 [K].

    Raises:
        FloatingPointError: if one is not finite.
        ValueError: if one is not positive: its item would never be sampled.
    """
    priorities = np.asarray(priorities, np.float64)
    if priorities.shape != lanes.shape:
        raise ValueError(
            f'priorities must be of shape {list(lanes.shape)}, one for each item, got '
            f'{list(priorities.shape)}.'
        )
    bad = np.flatnonzero(~np.isfinite(priorities))
    if len(bad):
        raise FloatingPointError(
            f'priority must be finite, got {priorities[bad[0]]} in lane '
            f'{lanes[bad[0]]}; nothing was written for this step.'
        )
    bad = np.flatnonzero(priorities <= 0)
    if len(bad):
        raise ValueError(
            f'priority must be > 0, got {priorities[bad[0]]} in lane {lanes[bad[0]]}; '
            'the item would never be sampled: add a floor.'
        )
    return priorities
