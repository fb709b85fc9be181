"""Refusals of values, in words, for the configs."""

from __future__ import annotations

import importlib.util
from typing import Any


def check_integer(value: Any, least: int, name: str) -> None:
    """Raises TypeError or ValueError unless `value` is an integer >= `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f'{name} must be an integer, got {value!r}.')
    if value < least:
        raise ValueError(f'{name} must be >= {least}, got {value}.')


def check_above(value: float, bound: float, name: str) -> None:
    """Raises ValueError unless `value` is above `bound`."""
    if not value > bound:
        raise ValueError(f'{name} must be > {bound}, got {value}.')


def check_member(value: Any, choices: tuple, name: str) -> None:
    """Raises ValueError unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(
            f'{name} must be one of {", ".join(map(repr, choices))}, got {value!r}.'
        )


def check_installed(package: str, extra: str, name: str) -> None:
    """Raises ValueError unless `package`, which `name` needs, can be imported."""
    if importlib.util.find_spec(package) is None:
        raise ValueError(
            f'{name} needs the package {package}, which is absent; '
            f"pip install 'repertory[{extra}]'."
        )
