"""The invertible squashing of values that stands in for reward clipping.

Reference: Pohlen et al. (2018), "Observe and Look Further", sec. 3.2 and prop. A.2,
https://arxiv.org/abs/1805.11593.
"""

from __future__ import annotations

import tensorflow as tf


def rescale(x: tf.Tensor, epsilon: float = 1e-3) -> tf.Tensor:
    """Returns h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x, element by element.

    Raises:
        ValueError: if `epsilon` is negative.
    """
    _check(epsilon)
    return tf.sign(x) * (tf.sqrt(tf.abs(x) + 1.0) - 1.0) + epsilon * x


def unrescale(x: tf.Tensor, epsilon: float = 1e-3) -> tf.Tensor:
    """Returns the inverse of `rescale`, element by element.

    With c = |x| + 1 + epsilon and z = 2 c / (1 + sqrt(1 + 4 epsilon c)) it is
    sign(x) (z^2 - 1): the published form times its conjugate, which does not subtract
    nearly equal numbers.

    Raises:
        ValueError: if `epsilon` is negative.
    """
    _check(epsilon)
    c = tf.abs(x) + (1.0 + epsilon)
    z = 2.0 * c / (1.0 + tf.sqrt(1.0 + 4.0 * epsilon * c))
    # (z - 1) (z + 1) loses less near 0 than z^2 - 1.
    return tf.sign(x) * (z - 1.0) * (z + 1.0)


def _check(epsilon: float) -> None:
    if epsilon < 0.0:
        raise ValueError(f'epsilon must be >= 0, got {epsilon}; h has no inverse then.')
