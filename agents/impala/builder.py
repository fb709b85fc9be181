"""The parts of IMPALA."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dm_env.specs
import numpy as np
import tensorflow as tf

from repertory.agents import builder
from repertory.agents.impala import config as impala_config
from repertory.agents.impala import loss, networks
from repertory.components import (
    core,
    learner,
    optimizers,
    policies,
    schedules,
    specs,
    types,
)
from repertory.replay import datasets, rows, tables
from repertory.replay.adders import unroll

TABLE = 'queue'


class Builder(builder.Builder):
    """Builds IMPALA from its config."""

    def __init__(self, config: impala_config.Config):
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
        return policies.SoftmaxPolicy(
            networks.policy_value,
            environment_spec.actions,
            role.seed,
            greedy=role.evaluation and self._config.evaluation_greedy,
        )

    def make_table_specs(
        self,
        environment_spec: specs.EnvironmentSpec,
        policy: policies.Policy,
        num_lanes: int,
    ) -> Sequence[tables.TableSpec]:
        config = self._config
        config.check_lanes(num_lanes)
        return [
            tables.make_queue(
                TABLE,
                max_size=config.max_queue_size // num_lanes,
                signature=tables.signature(
                    _row_codec(environment_spec, policy),
                    config.unroll_length + 1,
                    rows.make_state_codec(policy.initial_state(1)),
                    num_lanes,
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
        return unroll.UnrollAdder(
            address=address,
            table=TABLE,
            codec=_row_codec(environment_spec, policy),
            unroll_length=self._config.unroll_length,
            wait=wait,
            state_codec=rows.make_state_codec(policy.initial_state(1)),
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
        config.check_lanes(num_lanes)
        return datasets.make_trajectory_dataset(
            addresses=addresses,
            table=TABLE,
            codec=_row_codec(environment_spec, policy),
            length=config.unroll_length + 1,
            batch_size=config.batch_size // num_lanes,
            updates_per_call=config.updates_per_call,
            prefetch=prefetch,
            state_codec=rows.make_state_codec(policy.initial_state(1)),
            num_lanes=num_lanes,
        )

    def make_learner(
        self,
        networks: networks.Networks,
        target_networks: networks.Networks,
        environment_spec: specs.EnvironmentSpec,
        samples: Iterator[types.Sample],
        replay_addresses: Sequence[str],
    ) -> core.Learner:
        return learner.SGDLearner(
            loss=loss.vtrace_loss,
            online=networks,
            target=target_networks,
            trained=[networks.policy_value],
            acting=[networks.policy_value],
            targets=[],
            config=self._config,
            optimizer=_make_optimizer(self._config),
            samples=samples,
            summed=True,
        )


def _row_codec(
    environment_spec: specs.EnvironmentSpec, policy: policies.Policy
) -> rows.RowCodec:
    # The actor adds the version of the parameters that it acted with.
    extras = {**policy.extras_spec, 'version': dm_env.specs.Array((), np.int64)}
    return rows.RowCodec(
        rows.make_row_spec(environment_spec, extras, ('logits', 'version'))
    )


def _make_optimizer(config: impala_config.Config) -> optimizers.Optimizer:
    rate: optimizers.LearningRate = config.learning_rate
    if config.learning_rate_decay_steps is not None:
        rate = schedules.linear(
            config.learning_rate, 0.0, config.learning_rate_decay_steps
        )
    if config.optimizer == 'adam':
        return optimizers.Adam(rate, epsilon=config.optimizer_epsilon)
    return optimizers.RMSProp(
        rate, decay=0.99, epsilon=config.optimizer_epsilon, initial_square=1.0
    )
