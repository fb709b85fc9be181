"""Layer normalization in few operations."""

from __future__ import annotations

import sonnet as snt
import tensorflow as tf

_EPSILON = 1e-5


class LayerNorm(snt.Module):
    """Normalizes features [N, F] to mean 0 and variance 1, then scales and shifts.

    Its gradient is written out: Sonnet's takes three times as many operations.

    Reference: Ba et al. (2016), "Layer Normalization", sec. 3,
    https://arxiv.org/abs/1607.06450.
    """

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        self._create(x.shape[-1])
        normalized = _normalize(x)
        return normalized * self._scale + self._offset

    @snt.once
    def _create(self, size: int) -> None:
        self._scale = tf.Variable(tf.ones([size]), name='scale')
        self._offset = tf.Variable(tf.zeros([size]), name='offset')


@tf.custom_gradient
def _normalize(x: tf.Tensor):
    centered = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
    inverse = tf.math.rsqrt(variance + _EPSILON)
    y = centered * inverse

    def gradient(dy: tf.Tensor) -> tf.Tensor:
        mean = tf.reduce_mean(dy, axis=-1, keepdims=True)
        along = tf.reduce_mean(dy * y, axis=-1, keepdims=True)
        return inverse * (dy - mean - y * along)

    return y, gradient
