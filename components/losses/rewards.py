"""Transforms of rewards before learning; the environment's own are logged as they are.

Reference: Espeholt et al. (2018), "IMPALA", fig. D.1 and app. F,
https://arxiv.org/abs/1802.01561.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


def identity(reward: tf.Tensor) -> tf.Tensor:
    return reward


def unit_clip(reward: tf.Tensor) -> tf.Tensor:
    """Returns the reward clipped to [-1, 1]."""
    return tf.clip_by_value(reward, -1.0, 1.0)


def asymmetric(reward: tf.Tensor) -> tf.Tensor:
    """Returns 5 tanh(r / 5), times 0.3 if negative: the published code's function."""
    squashed = 5.0 * tf.tanh(reward / 5.0)
    return tf.where(reward < 0.0, 0.3 * squashed, squashed)


def asymmetric_paper(reward: tf.Tensor) -> tf.Tensor:
    """Returns 0.3 min(tanh r, 0) + 5 max(tanh r, 0), as fig. D.1 of the paper says."""
    squashed = tf.tanh(reward)
    return 0.3 * tf.minimum(squashed, 0.0) + 5.0 * tf.maximum(squashed, 0.0)


TRANSFORMS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    'none': identity,
    'clip': unit_clip,
    'tanh': tf.tanh,
    'asymmetric': asymmetric,
    'asymmetric_paper': asymmetric_paper,
}
