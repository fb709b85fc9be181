"""Specs of observations and actions as JSON and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import tree
from dm_env import specs as dm_specs

from repertory.components import types


def leaf_names(nest: types.Nest) -> list[str]:
    """Returns the leaves' paths, in dm-tree's order."""
    return ['.'.join(map(str, path)) for path, _ in tree.flatten_with_path(nest)]


def encode(nest: types.Nest) -> Any:
    """Returns what JSON can hold of a nest of specs."""
    if isinstance(nest, dict):
        return {'dict': {key: encode(leaf) for key, leaf in nest.items()}}
    if isinstance(nest, (tuple, list)):
        kind = 'list' if isinstance(nest, list) else 'tuple'
        return {kind: [encode(leaf) for leaf in nest]}
    record = {'shape': list(nest.shape), 'dtype': np.dtype(nest.dtype).name}
    if isinstance(nest, dm_specs.BoundedArray):
        record |= {'minimum': nest.minimum.tolist(), 'maximum': nest.maximum.tolist()}
    return record | {'name': nest.name}


def decode(record: Any) -> types.Nest:
    """Returns the nest that `encode` was given."""
    if 'dict' in record:
        return {key: decode(leaf) for key, leaf in record['dict'].items()}
    if 'list' in record:
        return [decode(leaf) for leaf in record['list']]
    if 'tuple' in record:
        return tuple(decode(leaf) for leaf in record['tuple'])
    make = dm_specs.BoundedArray if 'minimum' in record else dm_specs.Array
    return make(**{**record, 'dtype': np.dtype(record['dtype'])})
