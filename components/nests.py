"""Nests taken apart and built again; no TensorFlow is imported here."""

from __future__ import annotations

import collections
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tree

from repertory.components import specs, types


def flatten_action(action_spec: types.Nest, action: types.Nest) -> list[Any]:
    """Returns the leaves of a policy's action, in the order of the spec's.

    Raises:
        ValueError: if the action has not the structure of its spec.
    """
    try:
        tree.assert_same_structure(action_spec, action)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f'the action must have the structure of {specs.describe(action_spec)}, '
            f'got {tree.map_structure(lambda leaf: type(leaf).__name__, action)}; nest '
            'it in the policy as the environment does.'
        ) from error
    return tree.flatten(action)


def flattener(structure: types.Nest) -> Callable[[Any], list]:
    """Returns `tree.flatten` of one structure, to which each nest is compared.

    The function raises TypeError or ValueError where a nest has other names, lengths or
    kinds than `structure`. A leaf it does not look at: who may be given a nest there
    has to.
    """
    read = _reader(structure)
    return read if read is not None else lambda leaf: [leaf]


def _reader(structure: types.Nest) -> Callable[[Any], list] | None:
    if not tree.is_nested(structure):
        return None
    if not isinstance(structure, (dict, list, tuple)):  # Rare, such as of attrs.
        return functools.partial(_read_any, structure)
    kind, size = type(structure), len(structure)
    is_dict = isinstance(structure, dict)
    keys = set(structure) if is_dict else set()
    names = sorted(structure) if is_dict else range(size)  # The order of `tree`.
    readers = [_reader(structure[name]) for name in names]
    is_flat = not any(readers)

    def read(nest: Any) -> list:
        # `tree` takes some other kinds for the same, such as an OrderedDict for a dict.
        if type(nest) is not kind and not (is_dict and isinstance(nest, dict)):
            tree.assert_same_structure(structure, nest)
        if len(nest) != size or (is_dict and nest.keys() != keys):
            raise ValueError(f'other names or another length than {structure}')
        if is_flat:
            return [nest[name] for name in names]
        leaves = []
        for name, reader in zip(names, readers):
            if reader is None:
                leaves.append(nest[name])
            else:
                leaves += reader(nest[name])
        return leaves

    return read


def _read_any(structure: types.Nest, nest: Any) -> list:
    tree.assert_same_structure(structure, nest)
    return tree.flatten(nest)


def unflattener(structure: types.Nest) -> Callable[[Sequence], Any]:
    """Returns `tree.unflatten_as` of one structure, at a tenth of its 14 microseconds.

    Args:
        structure: a nest; each part comes out as of the type that it is of here.

    Returns:
        a function, which raises ValueError if the number of leaves is another one.
    """
    build, wanted = _builder(structure), len(tree.flatten(structure))

    def unflatten(leaves: Sequence) -> Any:
        if len(leaves) != wanted:
            raise ValueError(
                f'leaves must be {wanted}, as of {structure}, got {len(leaves)}; give '
                'both sides the same specs.'
            )
        return build(iter(leaves))

    return unflatten


# What `_builder` makes anew of its parts; of another kind may be more than they.
_KINDS = (dict, collections.OrderedDict, list, tuple)


def _builder(structure: types.Nest) -> Callable[[Iterator], Any]:
    if not tree.is_nested(structure):
        return next
    is_named = isinstance(structure, tuple) and hasattr(structure, '_fields')
    if type(structure) not in _KINDS and not is_named:  # Rare, such as of attrs.
        size = len(tree.flatten(structure))
        return lambda leaves: tree.unflatten_as(
            structure, list(itertools.islice(leaves, size))
        )
    if isinstance(structure, dict):
        names = sorted(structure)  # The order of `tree`.
        values = [_builder(structure[name]) for name in names]

        def build_dict(leaves: Iterator) -> dict:
            return {name: build(leaves) for name, build in zip(names, values)}

        is_ordered = isinstance(structure, collections.OrderedDict)
        container = collections.OrderedDict if is_ordered else dict
        order = list(structure)
        if container is dict and order == names:
            return build_dict

        def build_ordered(leaves: Iterator) -> dict:
            values = build_dict(leaves)
            return container((name, values[name]) for name in order)

        return build_ordered
    parts = [_builder(part) for part in structure]
    kind = tuple if isinstance(structure, tuple) else list
    make = getattr(structure, '_make', kind)
    return lambda leaves: make([build(leaves) for build in parts])
