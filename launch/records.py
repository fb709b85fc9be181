"""Configs as JSON and back."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
from typing import Any

from repertory.launch import scripts

# Each marks a JSON object that stands for something else; none is a field's name.
_CLASS, _IMPORT, _PARTIAL, _LOST = 'class', 'import', 'partial', 'cannot be read back'
_NAMED = 'An environment can be given by --env /path/file.py:NAME.'


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
        return {_CLASS: scripts.import_path(type(value)), **fields}
    if isinstance(value, dict):
        return {str(key): encode(leaf) for key, leaf in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(leaf) for leaf in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, functools.partial):
        arguments, keywords = encode(list(value.args)), encode(value.keywords)
        return {_PARTIAL: encode(value.func), 'args': arguments, 'keywords': keywords}
    path = scripts.import_path(value)
    with contextlib.suppress(ImportError, AttributeError):
        if scripts.find(path) is value:
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
    old, new = flatten(before), flatten(after)
    absent = 'absent'
    return {
        name: (old.get(name, absent), new.get(name, absent))
        for name in [*old, *(name for name in new if name not in old)]
        if old.get(name, absent) != new.get(name, absent)
    }


def check_replay(path: pathlib.Path, experiment: Any, topology: Any) -> None:
    """Refuses a topology in which a saved replay would be lost in part.

    Args:
        path: of the topology that the run was saved with.
        experiment, topology: that it is to be resumed with.

    Raises:
        ValueError: if it has another number of replay shards, or of lanes where an
            item is of all of them.
    """
    if not experiment.checkpoint.replay or not path.exists():
        return
    names = ['replay_shards'] + [
        'envs_per_actor'
    ] * experiment.agent.items_hold_all_lanes
    saved = json.loads(path.read_text())
    for name in names:
        if saved[name] != getattr(topology, name):
            raise ValueError(
                f'{name} must be {saved[name]}, as the replay was saved, got '
                f'{getattr(topology, name)}; keep it, or resume without the replay: '
                '--checkpoint.no-replay, with --allow-changes.'
            )


def flatten(record: Any, prefix: str = '') -> dict[str, Any]:
    """Returns the leaves of an encoded config by their dotted names."""
    if not isinstance(record, dict):
        return {prefix: record}
    leaves: dict[str, Any] = {}
    for key, value in record.items():
        leaves |= flatten(value, f'{prefix}.{key}' if prefix else key)
    return leaves


def as_markdown(config: Any) -> str:
    """Returns a table of the config's fields."""
    rows = [f'| {k} | {v} |' for k, v in flatten(encode(config)).items()]
    return '\n'.join(['| field | value |', '|---|---|', *rows])


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
            f'it at the top of a module, or run the script that made it again. {_NAMED}'
        )
    leaves = {key: _decode(leaf, f'{name}.{key}') for key, leaf in record.items()}
    try:
        if _IMPORT in record:
            return scripts.find(leaves[_IMPORT])
        if _PARTIAL in record:
            args, keywords = leaves['args'], leaves['keywords']
            return functools.partial(leaves[_PARTIAL], *args, **keywords)
        if _CLASS in record:
            return scripts.find(leaves.pop(_CLASS))(**leaves)
    except ImportError as error:
        raise ValueError(
            f'{name} must be importable to be read back, got {error}; run in the '
            f'folder of its module or set PYTHONPATH, and define it in a file. {_NAMED}'
        ) from error
    except (AttributeError, TypeError) as error:
        raise ValueError(
            f'{name} must fit the code that reads it, got {error}; use the version '
            'that wrote it.'
        ) from error
    return leaves
