"""The parts of Ape-X DPG."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from repertory.agents import builder
from repertory.agents.apex_dpg import config as apex_dpg_config
from repertory.agents.apex_dpg import loss
from repertory.components import core, learner, optimizers, policies, specs, types
from repertory.components.networks import control, heads
from repertory.replay import datasets, priorities, rows, tables
from repertory.replay.adders import transition

TABLE = 'priority_table'


class Builder(builder.Builder):
    """Builds Ape-X DPG from its config."""

    def __init__(self, config: apex_dpg_config.Config):
        self._config = config

    def make_networks(
        self, environment_spec: specs.EnvironmentSpec
    ) -> control.Networks:
        config = self._config
        return control.make_networks(
            environment_spec,
            config.policy_sizes,
            config.critic_sizes,
            config.network,
            heads.ValueHead,
        )

    def make_policy(
        self,
        networks: control.Networks,
        environment_spec: specs.EnvironmentSpec,
        role: core.Role,
    ) -> policies.Policy:
        self._config.check_spec(environment_spec)
        return policies.DeterministicPolicy(
            networks.observation,
            networks.policy,
            environment_spec.actions,
            sigma=0.0 if role.evaluation else self._config.noise_sigma,
            theta=self._config.noise_theta,
            seed=role.seed,
            critic=networks.critic,
        )

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
                remover=config.remover,
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
            num_lanes=role.num_lanes,
            priority_fn=functools.partial(actor_priorities, config=config),
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
        networks: control.Networks,
        target_networks: control.Networks,
        environment_spec: specs.EnvironmentSpec,
        samples: Iterator[types.Sample],
        replay_addresses: Sequence[str],
    ) -> core.Learner:
        config = self._config
        for made in (networks, target_networks):
            control.check_critic(made, environment_spec, 'scalar')
        return learner.SGDLearner(
            loss=loss.dpg_loss,
            online=networks,
            target=target_networks,
            trained={
                'critic': [networks.observation, networks.critic],
                'policy': [networks.policy],
            },
            acting=[networks.observation, networks.policy, networks.critic],
            targets=[
                (getattr(networks, name), getattr(target_networks, name))
                for name in ('observation', 'policy', 'critic')
            ],
            config=config,
            optimizer={
                'critic': optimizers.Adam(config.critic_learning_rate),
                'policy': optimizers.Adam(config.policy_learning_rate),
            },
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
    config: apex_dpg_config.Config,
) -> np.ndarray:
    """Returns |R + D q(s', pi(s')) - q(s, a)| + epsilon, of values already computed.

    All are of the actor's own online networks, when it acted.

    Reference: Horgan et al. (2018), "Distributed Prioritized Experience Replay",
    sec. 3, https://arxiv.org/abs/1803.00933.

    Args:
        first: extras [K] of the windows' first rows.
        reward: float [K]; R of the window, not scaled.
        discount: float [K]; D of the window.
        last: extras [K] of the rows that bootstrap.
        config: gives the reward's scale and epsilon.
    """
    target = config.reward_scale * reward + discount * last['q_policy']
    return np.abs(target - first['q_taken']) + config.priority_epsilon
