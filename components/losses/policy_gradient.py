"""Losses of stochastic and deterministic policies, one value for each step."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


def log_probability(logits: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Returns log pi(a), float [...], of logits [..., A] and int actions [...]."""
    return -tf.nn.sparse_softmax_cross_entropy_with_logits(action, logits)


def policy_gradient(
    logits: tf.Tensor, action: tf.Tensor, advantage: tf.Tensor
) -> tf.Tensor:
    """Returns -log pi(a) advantage, float [...]; no gradient through the advantage.

    Args:
        logits: float [..., A].
        action: int [...].
        advantage: float [...].

    Raises:
        ValueError: if the advantage's shape is not the action's.
    """
    log_pi = log_probability(logits, action)
    log_pi.shape.assert_is_compatible_with(advantage.shape)
    return -log_pi * tf.stop_gradient(advantage)


def entropy(logits: tf.Tensor) -> tf.Tensor:
    """Returns -sum_a pi(a) log pi(a), float [...], in nats, of logits [..., A].

    An action whose probability underflows to 0 adds 0; a logit of -inf is not allowed.
    """
    log_pi = tf.nn.log_softmax(logits)
    return -tf.reduce_sum(tf.exp(log_pi) * log_pi, axis=-1)


def deterministic_policy_gradient(
    action: tf.Tensor,
    dqda: tf.Tensor,
    max_norm: float | None = None,
    max_abs: float | None = None,
) -> tf.Tensor:
    """Returns a loss [B] whose gradient to the action is -dq/da, clipped.

    Its value is half the squared norm of the clipped dq/da.

    Reference: Silver et al. (2014), "Deterministic Policy Gradient Algorithms",
    eq. 9, http://proceedings.mlr.press/v32/silver14.html.

    Args:
        action: float [B, ...]; of the policy, carrying its gradient.
        dqda: float [B, ...]; gradient of the critic's value to the action.
        max_norm: largest norm of each sample's dq/da; None for no such clip.
        max_abs: largest absolute value of each element, applied first; None likewise.

    Returns:
        float [B].

    Raises:
        ValueError: if a limit is not positive, or the shapes differ.
    """
    for name, limit in (('max_norm', max_norm), ('max_abs', max_abs)):
        if limit is not None and limit <= 0.0:
            raise ValueError(f'{name} must be > 0, got {limit}; None turns it off.')
    action.shape.assert_is_compatible_with(dqda.shape)
    batch = tf.shape(action)[0]
    action, dqda = (tf.reshape(x, [batch, -1]) for x in (action, dqda))  # [B, D]
    if max_abs is not None:
        dqda = tf.clip_by_value(dqda, -max_abs, max_abs)
    if max_norm is not None:
        dqda = tf.clip_by_norm(dqda, max_norm, axes=-1)
    target = tf.stop_gradient(action + dqda)
    return 0.5 * tf.reduce_sum(tf.square(target - action), axis=-1)


def deterministic_policy_loss(
    policy: Callable[[tf.Tensor], tf.Tensor],
    value: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    features: tf.Tensor,
    max_norm: float | None = None,
    max_abs: float | None = None,
) -> tf.Tensor:
    """Returns the mean of `deterministic_policy_gradient` at a critic's dq/da.

    Only the policy's variables get a gradient: none goes into the features, nor into
    the critic.

    Args:
        policy: features to actions [B, ...].
        value: (features, actions) to values [B].
        features: float [B, F].
        max_norm: see `deterministic_policy_gradient`, as for `max_abs`.
        max_abs: likewise.

    Returns:
        float [].
    """
    features = tf.stop_gradient(features)
    action = policy(features)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(action)
        q = value(features, action)
    dqda = tape.gradient(q, action)
    return tf.reduce_mean(
        deterministic_policy_gradient(action, dqda, max_norm, max_abs)
    )
