"""Networks of R2D2."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import dm_env.specs

from repertory.agents.r2d2 import config as r2d2_config
from repertory.components import specs
from repertory.components.environments.wrappers import observation_action_reward
from repertory.components.networks import heads, memory, observations, recurrent, torsos


@dataclasses.dataclass(frozen=True)
class Networks:
    """`q` returns action values [N, A]."""

    q: memory.RecurrentNetwork


def make_networks(
    environment_spec: specs.EnvironmentSpec,
    config: r2d2_config.Config,
    make_core: Callable[[int], recurrent.LSTM] = recurrent.LSTM,
) -> Networks:
    """Returns a dueling LSTM network with its variables created.

    An observation that is one array of uint8 images [H, W, C] gets DQN's
    convolutions, anything else is flattened into an MLP. `make_core` takes the LSTM's
    size.

    Raises:
        ValueError: if the action is not one discrete number from 0, or if previous
            action and reward are asked for and are not in the observation.
    """
    action, spec = environment_spec.actions, environment_spec.observations
    if not isinstance(action, dm_env.specs.DiscreteArray) or action.shape != ():
        raise ValueError(
            f'action_spec must be a scalar DiscreteArray for R2D2, got {action}; take '
            'a continuous agent, or wrap the environment so that one number chooses '
            'among its actions.'
        )
    if config.action_reward:
        if not observation_action_reward.is_extended(spec):
            raise ValueError(
                'observation_spec must be that of ObservationActionReward for '
                f'action_reward=True, got {specs.describe(spec)}.'
            )
        spec = spec['observation']
    is_image = observations.is_image(spec)
    torso = torsos.AtariTorso() if is_image else torsos.MLP(config.hidden_sizes)
    network = memory.RecurrentNetwork(
        torsos.ActionRewardTorso(torso) if config.action_reward else torso,
        make_core(config.lstm_size),
        heads.DuelingHead(action.num_values, (config.dueling_size,)),
        name='q',
    )
    observations.create_variables(
        lambda x: network.step(x, network.initial_state(1)),
        environment_spec.observations,
    )
    return Networks(q=network)
