"""The network of IMPALA: torso, perhaps a memory, and heads of policy and value."""

from __future__ import annotations

import dataclasses

import sonnet as snt

from repertory.agents.impala import config as impala_config
from repertory.components import specs, types
from repertory.components.environments.wrappers import observation_action_reward
from repertory.components.networks import heads, memory, observations, recurrent, torsos


@dataclasses.dataclass(frozen=True)
class Networks:
    """`policy_value` returns a PolicyValue: logits [N, A] and values [N]."""

    policy_value: memory.RecurrentNetwork


def make_networks(
    environment_spec: specs.EnvironmentSpec, config: impala_config.Config
) -> Networks:
    """Returns the network with its variables created.

    An observation that is one array of uint8 images [H, W, C] gets convolutions,
    anything else is flattened into an MLP. The previous action and reward join the
    features where the environment gives them, as ObservationActionReward does.

    Raises:
        ValueError: if the action is not one discrete number from 0.
    """
    config.check_spec(environment_spec)
    action = environment_spec.actions
    observation = environment_spec.observations
    if observation_action_reward.is_extended(observation):
        torso = torsos.ActionRewardTorso(
            _make_torso(observation['observation'], config), max_abs_reward=1.0
        )
    else:
        torso = _make_torso(observation, config)
    lstm = config.core == 'lstm'
    network = memory.RecurrentNetwork(
        torso,
        recurrent.LSTM(config.core_size) if lstm else memory.NoMemory(),
        heads.PolicyValueHead(action.num_values),
        name='policy_value',
    )
    observations.create_variables(
        lambda x: network.step(x, network.initial_state(1)), observation
    )
    return Networks(policy_value=network)


def _make_torso(observation: types.Nest, config: impala_config.Config) -> snt.Module:
    if not specs.is_image(observation):
        return torsos.MLP(config.hidden_sizes)
    if config.torso == 'deep':
        return torsos.ImpalaResNetTorso()
    return torsos.ImpalaShallowTorso()
