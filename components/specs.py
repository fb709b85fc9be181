"""What an environment takes and gives, as dm_env specs of one lane."""

from __future__ import annotations

import dataclasses

import dm_env
import numpy as np
import tree
from dm_env import specs

from repertory.components import types

_LEAST_IMAGE_SIZE = 36  # Below, DQN's convolutions have no output.


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


def is_image(spec: types.Nest) -> bool:
    """Says whether observations are uint8 images [H, W, C] fit for convolutions."""
    return (
        isinstance(spec, specs.Array)
        and len(spec.shape) == 3
        and spec.dtype == 'uint8'
        and min(spec.shape[:2]) >= _LEAST_IMAGE_SIZE
    )


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
            f'action_spec must be one float32 array in [-1, 1], got {action}; '
            f'{_remedy_for_action(action)}.'
        )


def _remedy_for_action(action: types.Nest) -> str:
    if not isinstance(action, specs.Array):
        return 'make one array of a nest of actions, in a wrapper of your own'
    if not np.issubdtype(action.dtype, np.floating):
        return 'take an agent for discrete actions (`repertory agents` lists all)'
    return (
        'actions with finite bounds are rescaled by repertory.components.environments.'
        'wrappers.canonical_actions.CanonicalActions(environment), or where it is '
        'named, by MODULE:FUNCTION?canonical=true'
    )


def check_nest(nest: types.Nest, name: str) -> None:
    """Refuses specs that no agent can store or learn from.

    Args:
        nest: of observations or actions.
        name: of it, for the message.

    Raises:
        ValueError: if it has no array, an empty one, or a list.
    """
    parts: list[types.Nest] = []
    tree.traverse(parts.append, nest)
    if any(isinstance(part, list) for part in parts):
        raise ValueError(
            f'{name} must be made of dicts and tuples, got a list in '
            f'{describe(nest)}; TensorFlow makes one array of a list: take a tuple.'
        )
    leaves = tree.flatten(nest)
    if not leaves or any(0 in leaf.shape for leaf in leaves):
        raise ValueError(
            f'{name} must hold a number at least in each array, and an array at least, '
            f'got {describe(nest)}; leave empty ones out, and where there is nothing '
            'to tell, give zeros [1].'
        )


def describe(spec: types.Nest) -> str:
    """Returns shapes and dtypes in one line, for error messages."""
    return str(
        tree.map_structure(
            lambda leaf: f'{np.dtype(leaf.dtype).name}{list(leaf.shape)}', spec
        )
    )
