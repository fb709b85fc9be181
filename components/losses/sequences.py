"""Q-learning over sequences with padding, and the priority of a sequence."""

from __future__ import annotations

import tensorflow as tf

from repertory.components.losses import multistep, rescaling, value


def double_q_td_errors(
    q: tf.Tensor,
    target_q: tf.Tensor,
    a_tm1: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    valid: tf.Tensor,
    n: int,
    rescaling_epsilon: float | None,
) -> tf.Tensor:
    """Returns n-step double-Q targets minus predictions, in the networks' scale.

    y_t = h(R_t + D_t h^-1(Q(s_{t+m}, argmax_a Q(s_{t+m}, a; online); target))), with
    rewards in their own scale, and m as in `multistep.n_step_targets`.

    Reference: Kapturowski et al. (2019), "Recurrent Experience Replay in Distributed
    Reinforcement Learning", sec. 2.3.

    Args:
        q: float [T + 1, B, A]; online network at s_0 ... s_T.
        target_q: float [T + 1, B, A]; target network.
        a_tm1: int [T, B]; entry t was taken at s_t.
        r_t: float [T, B]; entry t is the reward of the step from s_t to s_{t+1}.
        discount_t: float [T, B]; gamma times the environment's discount.
        valid: bool [T, B]; whether the step is a real one.
        n: steps before the bootstrap.
        rescaling_epsilon: epsilon of h; None for values that are not rescaled.

    Returns:
        float [T, B], 0 where the step is not valid; no gradient through targets.

    Raises:
        ValueError: if the shapes do not fit, or `n` is less than 1.
    """
    tf.debugging.assert_shapes(
        [
            (q, ('S', 'B', 'A')),
            (target_q, ('S', 'B', 'A')),
            (a_tm1, ('T', 'B')),
            (valid, ('T', 'B')),
        ],
        message='q and target_q must be [T + 1, B, A], a_tm1 and valid [T, B]',
    )
    best = tf.argmax(q[1:], axis=-1, output_type=tf.int32)
    v_t = value.select(target_q[1:], best)  # [T, B]
    if rescaling_epsilon is not None:
        v_t = rescaling.unrescale(v_t, rescaling_epsilon)
    target = multistep.n_step_targets(r_t, discount_t, v_t, n, valid)
    if rescaling_epsilon is not None:
        target = rescaling.rescale(target, rescaling_epsilon)
    td_error = tf.stop_gradient(target) - value.select(q[:-1], a_tm1)
    return tf.where(valid, td_error, tf.zeros_like(td_error))


def sequence_priorities(td_error: tf.Tensor, valid: tf.Tensor, eta: float) -> tf.Tensor:
    """Returns eta max_t |td_t| + (1 - eta) mean_t |td_t| over the valid steps.

    Reference: Kapturowski et al. (2019), sec. 2.3; eta is 0.9 there.

    Args:
        td_error: float [T, B].
        valid: bool [T, B].
        eta: in [0, 1].

    Returns:
        float [B]; 0 for a sequence without a valid step.

    Raises:
        ValueError: if `eta` is outside [0, 1] or the shapes differ.
    """
    if not 0.0 <= eta <= 1.0:
        raise ValueError(f'eta must be in [0, 1], got {eta}.')
    tf.debugging.assert_shapes(
        [(td_error, ('T', 'B')), (valid, ('T', 'B'))],
        message='td_error and valid must have the same shape [T, B]',
    )
    error = tf.where(valid, tf.abs(td_error), tf.zeros_like(td_error))
    count = tf.reduce_sum(tf.cast(valid, error.dtype), axis=0)
    mean = tf.math.divide_no_nan(tf.reduce_sum(error, axis=0), count)
    return eta * tf.reduce_max(error, axis=0) + (1.0 - eta) * mean
