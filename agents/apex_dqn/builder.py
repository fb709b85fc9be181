"""The parts of Ape-X DQN."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from repertory.agents import builder
from repertory.agents.apex_dqn import config as apex_dqn_config
from repertory.agents.apex_dqn import loss, networks
from repertory.components import (
    core,
    learner,
    optimizers,
    policies,
    schedules,
    specs,
    types,
)
from repertory.replay import datasets, priorities, rows, tables
from repertory.replay.adders import transition

TABLE = 'priority_table'


class Builder(builder.Builder):
    """Builds Ape-X DQN from its config."""

    def __init__(self, config: apex_dqn_config.Config):
        self._config = config

    def make_networks(
        self, environment_spec: specs.EnvironmentSpec
    ) -> networks.Networks:
        return networks.make_networks(environment_spec, self._config)

    def make_policy(
        self,
        networks: networks.Networks,
        environment_spec: specs.EnvironmentSpec,
        role: core.Role,
    ) -> policies.Policy:
        return policies.EpsilonGreedyPolicy(
            networks.q, self.epsilons(role), environment_spec.actions, role.seed
        )

    def epsilons(self, role: core.Role) -> list[float]:
        """Returns the chance of a random action of each lane of `role`."""
        config = self._config
        if role.evaluation:
            return [config.evaluation_epsilon] * role.num_lanes
        return schedules.lane_epsilons(config.epsilon, config.epsilon_alpha, role)

    def make_table_specs(
        self,
        environment_spec: specs.EnvironmentSpec,
        policy: policies.Policy,
        num_lanes: int,
    ) -> Sequence[tables.TableSpec]:
        config = self._config
        return [
            tables.TableSpec(
                name=TABLE,
                sampler='prioritized',
                remover='fifo',
                max_size=config.max_replay_size,
                rate_limit=config.rate_limit(),
                priority_exponent=config.priority_exponent,
                signature=tables.signature(
                    self._codec(environment_spec), config.n_step + 1
                ),
            )
        ]

    def make_adder(
        self,
        address: str,
        environment_spec: specs.EnvironmentSpec,
        policy: policies.Policy,
        role: core.Role,
        wait: core.Wait,
    ) -> core.Adder:
        config = self._config
        return transition.TransitionAdder(
            address=address,
            table=TABLE,
            codec=self._codec(environment_spec),
            n_step=config.n_step,
            discount=config.discount,
            max_abs_reward=config.max_abs_reward,
            num_lanes=role.num_lanes,
            priority_fn=functools.partial(
                actor_priorities, epsilon=config.priority_epsilon
            ),
            wait=wait,
        )

    def make_dataset(
        self,
        addresses: Sequence[str],
        environment_spec: specs.EnvironmentSpec,
        policy: policies.Policy,
        num_lanes: int,
        prefetch: bool,
    ) -> tf.data.Dataset:
        config = self._config
        return datasets.make_transition_dataset(
            addresses=addresses,
            table=TABLE,
            codec=self._codec(environment_spec),
            n_step=config.n_step,
            discount=config.discount,
            batch_size=config.batch_size,
            updates_per_call=config.updates_per_call,
            prefetch=prefetch,
        )

    def make_learner(
        self,
        networks: networks.Networks,
        target_networks: networks.Networks,
        environment_spec: specs.EnvironmentSpec,
        samples: Iterator[types.Sample],
        replay_addresses: Sequence[str],
    ) -> core.Learner:
        config = self._config
        return learner.SGDLearner(
            loss=loss.double_q_loss,
            online=networks,
            target=target_networks,
            trained=[networks.q],
            acting=[networks.q],
            targets=[(networks.q, target_networks.q)],
            config=config,
            optimizer=_make_optimizer(config),
            samples=samples,
            update_priorities=priorities.PriorityUpdater(replay_addresses, TABLE),
        )

    def _codec(self, environment_spec: specs.EnvironmentSpec) -> rows.RowCodec:
        return rows.RowCodec(rows.make_row_spec(environment_spec, {}))


def actor_priorities(
    first: dict[str, np.ndarray],
    reward: np.ndarray,
    discount: np.ndarray,
    last: dict[str, np.ndarray],
    epsilon: float,
) -> np.ndarray:
    """Returns |R + D max_a Q(s', a) - Q(s, a)| + epsilon, from values already computed.

    Both are of the actor's own online network, when it acted.

    Reference: Horgan et al. (2018), "Distributed Prioritized Experience Replay",
    sec. 3, https://arxiv.org/abs/1803.00933.

    Args:
        first, last: extras [K] of the window's first row and of its bootstrap row.
        reward, discount: float [K]; R and D of the window.
        epsilon: is added, so that no priority is zero.
    """
    target = reward + discount * last['q_max']
    return np.abs(target - first['q_taken']) + epsilon


def _make_optimizer(config: apex_dqn_config.Config) -> optimizers.Optimizer:
    if config.optimizer == 'adam':
        return optimizers.Adam(config.learning_rate, epsilon=config.optimizer_epsilon)
    return optimizers.RMSProp(
        config.learning_rate,
        decay=0.95,
        epsilon=config.optimizer_epsilon,
        centered=True,
    )
