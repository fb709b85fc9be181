"""Networks of Ape-X DQN."""

from __future__ import annotations

import dataclasses

import sonnet as snt

from repertory.agents.apex_dqn import config as apex_dqn_config
from repertory.components import specs
from repertory.components.networks import heads, observations, torsos


@dataclasses.dataclass(frozen=True)
class Networks:
    """`q` takes an observation nest [N, ...] and returns action values [N, A]."""

    q: snt.Module


def make_networks(
    environment_spec: specs.EnvironmentSpec, config: apex_dqn_config.Config
) -> Networks:
    """Returns a dueling network with its variables created.

    An observation that is one array of uint8 images [H, W, C] gets DQN's
    convolutions, anything else is flattened into an MLP.

    Raises:
        ValueError: if the action is not one discrete number from 0.
    """
    config.check_spec(environment_spec)
    action = environment_spec.actions
    is_image = specs.is_image(environment_spec.observations)
    torso = torsos.AtariTorso() if is_image else torsos.MLP(config.hidden_sizes)
    head = heads.DuelingHead(action.num_values, (config.dueling_size,))
    network = snt.Sequential([torso, head], name='q')
    observations.create_variables(network, environment_spec.observations)
    return Networks(q=network)
