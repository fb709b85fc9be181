"""Wrappers by the options of an environment's id, such as `action_repeat=2`."""

from __future__ import annotations

import dataclasses
import difflib
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import dm_env

from repertory.components.environments.wrappers import (
    action_repeat,
    canonical_actions,
    concat_observations,
    frame_stack,
    observation_action_reward,
    reward_scale,
    step_limit,
)

# Option -> its type and the wrapper; the first one is innermost.
WRAPPERS: dict[str, tuple[type, Callable[..., dm_env.Environment]]] = {
    'action_repeat': (int, action_repeat.ActionRepeat),
    'step_limit': (int, step_limit.StepLimit),
    'reward_scale': (float, reward_scale.RewardScale),
    'canonical': (bool, canonical_actions.CanonicalActions),
    'concat': (bool, concat_observations.ConcatObservations),
    'frame_stack': (int, frame_stack.FrameStack),
    'action_reward': (bool, observation_action_reward.ObservationActionReward),
}


@dataclasses.dataclass(frozen=True)
class Wrapped:
    """A factory whose environments are wrapped as the options of an id say.

    Args:
        factory: (seed) -> dm_env.Environment.
        options: such as 'canonical=true&frame_stack=2', of `WRAPPERS`.

    Raises:
        ValueError: if there is no such option, naming near ones, or a value is of
            another type.
    """

    factory: Callable[[int], dm_env.Environment]
    options: str

    def __post_init__(self) -> None:
        for key, text in parse_query(self.options).items():
            if key not in WRAPPERS:
                raise ValueError(unknown(f'option of {self._name}', key, WRAPPERS))
            parse(key, text, WRAPPERS[key][0])

    def __call__(self, seed: int) -> dm_env.Environment:
        return wrap(self.factory(seed), parse_query(self.options))

    @property
    def __name__(self) -> str:
        return f'{self._name}?{self.options}'

    @property
    def _name(self) -> str:
        return getattr(self.factory, '__name__', type(self.factory).__name__)


def wrap(
    environment: dm_env.Environment, options: Mapping[str, str]
) -> dm_env.Environment:
    """Returns `environment` in the wrappers that `options` of `WRAPPERS` name.

    Raises:
        ValueError: if a value is of another type than its option, or cannot be.
    """
    for key, (kind, wrapper) in WRAPPERS.items():
        if key not in options:
            continue
        value = parse(key, options[key], kind)
        if kind is not bool:
            environment = wrapper(environment, value)
        elif value:
            environment = wrapper(environment)
    return environment


def parse_query(query: str) -> dict[str, str]:
    """Returns the options after the '?' of an id."""
    return dict(urllib.parse.parse_qsl(query, keep_blank_values=True))


def parse(key: str, text: str, kind: type) -> Any:
    """Returns the value of an option.

    Raises:
        ValueError: if `text` is none of `kind`.
    """
    try:
        if kind is bool:
            return {'true': True, 'false': False}[text.lower()]
        return kind(text)
    except (KeyError, ValueError) as error:
        wanted = {bool: 'true or false', int: 'an integer', float: 'a number'}[kind]
        raise ValueError(f'{key} must be {wanted}, got {text!r}.') from error


def unknown(what: str, given: str, known: Iterable[str]) -> str:
    """Returns what is said of a name that is not known, with near ones."""
    known = list(known)
    lowered = {one.lower(): one for one in known}
    near = difflib.get_close_matches(given.lower(), lowered, n=3, cutoff=0.5)
    listed = [lowered[one] for one in near] or known[:8]
    return (
        f'{what} must be one that is known, got {given!r}; '
        f'did you mean {", ".join(listed)}?'
    )
