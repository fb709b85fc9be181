"""The parts of D4PG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tensorflow as tf

from repertory.agents import builder
from repertory.agents.d4pg import config as d4pg_config
from repertory.agents.d4pg import learning, loss
from repertory.components import core, optimizers, policies, specs, types
from repertory.components.networks import control, heads
from repertory.replay import datasets, priorities, rows, tables
from repertory.replay.adders import transition

TABLE = 'replay_table'


class Builder(builder.Builder):
    """Builds D4PG, or D3PG, from its config."""

    def __init__(self, config: d4pg_config.Config):
        self._config = config

    def make_networks(
        self, environment_spec: specs.EnvironmentSpec
    ) -> control.Networks:
        config = self._config

        def make_head():
            if config.critic == 'scalar':
                return heads.ValueHead()
            return heads.CategoricalHead(config.vmin, config.vmax, config.num_atoms)

        return control.make_networks(
            environment_spec,
            config.policy_sizes,
            config.critic_sizes,
            config.network,
            make_head,
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
                sampler=config.sampler,
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
        return transition.TransitionAdder(
            address=address,
            table=TABLE,
            codec=self._codec(environment_spec),
            n_step=self._config.n_step,
            discount=self._config.discount,
            num_lanes=role.num_lanes,
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
            control.check_critic(made, environment_spec, config.critic)
        return learning.D4PGLearner(
            loss=loss.d4pg_loss,
            online=networks,
            target=target_networks,
            trained={
                'critic': [networks.observation, networks.critic],
                'policy': [networks.policy],
            },
            acting=[networks.observation, networks.policy],
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
            update_priorities=priorities.PriorityUpdater(replay_addresses, TABLE)
            if config.sampler == 'prioritized'
            else None,
        )

    def _codec(self, environment_spec: specs.EnvironmentSpec) -> rows.RowCodec:
        return rows.RowCodec(rows.make_row_spec(environment_spec, {}))
