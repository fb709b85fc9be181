"""What environments return, as arrays and numbers that their specs' dtypes hold."""

from __future__ import annotations

import functools
import numbers
from typing import Any

import numpy as np


def read(leaf: Any, dtype: np.dtype) -> np.ndarray | None:
    """Returns a leaf of an observation as an array; None where it is none of `dtype`.

    Arrays and scalars of NumPy keep their dtype. Of what else NumPy can read, integers
    become floats, and one that is in its range any integer; no fraction is cut off.

    Args:
        leaf: anything.
        dtype: the spec's.
    """
    if isinstance(leaf, (np.ndarray, np.generic)):
        return np.asarray(leaf)
    try:
        found = np.asarray(leaf)
        if found.dtype == dtype:
            return found
        if found.dtype.kind in 'biu' and dtype.kind in 'biu':
            fits = _is_in_range(found, dtype)
        elif found.dtype.kind == 'O':  # Such as of Fraction, or of ragged lists.
            fits = dtype.kind == 'f' and all(
                isinstance(one, numbers.Number) for one in found.flat
            )
        else:
            fits = not found.size or np.can_cast(found.dtype, dtype, 'same_kind')
        return found.astype(dtype) if fits else None
    except (TypeError, ValueError, OverflowError, np.VisibleDeprecationWarning):
        return None


def number(value: Any) -> float | None:
    """Returns a real number, or an array [] of one, as a float; None for another."""
    try:
        found = np.asarray(value)
        if found.ndim or found.dtype.kind not in 'biufO':
            return None
        item = found.item()
        return None if isinstance(item, (str, bytes)) else float(item)
    except (TypeError, ValueError, OverflowError, np.VisibleDeprecationWarning):
        return None


def describe(leaf: Any) -> str:
    """Returns dtype and shape of an array or number, of another thing its type."""
    if isinstance(leaf, numbers.Number) and not hasattr(leaf, 'dtype'):
        leaf = np.asarray(leaf)
    if not hasattr(leaf, 'dtype'):
        return type(leaf).__name__
    return f'{np.dtype(leaf.dtype).name}{list(leaf.shape)}'


def _is_in_range(integers: np.ndarray, dtype: np.dtype) -> bool:
    low, high = _limits(dtype)
    if not integers.ndim:
        return low <= integers.item() <= high
    return not integers.size or bool(
        low <= int(integers.min()) and int(integers.max()) <= high
    )


@functools.cache
def _limits(dtype: np.dtype) -> tuple[int, int]:
    if dtype.kind == 'b':
        return 0, 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)
