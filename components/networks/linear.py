"""Fully connected layers whose bias and activation are part of the product."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sonnet as snt
import tensorflow as tf

Activation = Callable[[tf.Tensor], tf.Tensor]


class Linear(snt.Module):
    """x W + b, for features [N, F].

    Sonnet's adds the bias by `tf.add`. By `tf.nn.bias_add` TensorFlow makes product,
    bias and activation one operation, where it optimizes a graph: ReLU and ELU are
    then for free.
    """

    def __init__(
        self,
        output_size: int,
        w_init: snt.initializers.Initializer | None = None,
        name: str | None = None,
    ):
        """Makes the layer.

        Args:
            output_size: G.
            w_init: of W [F, G]; None for a truncated normal distribution of standard
                deviation F^-1/2. b begins as zeros.
            name: of the module.
        """
        super().__init__(name=name)
        self._output_size = output_size
        self._w_init = w_init

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Returns [N, G].

        Raises:
            ValueError: if x is not float32 with at least two axes, the last one known.
        """
        x = tf.convert_to_tensor(x)
        if x.shape.rank in (None, 0, 1) or x.shape[-1] is None or x.dtype != tf.float32:
            raise ValueError(
                'x must be float32 [N, F] with a known F, got '
                f'{x.dtype.name}{x.shape}; cast it, or flatten it first.'
            )
        self._create(x.shape[-1])
        return tf.nn.bias_add(tf.matmul(x, self._w), self._b)

    @snt.once
    def _create(self, input_size: int) -> None:
        init = self._w_init
        if init is None:
            init = snt.initializers.TruncatedNormal(stddev=input_size**-0.5)
        shape = [input_size, self._output_size]
        self._w = tf.Variable(init(shape, tf.float32), name='w')
        self._b = tf.Variable(tf.zeros(shape[1:]), name='b')


class Layers(snt.Module):
    """Linear layers, an activation between them and, unless told, after the last."""

    def __init__(
        self,
        layer_sizes: Sequence[int],
        activation: Activation = tf.nn.relu,
        activate_final: bool = True,
        w_init: snt.initializers.Initializer | None = None,
        name: str | None = None,
    ):
        super().__init__(name=name)
        self._layers = [
            Linear(size, w_init, name=f'linear_{i}')
            for i, size in enumerate(layer_sizes)
        ]
        self._activation = activation
        self._activate_final = activate_final

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Takes features [N, F]."""
        for i, layer in enumerate(self._layers, start=1):
            x = layer(x)
            if i < len(self._layers) or self._activate_final:
                x = self._activation(x)
        return x
