"""The parts of R2D2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tensorflow as tf

from repertory.agents import builder
from repertory.agents.r2d2 import config as r2d2_config
from repertory.agents.r2d2 import loss, networks
from repertory.components import (
    compiled,
    core,
    learner,
    optimizers,
    policies,
    schedules,
    specs,
    types,
)
from repertory.replay import datasets, priorities, rows, tables
from repertory.replay.adders import sequence

TABLE = 'sequence_table'


class Builder(builder.Builder):
    """Builds R2D2 from its config."""

    def __init__(self, config: r2d2_config.Config):
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
        config = self._config
        epsilons = [config.evaluation_epsilon] * role.num_lanes
        if not role.evaluation:
            epsilons = schedules.lane_epsilons(
                config.epsilon, config.epsilon_alpha, role
            )
        return policies.RecurrentEpsilonGreedyPolicy(
            networks.q, epsilons, environment_spec.actions, role.seed
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
                remover='fifo',
                max_size=config.max_replay_size,
                rate_limit=config.rate_limit(),
                priority_exponent=config.priority_exponent,
                signature=tables.signature(
                    self._codec(environment_spec),
                    config.sequence_length,
                    rows.make_state_codec(policy.initial_state(1)),
                ),
                new_rows_per_item=config.sequence_period,
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
        return sequence.SequenceAdder(
            address=address,
            table=TABLE,
            codec=self._codec(environment_spec),
            burn_in_length=config.burn_in_length,
            trace_length=config.trace_length,
            period=config.sequence_period,
            num_lanes=role.num_lanes,
            wait=wait,
            state_codec=rows.make_state_codec(policy.initial_state(1)),
            priority_fn=make_actor_priorities(config),
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
        return datasets.make_trajectory_dataset(
            addresses=addresses,
            table=TABLE,
            codec=self._codec(environment_spec),
            length=config.sequence_length,
            batch_size=config.batch_size,
            updates_per_call=config.updates_per_call,
            prefetch=prefetch,
            state_codec=rows.make_state_codec(policy.initial_state(1)),
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
            loss=loss.sequence_loss,
            online=networks,
            target=target_networks,
            trained=[networks.q],
            acting=[networks.q],
            targets=[(networks.q, target_networks.q)],
            config=config,
            optimizer=optimizers.Adam(
                config.learning_rate, epsilon=config.optimizer_epsilon
            ),
            samples=samples,
            update_priorities=priorities.PriorityUpdater(replay_addresses, TABLE),
        )

    def _codec(self, environment_spec: specs.EnvironmentSpec) -> rows.RowCodec:
        return rows.RowCodec(rows.make_row_spec(environment_spec, {}))


def make_actor_priorities(config: r2d2_config.Config) -> sequence.PriorityFn:
    """Returns the function that gives new sequences their priorities.

    It is the learner's, with the values that the actor's own online network had when
    it acted in the place of both networks.

    Reference: Kapturowski et al. (2019), sec. 2.3.
    """

    def compute(q_taken, q_max, *scalars):
        # Values of one action: the one taken, and the best one at the bootstrap.
        q, target_q = (tf.transpose(x)[..., tf.newaxis] for x in (q_taken, q_max))
        action = tf.zeros(tf.shape(q)[:2], tf.int32)
        reward, discount, step_type = map(tf.transpose, scalars)
        trace = types.Row((), action, reward, discount, step_type, {})
        return loss.td_errors(q, target_q, trace, config).priority

    leaf = tf.TensorSpec([None, config.trace_length + 1])
    step_type = tf.TensorSpec(leaf.shape, tf.uint8)
    traced = compiled.Compiled(compute, [*[leaf] * 4, step_type], small=True)
    return lambda extras, reward, discount, step_type: traced(
        extras['q_taken'], extras['q_max'], reward, discount, step_type
    ).numpy()
