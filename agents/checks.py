"""Refusals that several agents' configs share. Nothing here imports TensorFlow."""

from __future__ import annotations

import math
import numbers
import typing
from typing import Any


def choices(config: Any) -> None:
    """Checks each field that is one of some literals."""
    for name, hint in typing.get_type_hints(type(config)).items():
        if typing.get_origin(hint) is typing.Literal:
            known, value = typing.get_args(hint), getattr(config, name)
            if value not in known:
                raise ValueError(
                    f'{name} must be one of {", ".join(map(repr, known))}, got '
                    f'{value!r}.'
                )


def at_least_one(config: Any, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if not isinstance(value, numbers.Integral):
            raise ValueError(f'{name} must be an integer, got {value!r}.')
        if value < 1:
            raise ValueError(f'{name} must be >= 1, got {value}.')


def sizes(config: Any, name: str) -> None:
    if any(size < 1 for size in getattr(config, name)):
        raise ValueError(f'{name} must be >= 1, got {getattr(config, name)}.')


def in_unit_interval(config: Any, *names: str) -> None:
    for name in names:
        if not 0.0 <= getattr(config, name) <= 1.0:
            raise ValueError(f'{name} must be in [0, 1], got {getattr(config, name)}.')


def positive(config: Any, *names: str) -> None:
    for name in names:
        if not 0.0 < getattr(config, name) < math.inf:
            raise ValueError(
                f'{name} must be positive and finite, got {getattr(config, name)}.'
            )


def positive_or_none(config: Any, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None and not value > 0.0:
            raise ValueError(f'{name} must be > 0 or None, got {value}.')


def not_negative(config: Any, *names: str) -> None:
    for name in names:
        if not 0.0 <= getattr(config, name) < math.inf:
            raise ValueError(
                f'{name} must be >= 0 and finite, got {getattr(config, name)}.'
            )


def control_networks(config: Any) -> None:
    """Checks `policy_sizes`, `critic_sizes` and `noise_theta` of a control agent."""
    # Where there is no normalization the action joins at the second layer.
    least = 1 if config.network == 'layer_norm' else 2
    for name, minimum in (('policy_sizes', 1), ('critic_sizes', least)):
        sizes = getattr(config, name)
        if len(sizes) < minimum or any(size < 1 for size in sizes):
            raise ValueError(f'{name} must be {minimum} or more sizes, got {sizes}.')
    if not 0.0 < config.noise_theta <= 1.0:
        raise ValueError(f'noise_theta must be in (0, 1], got {config.noise_theta}.')


def replay_sizes(config: Any) -> None:
    """Checks that a table of these sizes and rate limit lets batches flow."""
    if config.min_replay_size > config.max_replay_size:
        raise ValueError(
            'min_replay_size must be <= max_replay_size, got '
            f'{config.min_replay_size} > {config.max_replay_size}; '
            'the table would never become ready to sample.'
        )
    if config.batch_size > config.max_replay_size:
        raise ValueError(
            'batch_size must be <= max_replay_size, got '
            f'{config.batch_size} > {config.max_replay_size}; a batch would never be '
            'of different transitions.'
        )
    config.rate_limit()
