"""Casts to float32, once, at the environment's edge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dm_env
import numpy as np
import tree
from dm_env import specs

from repertory.components import nests, types
from repertory.components import specs as specs_lib
from repertory.components.environments import casting
from repertory.components.environments.wrappers import base


class SinglePrecision(base.EnvironmentWrapper):
    """Turns float64 into float32 on the way out, and back on the way in.

    Integers keep their dtype, int64 too. Rewards and discounts become float32
    whatever the environment returns (float64, int, bool), so that each step of an
    episode has the same dtypes. Observations given as Python scalars become arrays.

    Raises:
        TypeError: if a step is no `dm_env.TimeStep`.
    """

    def __init__(self, environment: dm_env.Environment):
        super().__init__(environment)
        inner = specs_lib.make_environment_spec(environment)
        inner_observations, inner_actions = inner.observations, inner.actions
        self._observation_spec = tree.map_structure(single, inner_observations)
        self._action_spec = tree.map_structure(single, inner_actions)
        self._reward_spec = _as_float32(inner.rewards)
        self._discount_spec = _as_float32(inner.discounts)
        self._single_array = isinstance(inner_observations, specs.Array)
        self._dtypes = [leaf.dtype for leaf in tree.flatten(inner_observations)]
        self._action_dtypes = tree.map_structure(lambda leaf: leaf.dtype, inner_actions)
        self._single_action = isinstance(inner_actions, specs.Array)
        self._flatten = nests.flattener(inner_observations)
        # Of the first observation, whose dicts may be of another type than the spec's.
        self._unflatten: Callable[[Sequence], types.Nest] | None = None
        self._casts_actions = any(map(_is_double, tree.flatten(inner_actions)))
        self._scalar_reward = self._reward_spec.shape == ()

    def reset(self) -> dm_env.TimeStep:
        return self._cast(self._environment.reset())

    def step(self, action) -> dm_env.TimeStep:
        if self._casts_actions and self._single_action:
            action = np.asarray(action, self._action_dtypes)
        elif self._casts_actions:
            action = tree.map_structure(
                lambda leaf, dtype: np.asarray(leaf, dtype), action, self._action_dtypes
            )
        return self._cast(self._environment.step(action))

    def observation_spec(self):
        return self._observation_spec

    def action_spec(self):
        return self._action_spec

    def reward_spec(self):
        return self._reward_spec

    def discount_spec(self):
        return self._discount_spec

    def _cast(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
        check_step(timestep)
        step_type, reward, discount, observation = timestep
        if (
            self._single_array
            and type(reward) is type(discount) is np.float32
            and isinstance(observation, np.ndarray)
            and observation.dtype != np.float64
        ):
            return timestep  # as it should be: half of the cost saved
        if self._single_array:
            observation = _cast_leaf(observation, self._dtypes[0])
        else:
            observation = self._cast_nest(observation)
        if reward is not None:
            reward = (
                scalar(reward)
                if self._scalar_reward
                else np.asarray(reward, np.float32)
            )
        if discount is not None:
            discount = scalar(discount)
        return dm_env.TimeStep(step_type, reward, discount, observation)

    def _cast_nest(self, observation: types.Nest) -> types.Nest:
        try:
            leaves = self._flatten(observation)
        except (TypeError, ValueError):
            return observation  # unlike its spec: the lanes refuse it by name.
        if any(map(tree.is_nested, leaves)):
            return observation  # as before
        if self._unflatten is None:
            self._unflatten = nests.unflattener(observation)
        return self._unflatten(list(map(_cast_leaf, leaves, self._dtypes)))


def wrap(environment: dm_env.Environment) -> dm_env.Environment:
    """Returns `environment` in single precision; itself where it is wrapped already."""
    if isinstance(environment, SinglePrecision):
        return environment
    return SinglePrecision(environment)


def unwrap(environment: dm_env.Environment) -> dm_env.Environment:
    """Returns what is in a `SinglePrecision`.

    Another wrapper stays as it is, and so does one that does more than to cast: a
    subclass, or one that was given a method of its own, such as a mock.
    """
    is_plain = type(environment) is SinglePrecision
    if is_plain and not any(
        hasattr(SinglePrecision, name) for name in vars(environment)
    ):
        return environment._environment
    return environment


def check_step(timestep: Any, who: str = 'the environment') -> None:
    """Refuses what is no step of an environment.

    Raises:
        TypeError: if it is none.
    """
    if not isinstance(timestep, dm_env.TimeStep):
        raise TypeError(
            f'{who} must return a dm_env.TimeStep, got {timestep!r}; one of '
            'gymnasium is wrapped by wrappers.gymnasium.'
        )


def single(spec: specs.Array) -> specs.Array:
    """Returns `spec` as float32 if it is float64, with its bounds; else itself."""
    return _as_float32(spec) if _is_double(spec) else spec


def _as_float32(spec: specs.Array) -> specs.Array:
    if isinstance(spec, specs.BoundedArray):
        with np.errstate(over='ignore'):  # float64's largest value becomes inf.
            is_stack = isinstance(spec, specs_lib.StackedFrames)
            return (specs_lib.StackedFrames if is_stack else specs.BoundedArray)(
                spec.shape,
                np.float32,
                np.asarray(spec.minimum, np.float32),
                np.asarray(spec.maximum, np.float32),
                spec.name,
            )
    return specs.Array(spec.shape, np.float32, spec.name)


def _is_double(spec: specs.Array) -> bool:
    return spec.dtype == np.float64


def scalar(value: Any) -> Any:
    """Returns a number as float32; else the value, which the lanes refuse by name."""
    if type(value) in (float, np.float64):
        return np.float32(value)
    found = casting.number(value)
    return value if found is None else np.float32(found)


def _cast_leaf(leaf: Any, dtype: np.dtype) -> types.Nest:
    found = casting.read(leaf, dtype)
    # What is unlike its spec stays as it is: the lanes refuse it by name.
    if found is None:
        return leaf
    if dtype == np.float64 and found.dtype == np.float64:
        return found.astype(np.float32)
    return found
