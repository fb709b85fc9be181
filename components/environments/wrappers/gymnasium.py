"""Gymnasium environments as dm_env ones; imports neither gymnasium nor gym."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import dm_env
import numpy as np
from dm_env import specs

from repertory.components import types


class _Conversion(NamedTuple):
    spec: types.Nest
    to_spec: Callable[[Any], types.Nest]  # the space's values -> the spec's
    from_spec: Callable[[types.Nest], Any]


class Gymnasium(dm_env.Environment):
    """Wraps an environment whose `step` returns five values, or gym's four.

    `terminated` gives discount 0 at LAST; `truncated` alone gives discount 1. Of gym's
    older interface, `done` is a truncation where info['TimeLimit.truncated'] says so.
    What came with the latest step as info is in `last_info`.

    Spaces: Box, Discrete (counted from 0 whatever its start is), MultiDiscrete (the
    same), MultiBinary, Dict and Tuple of them; arrays have the spaces' dtypes.

    Args:
        environment: is reset with `seed` the first time and without one later.
        seed: in [0, 2^31).

    Raises:
        ValueError: if a space is none of these, naming it.
    """

    def __init__(self, environment: Any, seed: int | None = None):
        self._environment = environment
        self._seed = seed
        self._observations = _convert(
            environment.observation_space, 'observation_space'
        )
        self._actions = _convert(environment.action_space, 'action_space')
        self._ended = True
        self.last_info: dict[str, Any] = {}

    def reset(self) -> dm_env.TimeStep:
        seed, self._seed = self._seed, None
        if seed is None:
            result = self._environment.reset()
        elif hasattr(self._environment, 'seed'):  # gym's older interface
            self._environment.seed(seed)
            result = self._environment.reset()
        else:
            result = self._environment.reset(seed=seed)
        has_info = isinstance(result, tuple) and len(result) == 2
        if has_info and isinstance(result[1], dict):
            observation, self.last_info = result
        else:
            observation, self.last_info = result, {}
        self._ended = False
        return dm_env.restart(self._observations.to_spec(observation))

    def step(self, action) -> dm_env.TimeStep:
        if self._ended:
            return self.reset()
        result = self._environment.step(self._actions.from_spec(action))
        if len(result) == 4:
            observation, reward, done, info = result
            truncated = done and info.get('TimeLimit.truncated', False)
            terminated = done and not truncated
        else:
            observation, reward, terminated, truncated, info = result
        self.last_info = info
        observation = self._observations.to_spec(observation)
        self._ended = bool(terminated or truncated)
        if terminated:
            return dm_env.termination(reward, observation)
        if truncated:
            return dm_env.truncation(reward, observation)
        return dm_env.transition(reward, observation)

    def render(self) -> np.ndarray:
        """Returns the scene as uint8 [H, W, 3]; may need packages for drawing.

        The environment need not have been made with a `render_mode`.
        """
        inner = self._environment.unwrapped
        if getattr(inner, 'render_mode', None) is None:
            inner.render_mode = 'rgb_array'
        return self._environment.render()

    def observation_spec(self) -> types.Nest:
        return self._observations.spec

    def action_spec(self) -> types.Nest:
        return self._actions.spec

    def close(self) -> None:
        self._environment.close()


def _convert(space: Any, name: str) -> _Conversion:
    """Returns the spec of `space`, and the way there and back."""
    # By name, so that gym's spaces are taken too, with either package absent.
    for kind in type(space).__mro__:
        if kind.__name__ in _CONVERSIONS:
            return _CONVERSIONS[kind.__name__](space, name)
    raise ValueError(
        f'{name} must be a Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple, '
        f'got {space}; flatten it with a wrapper of gymnasium first.'
    )


def _convert_box(space: Any, name: str) -> _Conversion:
    spec = specs.BoundedArray(space.shape, space.dtype, space.low, space.high, name)
    return _Conversion(spec, _caster(spec), _caster(spec))


def _convert_discrete(space: Any, name: str) -> _Conversion:
    start = int(getattr(space, 'start', 0))
    spec = specs.DiscreteArray(int(space.n), space.dtype, name)
    dtype = spec.dtype.type
    return _Conversion(
        spec, lambda value: dtype(value - start), lambda value: dtype(value + start)
    )


def _convert_multi_discrete(space: Any, name: str) -> _Conversion:
    start = getattr(space, 'start', np.zeros_like(space.nvec))
    spec = specs.BoundedArray(space.shape, space.dtype, 0, space.nvec - 1, name)
    cast = _caster(spec)
    return _Conversion(
        spec, lambda value: cast(value - start), lambda value: cast(value + start)
    )


def _convert_multi_binary(space: Any, name: str) -> _Conversion:
    spec = specs.BoundedArray(space.shape, space.dtype, 0, 1, name)
    return _Conversion(spec, _caster(spec), _caster(spec))


def _convert_dict(space: Any, name: str) -> _Conversion:
    parts = {key: _convert(part, f'{name}/{key}') for key, part in space.items()}
    return _Conversion(
        {key: part.spec for key, part in parts.items()},
        lambda value: {key: part.to_spec(value[key]) for key, part in parts.items()},
        lambda value: {key: part.from_spec(value[key]) for key, part in parts.items()},
    )


def _convert_tuple(space: Any, name: str) -> _Conversion:
    parts = [_convert(part, f'{name}/{i}') for i, part in enumerate(space)]
    return _Conversion(
        tuple(part.spec for part in parts),
        lambda value: tuple(part.to_spec(one) for part, one in zip(parts, value)),
        lambda value: tuple(part.from_spec(one) for part, one in zip(parts, value)),
    )


def _caster(spec: specs.Array) -> Callable[[Any], np.ndarray]:
    dtype = spec.dtype
    return lambda value: np.asarray(value, dtype)


_CONVERSIONS = {
    'Box': _convert_box,
    'Discrete': _convert_discrete,
    'MultiDiscrete': _convert_multi_discrete,
    'MultiBinary': _convert_multi_binary,
    'Dict': _convert_dict,
    'Tuple': _convert_tuple,
}
