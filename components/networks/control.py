"""Networks of deterministic policies and their critics."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import sonnet as snt
import tensorflow as tf

from repertory.components import specs, types
from repertory.components.networks import heads, observations, torsos

Style = Literal['layer_norm', 'relu', 'tanh']


@dataclasses.dataclass(frozen=True)
class Networks:
    """What a deterministic policy and its critic are made of.

    Attributes:
        observation: observation nest [N, ...] to features [N, F]; trained by the
            critic's loss alone.
        policy: features to actions [N, ...] in [-1, 1].
        critic: takes (features, actions); returns values [N], or a
            `heads.CategoricalDistribution`.
    """

    observation: snt.Module
    policy: snt.Module
    critic: snt.Module


@snt.allow_empty_variables
class Flatten(snt.Module):
    """All leaves of an observation side by side, float32 [N, F]."""

    def __call__(self, observation: types.Nest) -> tf.Tensor:
        return observations.flatten_observation(observation)


def make_networks(
    environment_spec: specs.EnvironmentSpec,
    policy_sizes: Sequence[int],
    critic_sizes: Sequence[int],
    style: Style,
    make_head: Callable[[], snt.Module],
) -> Networks:
    """Returns networks with their variables created.

    An observation that is one array of uint8 images [H, W, C] gets DQN's convolutions
    as its network, anything else is flattened.

    Args:
        environment_spec: of one lane.
        policy_sizes: units of the policy's layers.
        critic_sizes: units of the critic's layers.
        style: 'layer_norm' as in Acme; 'relu' or 'tanh' layers, with the action
            joining at the critic's second.
        make_head: makes the critic's head.

    Raises:
        ValueError: if actions are not one array of float32 in [-1, 1].
    """
    specs.check_canonical_action(environment_spec)
    is_image = specs.is_image(environment_spec.observations)
    if style == 'layer_norm':
        policy_torso = torsos.LayerNormMLP(policy_sizes)
        critic_torso = torsos.LayerNormMLP(critic_sizes)
    else:
        activation = {'relu': tf.nn.relu, 'tanh': tf.tanh}[style]
        policy_torso = torsos.MLP(policy_sizes, activation)
        critic_torso = torsos.LateActionMLP(critic_sizes, activation)
    policy_head = heads.TanhPolicyHead(environment_spec.actions.shape)
    networks = Networks(
        observation=torsos.AtariTorso() if is_image else Flatten(),
        policy=snt.Sequential([policy_torso, policy_head], name='policy'),
        critic=snt.Sequential([critic_torso, make_head()], name='critic'),
    )
    _call_all(networks, environment_spec)
    return networks


def _call_all(networks: Networks, environment_spec: specs.EnvironmentSpec) -> Any:
    """Returns the critic's output for one lane of zeros; so all variables exist."""
    features = observations.create_variables(
        networks.observation, environment_spec.observations
    )
    return networks.critic((features, networks.policy(features)))


def check_critic(
    networks: Networks,
    environment_spec: specs.EnvironmentSpec,
    kind: Literal['categorical', 'scalar'],
) -> None:
    """Creates the variables, and refuses a critic whose output is not of `kind`.

    Raises:
        TypeError: if it is not, saying which head makes it so.
    """
    output = _call_all(networks, environment_spec)
    if kind == 'categorical':
        fits = isinstance(output, heads.CategoricalDistribution)
        remedy = 'end it with heads.CategoricalHead(vmin, vmax), or set critic=scalar'
    else:
        fits = isinstance(output, tf.Tensor) and output.shape.rank == 1
        remedy = 'end it with heads.ValueHead()'
    if not fits:
        got = f'shape {output.shape}' if isinstance(output, tf.Tensor) else ''
        raise TypeError(
            f'networks.critic must return a {kind} value of each lane, got '
            f'{type(output).__name__} {got}; {remedy}.'
        )
