"""Plain DQN with uniform replay, built from nothing but the parts; reaches Catch 0.9.

python examples/dqn.py

Mnih et al. (2015), "Human-level control through deep reinforcement learning", with
n-step returns.
"""

from __future__ import annotations

import argparse
import dataclasses

import sonnet as snt
import tensorflow as tf

from repertory.agents import builder
from repertory.components import learner, optimizers, policies
from repertory.components.losses import value
from repertory.components.networks import heads, observations, torsos
from repertory.launch import experiment, local
from repertory.replay import datasets, limits, rows, tables
from repertory.replay.adders import transition


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(builder.AgentConfig):
    """Hyperparameters; `wiring` and `SGDLearner` read the last three."""

    n_step: int = 3
    discount: float = 0.99
    batch_size: int = 64
    samples_per_insert: float = 8.0
    variable_update_period: int = 100
    target_update_period: int = 100
    max_gradient_norm: float | None = 40.0

    def make_builder(self) -> builder.Builder:
        return Builder(self)


@dataclasses.dataclass(frozen=True)
class Networks:
    q: snt.Module


def loss(online, target, sample, config) -> learner.LossOutput:
    """Returns the mean Huber loss of R + D max_a Q(s', a; target) - Q(s, a)."""
    step = sample.data
    bootstrap = tf.reduce_max(target.q(step.next_observation), axis=-1)
    targets = tf.stop_gradient(step.reward + step.discount * bootstrap)
    error = targets - value.select(online.q(step.observation), step.action)
    return learner.LossOutput(tf.reduce_mean(value.huber(error)), tf.zeros([0]), {})


class Builder(builder.Builder):
    def __init__(self, config):
        self._config = config

    def make_networks(self, environment_spec):
        head = heads.QHead(environment_spec.actions.num_values, hidden_sizes=[64])
        q = snt.Sequential([torsos.MLP([64]), head], name='q')
        observations.create_variables(q, environment_spec.observations)
        return Networks(q=q)

    def make_policy(self, networks, environment_spec, role):
        epsilon = [0.0 if role.evaluation else 0.1] * role.num_lanes
        return policies.EpsilonGreedyPolicy(
            networks.q, epsilon, environment_spec.actions, role.seed
        )

    def make_table_specs(self, environment_spec, policy, num_lanes):
        config = self._config
        limit = limits.make_rate_limit(
            config.samples_per_insert, min_size=500, batch_size=config.batch_size
        )
        return [
            tables.TableSpec(
                name='replay',
                sampler='uniform',
                max_size=20_000,
                rate_limit=limit,
                signature=tables.signature(
                    _codec(environment_spec), length=config.n_step + 1
                ),
            )
        ]

    def make_adder(self, address, environment_spec, policy, role, wait):
        return transition.TransitionAdder(
            address=address,
            table='replay',
            codec=_codec(environment_spec),
            n_step=self._config.n_step,
            discount=self._config.discount,
            num_lanes=role.num_lanes,
            wait=wait,
        )

    def make_dataset(self, addresses, environment_spec, policy, num_lanes, prefetch):
        return datasets.make_transition_dataset(
            addresses=addresses,
            table='replay',
            codec=_codec(environment_spec),
            n_step=self._config.n_step,
            discount=self._config.discount,
            batch_size=self._config.batch_size,
            prefetch=prefetch,
        )

    def make_learner(
        self, networks, target_networks, environment_spec, samples, replay_addresses
    ):
        return learner.SGDLearner(
            loss=loss,
            online=networks,
            target=target_networks,
            trained=[networks.q],
            acting=[networks.q],
            targets=[(networks.q, target_networks.q)],
            config=self._config,
            optimizer=optimizers.Adam(1e-3),
            samples=samples,
        )


def _codec(environment_spec) -> rows.RowCodec:
    return rows.RowCodec(rows.make_row_spec(environment_spec, {}))


def make_experiment(max_actor_steps: int) -> experiment.ExperimentConfig:
    """Returns what is run."""
    return experiment.ExperimentConfig(
        agent=Config(),
        environment='catch',
        max_actor_steps=max_actor_steps,
    )


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--max-actor-steps', default=30_000, type=int)
    print(local.run_experiment(make_experiment(parser.parse_args().max_actor_steps)))
