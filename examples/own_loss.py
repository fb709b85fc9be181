"""A loss of one's own for Ape-X DQN: the logarithm of cosh, in place of Huber's.

python examples/own_loss.py
"""

from __future__ import annotations

import argparse
import dataclasses
import math

import tensorflow as tf

from repertory.agents import apex_dqn
from repertory.agents.apex_dqn import builder as apex_dqn_builder
from repertory.components import learner, optimizers
from repertory.components.losses import value
from repertory.launch import experiment, local
from repertory.replay import priorities


def log_cosh_loss(online, target, sample, config) -> learner.LossOutput:
    """Returns mean_i w_i log cosh(G_i - Q(s_i, a_i)), and priorities |G_i - Q|."""
    step = sample.data  # Transitions [B, ...]; discount holds gamma^n already.
    error = value.double_q_td_error(
        online.q(step.observation),
        step.action,
        step.reward,
        step.discount,
        online.q(step.next_observation),
        target.q(step.next_observation),
    )  # [B]
    info, beta = sample.info, config.importance_sampling_exponent
    weights = priorities.importance_weights(
        info.probability, beta, info.least_probability
    )
    # log cosh x, which does not overflow for large x.
    log_cosh = error + tf.nn.softplus(-2.0 * error) - math.log(2.0)
    return learner.LossOutput(
        loss=tf.reduce_mean(weights * log_cosh),
        priorities=tf.abs(error) + config.priority_epsilon,
        metrics={'mean_abs_td_error': tf.reduce_mean(tf.abs(error))},
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(apex_dqn.Config):
    def make_builder(self) -> Builder:
        return Builder(self)


class Builder(apex_dqn_builder.Builder):
    """All but the learner is Ape-X DQN's."""

    def make_learner(self, networks, target_networks, environment_spec, samples, addrs):
        return learner.SGDLearner(
            loss=log_cosh_loss,
            online=networks,
            target=target_networks,
            trained=[networks.q],
            acting=[networks.q],
            targets=[(networks.q, target_networks.q)],
            config=self._config,
            optimizer=optimizers.Adam(self._config.learning_rate),
            samples=samples,
            update_priorities=priorities.PriorityUpdater(addrs, apex_dqn_builder.TABLE),
        )


def make_experiment(max_actor_steps: int) -> experiment.ExperimentConfig:
    """Returns what is run."""
    return experiment.ExperimentConfig(
        agent=Config(), environment='catch', max_actor_steps=max_actor_steps
    )


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--max-actor-steps', default=20_000, type=int)
    print(local.run_experiment(make_experiment(parser.parse_args().max_actor_steps)))
