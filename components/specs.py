"""What an environment takes and gives, as dm_env specs of one lane."""

from __future__ import annotations

import dataclasses

import dm_env
import numpy as np
import tree
from dm_env import specs

from repertory.components import types


@dataclasses.dataclass(frozen=True)
class EnvironmentSpec:
    """The specs of one lane, without a batch axis."""

    observations: types.Nest
    actions: types.Nest
    rewards: specs.Array
    discounts: specs.BoundedArray


class StackedFrames(specs.BoundedArray):
    """An array whose last axis holds an episode's newest frames, the newest last.

    It is a promise: at FIRST the frames are one, repeated; each step of the agent puts
    one new frame behind the others and drops the oldest. So replay stores the newest
    alone, and stacks again what it hands out. Who breaks the promise, as a wrapper
    that skips steps does, has to return `unstacked` specs.
    """

    def __reduce__(self):
        return type(self), tuple(self._get_constructor_kwargs().values())


def unstacked(spec: types.Nest) -> types.Nest:
    """Returns a nest of specs in which `StackedFrames` are arrays like any other."""

    def convert(leaf: specs.Array) -> specs.Array:
        if not isinstance(leaf, StackedFrames):
            return leaf
        return specs.BoundedArray(
            leaf.shape, leaf.dtype, leaf.minimum, leaf.maximum, leaf.name
        )

    return tree.map_structure(convert, spec)


def make_environment_spec(environment: dm_env.Environment) -> EnvironmentSpec:
    """Returns the four specs of `environment`.

    Raises:
        TypeError: if it is no `dm_env.Environment`, or a spec is made of anything but
            `dm_env.specs.Array`.
    """
    found = {}
    for name in 'observation_spec', 'action_spec', 'reward_spec', 'discount_spec':
        method = getattr(environment, name, None)
        if method is None:
            raise TypeError(
                'environment must be a dm_env.Environment, got '
                f'{type(environment).__name__} without {name}; one of gymnasium is '
                'wrapped by wrappers.gymnasium.'
            )
        found[name] = method()
        for leaf in tree.flatten(found[name]):
            if not isinstance(leaf, specs.Array):
                raise TypeError(
                    f'{name} must be made of dm_env.specs.Array, got {leaf!r}.'
                )
    return EnvironmentSpec(
        observations=found['observation_spec'],
        actions=found['action_spec'],
        rewards=found['reward_spec'],
        discounts=found['discount_spec'],
    )


def zeros(spec: types.Nest, *leading: int) -> types.Nest:
    """Returns zero arrays [*leading, ...] of the shapes and dtypes of `spec`."""
    return tree.map_structure(
        lambda leaf: np.zeros((*leading, *leaf.shape), leaf.dtype), spec
    )


def check_discrete_action(environment_spec: EnvironmentSpec, agent: str) -> None:
    """Refuses what is not one discrete number from 0.

    Args:
        environment_spec: of one lane.
        agent: who needs it, for the message.

    Raises:
        ValueError: if the action is another.
    """
    action = environment_spec.actions
    if not isinstance(action, specs.DiscreteArray) or action.shape != ():
        raise ValueError(
            f'action_spec must be a scalar DiscreteArray for {agent}, got {action}; '
            'take a continuous agent, or wrap the environment so that one number '
            'chooses among its actions.'
        )


def check_canonical_action(environment_spec: EnvironmentSpec) -> None:
    """Refuses actions that a deterministic policy within [-1, 1] cannot give.

    Raises:
        ValueError: if the action is not one array of float32 in [-1, 1].
    """
    action = environment_spec.actions
    if (
        not isinstance(action, specs.BoundedArray)
        or action.dtype != np.float32
        or not np.all(action.minimum == -1)
        or not np.all(action.maximum == 1)
    ):
        raise ValueError(
            f'action_spec must be one float32 array in [-1, 1], got {action}; wrap the '
            'environment in canonical_actions.CanonicalActions, which rescales bounded '
            'actions; take a discrete agent for discrete ones, and make one array of a '
            'nest of actions.'
        )


def describe(spec: types.Nest) -> str:
    """Returns shapes and dtypes in one line, for error messages."""
    return str(
        tree.map_structure(
            lambda leaf: f'{np.dtype(leaf.dtype).name}{list(leaf.shape)}', spec
        )
    )
