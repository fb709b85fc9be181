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


def make_environment_spec(environment: dm_env.Environment) -> EnvironmentSpec:
    """Returns the four specs of `environment`."""
    return EnvironmentSpec(
        observations=environment.observation_spec(),
        actions=environment.action_spec(),
        rewards=environment.reward_spec(),
        discounts=environment.discount_spec(),
    )


def zeros(spec: types.Nest, *leading: int) -> types.Nest:
    """Returns zero arrays [*leading, ...] of the shapes and dtypes of `spec`."""
    return tree.map_structure(
        lambda leaf: np.zeros((*leading, *leaf.shape), leaf.dtype), spec
    )


def describe(spec: types.Nest) -> str:
    """Returns shapes and dtypes in one line, for error messages."""
    return str(
        tree.map_structure(
            lambda leaf: f'{np.dtype(leaf.dtype).name}{list(leaf.shape)}', spec
        )
    )
