"""Networks of R2D2."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from repertory.agents.r2d2 import config as r2d2_config
from repertory.components import specs
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
    convolutions, anything else an MLP. `make_core` takes the LSTM's size.

    Raises:
        ValueError: if `config.check_spec` refuses the environment.
    """
    config.check_spec(environment_spec)
    spec = whole = environment_spec.observations
    if config.action_reward:
        spec = spec['observation']
    is_image = specs.is_image(spec)
    torso = torsos.AtariTorso() if is_image else torsos.MLP(config.hidden_sizes)
    network = memory.RecurrentNetwork(
        torsos.ActionRewardTorso(torso) if config.action_reward else torso,
        make_core(config.lstm_size),
        heads.DuelingHead(environment_spec.actions.num_values, (config.dueling_size,)),
        name='q',
    )
    observations.create_variables(
        lambda x: network.step(x, network.initial_state(1)), whole
    )
    return Networks(q=network)
