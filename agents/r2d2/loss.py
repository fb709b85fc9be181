"""The loss of R2D2: n-step double Q-learning on rescaled values of sequences."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf
import tree

from repertory.agents.r2d2 import config as r2d2_config
from repertory.agents.r2d2 import networks
from repertory.components import learner, types
from repertory.components.losses import sequences, value
from repertory.components.networks import observations
from repertory.replay import priorities


def sequence_loss(
    online: networks.Networks,
    target: networks.Networks,
    sample: types.Sample,
    config: r2d2_config.Config,
) -> learner.LossOutput:
    """Returns mean_i w_i sum_t (y_t - Q(s_t, a_t))^2 / 2, and the priorities.

    Both networks are unrolled over the burn-in from the same stored state, each to a
    state of its own, without gradient; then over the trace. The dummy step at an
    episode's end and padding count nowhere. It is the sum over time, not the mean, that
    the learning rate is for.

    Reference: Kapturowski et al. (2019), "Recurrent Experience Replay in Distributed
    Reinforcement Learning", sec. 2.3 and 3, https://openreview.net/forum?id=r1lyTjAqYX.

    Args:
        online, target: the trained networks and their copy.
        sample: Trajectories [B, burn-in + trace + 1, ...].
        config: gives lengths, n, discount and the exponents.
    """
    rows: types.Row = observations.time_major(sample.data.rows)
    burn_in = config.burn_in_length
    # No sequence crosses an episode's end: none begins within the trace.
    reset = tf.equal(rows.step_type[: burn_in + 1], types.StepType.FIRST)

    def unroll(network):
        state = sample.data.state
        if config.zero_state:
            state = network.q.initial_state(tf.shape(reset)[1])
        return network.q.unroll(rows.observation, state, reset, burn_in)

    q = unroll(online)  # [T + 1, B, A]
    trace = tree.map_structure(lambda x: x[burn_in:], rows)
    td = td_errors(q, unroll(target), trace, config)
    info, beta = sample.info, config.importance_sampling_exponent
    least = info.least_probability
    weights = priorities.importance_weights(info.probability, beta, least)
    return learner.LossOutput(
        loss=tf.reduce_mean(weights * tf.reduce_sum(value.squared(td.error), axis=0)),
        priorities=td.priority,
        metrics={
            'mean_q': tf.reduce_mean(q[:-1][td.valid]),
            'mean_abs_td_error': tf.reduce_mean(tf.abs(td.error[td.valid])),
            'mean_importance_weight': tf.reduce_mean(weights),
            'valid_fraction': tf.reduce_mean(tf.cast(td.valid, tf.float32)),
        },
    )


class TDErrors(NamedTuple):
    error: tf.Tensor  # float32 [T, B]; 0 where not valid.
    valid: tf.Tensor  # bool [T, B]
    priority: tf.Tensor  # float32 [B], of each sequence.


def td_errors(
    q: tf.Tensor, target_q: tf.Tensor, trace: types.Row, config: r2d2_config.Config
) -> TDErrors:
    """Returns the TD errors of traces, in the scale of h, and what follows of them.

    Args:
        q, target_q: float32 [T + 1, B, A].
        trace: [T + 1, B]; observation and extras are not read.
        config: gives n, gamma, epsilon and eta.
    """
    # A row starts a real step unless it is a final observation or padding.
    valid = trace.step_type[:-1] < types.StepType.LAST
    error = sequences.double_q_td_errors(
        q,
        target_q,
        trace.action[:-1],
        trace.reward[1:],
        config.discount * trace.discount[1:],
        valid,
        config.n_step,
        config.rescaling_epsilon,
    )
    priority = sequences.sequence_priorities(error, valid, config.max_priority_weight)
    return TDErrors(error, valid, config.priority_epsilon + priority)
