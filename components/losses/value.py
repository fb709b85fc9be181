"""Action-value targets and the functions of their errors."""

from __future__ import annotations

import tensorflow as tf


def select(values: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Returns the value of each action: [..., A] at int [...] gives [...].

    Raises:
        ValueError: if the leading axes differ.
    """
    tf.debugging.assert_shapes(
        [(values, (*_axes(action), 'A')), (action, _axes(action))],
        message='values must be [..., A] for action [...]',
    )
    return tf.gather(values, action, axis=-1, batch_dims=len(action.shape))


def double_q_target(
    q_t_selector: tf.Tensor,
    q_t_value: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
) -> tf.Tensor:
    """Returns R + D Q(s', argmax_a Q(s', a; online); target), without gradient.

    Reference: van Hasselt et al. (2016), "Deep Reinforcement Learning with Double
    Q-learning", eq. 4, https://arxiv.org/abs/1509.06461.

    Args:
        q_t_selector: float [B, A]; online network at the bootstrap observation. Of
            equal values the first is taken.
        q_t_value: float [B, A]; target network there.
        r_t: float [B]; discounted sum of the rewards up to it.
        discount_t: float [B]; all factors of gamma and the environment's discount.

    Returns:
        float [B].

    Raises:
        ValueError: if the shapes do not fit.
    """
    tf.debugging.assert_shapes(
        [
            (q_t_selector, ('B', 'A')),
            (q_t_value, ('B', 'A')),
            (r_t, ('B',)),
            (discount_t, ('B',)),
        ],
        message='q_t_selector and q_t_value must be [B, A], r_t and discount_t [B]',
    )
    best = tf.argmax(q_t_selector, axis=-1, output_type=tf.int32)
    return tf.stop_gradient(r_t + discount_t * select(q_t_value, best))


def double_q_td_error(
    q_tm1: tf.Tensor,
    a_tm1: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    q_t_selector: tf.Tensor,
    q_t_value: tf.Tensor,
) -> tf.Tensor:
    """Returns target minus prediction; the gradient is that of -Q(s, a).

    Args:
        q_tm1: float [B, A]; online network at the first observation.
        a_tm1: int [B]; action taken there.
        r_t: see `double_q_target`, as for all that follow.
        discount_t: float [B].
        q_t_selector: float [B, A].
        q_t_value: float [B, A].

    Returns:
        float [B].

    Raises:
        ValueError: if the shapes do not fit.
    """
    tf.debugging.assert_shapes(
        [(q_tm1, ('B', 'A')), (a_tm1, ('B',)), (q_t_value, ('B', 'A'))],
        message='q_tm1 and q_t_value must be [B, A], a_tm1 [B]',
    )
    target = double_q_target(q_t_selector, q_t_value, r_t, discount_t)
    return target - select(q_tm1, a_tm1)


def squared(x: tf.Tensor) -> tf.Tensor:
    """Returns x^2 / 2, element by element."""
    return 0.5 * tf.square(x)


def huber(x: tf.Tensor, delta: float = 1.0) -> tf.Tensor:
    """Returns x^2 / 2 where |x| <= delta, else delta (|x| - delta / 2).

    Reference: Huber (1964), "Robust Estimation of a Location Parameter".

    Args:
        x: float, any shape.
        delta: where the function turns linear; its gradient is x clipped there.

    Returns:
        float, of the shape of `x`.

    Raises:
        ValueError: if `delta` is not positive.
    """
    if delta <= 0.0:
        raise ValueError(f'delta must be > 0, got {delta}.')
    magnitude = tf.abs(x)
    quadratic = tf.minimum(magnitude, delta)
    return 0.5 * tf.square(quadratic) + delta * (magnitude - quadratic)


def _axes(x: tf.Tensor) -> tuple[str, ...]:
    return tuple(f'axis_{i}' for i in range(len(x.shape)))
