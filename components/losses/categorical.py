"""Value distributions on a fixed support."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class CategoricalTD(NamedTuple):
    """Of each sample; only `cross_entropy` carries a gradient."""

    cross_entropy: tf.Tensor  # float [B], of the prediction under the target
    divergence: tf.Tensor  # float [B], cross-entropy minus the target's entropy
    target: tf.Tensor  # float [B, K], probabilities


def categorical_project(
    atoms: tf.Tensor, probabilities: tf.Tensor, support: tf.Tensor
) -> tf.Tensor:
    """Returns a distribution moved onto `support`, keeping its mean if within.

    An atom between two points of the support is shared by them linearly, one outside
    is moved to the nearest end: as the triangular kernel says,
    m_i = sum_j p_j max(0, 1 - |clip(z_j) - z_i| / distance from z_i to its neighbour
    on that side).

    Reference: Bellemare et al. (2017), "A Distributional Perspective on Reinforcement
    Learning", eq. 7, https://arxiv.org/abs/1707.06887.

    Args:
        atoms: float [B, J]; where the distribution has its mass.
        probabilities: float [B, J].
        support: float [K], strictly increasing, K >= 2.

    Returns:
        float [B, K].

    Raises:
        ValueError: if the shapes do not fit.
    """
    tf.debugging.assert_shapes(
        [(atoms, ('B', 'J')), (probabilities, ('B', 'J')), (support, ('K',))],
        message='atoms and probabilities must be [B, J], support [K]',
    )
    clipped = tf.reshape(tf.clip_by_value(atoms, support[0], support[-1]), [-1])
    size = support.shape[0]
    # The last point counts as the upper end of the last gap.
    lower = tf.searchsorted(support, clipped, side='right') - 1
    lower = tf.clip_by_value(lower, 0, size - 2)  # [B * J]
    below, above = tf.gather(support, lower), tf.gather(support, lower + 1)
    share = (clipped - below) / (above - below)
    mass = tf.reshape(probabilities, [-1])
    batch, num_atoms = tf.unstack(tf.shape(atoms))
    place = lower + size * tf.repeat(tf.range(batch), num_atoms)
    # A sum over [B, K, J] says the same, and takes three times as long.
    flat = tf.math.unsorted_segment_sum(
        tf.concat([mass * (1.0 - share), mass * share], axis=0),
        tf.concat([place, place + 1], axis=0),
        batch * size,
    )
    return tf.reshape(flat, [batch, size])


def categorical_td(
    logits_tm1: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    logits_t: tf.Tensor,
    support: tf.Tensor,
) -> CategoricalTD:
    """Returns the cross-entropy to the projected distribution of R + D Z(s').

    Reference: Barth-Maron et al. (2018), "Distributed Distributional Deterministic
    Policy Gradients", sec. 3, https://arxiv.org/abs/1804.08617.

    Args:
        logits_tm1: float [B, K]; the prediction.
        r_t: float [B]; discounted sum of the rewards up to the bootstrap.
        discount_t: float [B]; all factors of gamma and the environment's discount.
        logits_t: float [B, K]; target network at the bootstrap.
        support: float [K], strictly increasing.

    Raises:
        ValueError: if the shapes do not fit.
    """
    tf.debugging.assert_shapes(
        [
            (logits_tm1, ('B', 'K')),
            (logits_t, ('B', 'K')),
            (r_t, ('B',)),
            (discount_t, ('B',)),
            (support, ('K',)),
        ],
        message='logits must be [B, K], r_t and discount_t [B], support [K]',
    )
    atoms = r_t[:, tf.newaxis] + discount_t[:, tf.newaxis] * support
    probabilities = tf.nn.softmax(logits_t)
    target = tf.stop_gradient(categorical_project(atoms, probabilities, support))
    cross_entropy = tf.nn.softmax_cross_entropy_with_logits(target, logits_tm1)
    entropy = -tf.reduce_sum(tf.math.xlogy(target, target), axis=-1)
    divergence = tf.stop_gradient(cross_entropy - entropy)
    return CategoricalTD(cross_entropy, divergence, target)


def mass_outside(
    r_t: tf.Tensor, discount_t: tf.Tensor, logits_t: tf.Tensor, support: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns how much of the targets R + D Z(s') the support's ends cut off.

    Where it is not small the values pile up at an end and cannot be told apart.

    Args:
        r_t: float [B]; see `categorical_td`, as for all that follow.
        discount_t: float [B].
        logits_t: float [B, K].
        support: float [K].

    Returns:
        Mean probability below the support and above it, float [] in [0, 1] each.
    """
    atoms = r_t[:, tf.newaxis] + discount_t[:, tf.newaxis] * support  # [B, K]
    probabilities = tf.nn.softmax(logits_t)
    # Values at an end themselves, up to rounding, are not cut off.
    tolerance = 1e-3 * (support[1] - support[0])

    def mass(outside: tf.Tensor) -> tf.Tensor:
        kept = tf.where(outside, probabilities, tf.zeros_like(probabilities))
        return tf.reduce_mean(tf.reduce_sum(kept, axis=-1))

    below, above = atoms < support[0] - tolerance, atoms > support[-1] + tolerance
    return mass(below), mass(above)
