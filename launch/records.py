"""Configs as JSON and back."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
from typing import Any

# Each marks a JSON object that stands for something else; none is a field's name.
_CLASS, _IMPORT, _PARTIAL, _LOST = 'class', 'import', 'partial', 'cannot be read back'


def encode(value: Any) -> Any:
    """Returns what JSON can hold of a config.

    A dataclass keeps its class, a module's function or class its import path. What
    cannot be read back, such as a lambda, keeps its name for the reader.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: encode(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
        return {_CLASS: _import_path(type(value)), **fields}
    if isinstance(value, dict):
        return {str(key): encode(leaf) for key, leaf in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(leaf) for leaf in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, functools.partial):
        arguments, keywords = encode(list(value.args)), encode(value.keywords)
        return {_PARTIAL: encode(value.func), 'args': arguments, 'keywords': keywords}
    path = _import_path(value)
    try:
        importable = _find(path) is value
    except (ImportError, AttributeError):
        importable = False
    # The module `__main__` is another one when the record is read.
    if importable and not path.startswith('__main__:'):
        return {_IMPORT: path}
    return {_LOST: path or repr(value)}


def decode(record: Any) -> Any:
    """Returns the config that `encode` was given; a list comes back as a tuple.

    It imports what the record names: read only records that you trust.

    Raises:
        ValueError: if a part cannot be read back or does not fit, naming it.
    """
    return _decode(record, 'config')


def differences(before: Any, after: Any) -> dict[str, tuple[Any, Any]]:
    """Returns the fields in which two encoded configs differ, with both values."""
    old, new = _flatten(before), _flatten(after)
    absent = 'absent'
    return {
        name: (old.get(name, absent), new.get(name, absent))
        for name in [*old, *(name for name in new if name not in old)]
        if old.get(name, absent) != new.get(name, absent)
    }


def _decode(record: Any, name: str) -> Any:
    if isinstance(record, list):
        return tuple(
            _decode(leaf, f'{name}[{index}]') for index, leaf in enumerate(record)
        )
    if not isinstance(record, dict):
        return record
    if _LOST in record:
        raise ValueError(
            f'{name} must be importable to be read back, got {record[_LOST]}; define '
            'it at the top of a module, or run the script that made it again.'
        )
    leaves = {key: _decode(leaf, f'{name}.{key}') for key, leaf in record.items()}
    try:
        if _IMPORT in record:
            return _find(leaves[_IMPORT])
        if _PARTIAL in record:
            args, keywords = leaves['args'], leaves['keywords']
            return functools.partial(leaves[_PARTIAL], *args, **keywords)
        if _CLASS in record:
            return _find(leaves.pop(_CLASS))(**leaves)
    except (ImportError, AttributeError, TypeError) as error:
        raise ValueError(
            f'{name} must fit the code that reads it, got {error}; use the version '
            'that wrote it.'
        ) from error
    return leaves


def _import_path(value: Any) -> str:
    name = getattr(value, '__qualname__', None)
    return f'{value.__module__}:{name}' if name else ''


def _find(path: str) -> Any:
    module, _, name = path.partition(':')
    if not name:
        raise AttributeError(f'{path!r} is no import path')
    return functools.reduce(getattr, name.split('.'), importlib.import_module(module))


def _flatten(record: Any, prefix: str = '') -> dict[str, Any]:
    if not isinstance(record, dict):
        return {prefix: record}
    leaves: dict[str, Any] = {}
    for key, value in record.items():
        leaves |= _flatten(value, f'{prefix}.{key}' if prefix else key)
    return leaves
