"""What a row of values may hold, and how it becomes flat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Scalar = bool | int | float | str


def flatten(values: Mapping[str, Any]) -> dict[str, Scalar]:
    """Returns the row with nested names joined by '/' and NumPy's scalars as Python's.

    A float32 becomes the shortest float that reads the same: 0.1, not 0.10000000149.

    Raises:
        TypeError: if a value is no scalar, naming it.
    """
    row: dict[str, Scalar] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            row |= {f'{name}/{key}': leaf for key, leaf in flatten(value).items()}
        elif isinstance(value, (bool, int, float, str)) and not isinstance(
            value, np.generic
        ):
            row[name] = value
        else:
            row[name] = _scalar(name, value)
    return row


def _scalar(name: str, value: Any) -> Scalar:
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in 'biufU':
        raise TypeError(
            f'{name} must be a number or a string, got {type(value).__name__} of '
            f'shape {list(array.shape)} and dtype {array.dtype}; log its mean.'
        )
    if array.dtype.kind == 'f' and array.dtype.itemsize < 8:
        return float(str(array.reshape(())[()]))
    return array.item()
