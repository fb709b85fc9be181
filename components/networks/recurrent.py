"""A long short-term memory whose unroll is written for speed.

The projection of the inputs is one matrix product for all steps, and so is the
gradient of the recurrent weights: only what must wait for the previous step is in the
loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sonnet as snt
import tensorflow as tf

Body = Callable[[Sequence[tf.Tensor], Sequence[tf.Tensor]], Sequence[tf.Tensor]]


class LSTM(snt.Module):
    """An LSTM core with forget gates; the forget gate's bias starts at 1.

    A subclass may override `initial_state`: nothing here assumes that it is zero.

    Reference: Gers et al. (2000), "Learning to Forget: Continual Prediction with
    LSTM".
    """

    def __init__(
        self,
        hidden_size: int,
        trainable_initial_state: bool = False,
        name: str | None = None,
    ):
        super().__init__(name=name)
        self.hidden_size = hidden_size
        self._initial = None
        if trainable_initial_state:
            self._initial = snt.LSTMState(
                *(tf.Variable(tf.zeros([hidden_size]), name=n) for n in ('h0', 'c0'))
            )

    def initial_state(self, num_lanes: int | tf.Tensor) -> snt.LSTMState:
        """Returns the state before an episode's first input, float32 [N, H] each."""
        shape = [num_lanes, self.hidden_size]
        if self._initial is None:
            return snt.LSTMState(tf.zeros(shape), tf.zeros(shape))
        return snt.LSTMState(*(tf.broadcast_to(x, shape) for x in self._initial))

    def step(
        self, inputs: tf.Tensor, state: snt.LSTMState
    ) -> tuple[tf.Tensor, snt.LSTMState]:
        """Returns the output [N, H] for inputs [N, F], and the next state."""
        self._create(inputs.shape[-1])
        projected = tf.matmul(inputs, self._w_x) + self._b
        hidden, cell, *_ = _forward(projected, self._w_h, state.hidden, state.cell)
        return hidden, snt.LSTMState(hidden, cell)

    def unroll(
        self,
        inputs: tf.Tensor,
        state: snt.LSTMState,
        reset: tf.Tensor,
        static: bool = False,
    ) -> tuple[tf.Tensor, snt.LSTMState]:
        """Returns the outputs [T, N, H] for inputs [T, N, F], and the last state.

        Args:
            inputs: float32 [T, N, F].
            state: [N, H] each, before the first input.
            reset: bool [T, N]; where True the initial state takes the place of the
                state before that input.
            static: whether the loop is written out in the graph, which needs a known
                T: slower to trace, somewhat faster to run.

        Raises:
            ValueError: if the shapes do not fit, or T is unknown and `static` is set.
        """
        tf.debugging.assert_shapes(
            [(inputs, ('T', 'N', 'F')), (reset, ('T', 'N'))],
            message='inputs must be [T, N, F] and reset [T, N]',
        )
        if static and inputs.shape[0] is None:
            raise ValueError(
                'inputs must have a known length for static=True, got '
                f'{inputs.shape}; set its shape or use static=False.'
            )
        self._create(inputs.shape[-1])
        projected = tf.tensordot(inputs, self._w_x, 1) + self._b  # [T, N, 4 H]
        initial = self.initial_state(tf.shape(inputs)[1])
        outputs, hidden, cell = _unroll(
            projected, tf.convert_to_tensor(self._w_h), state, initial, reset, static
        )
        outputs.set_shape([*inputs.shape[:2], self.hidden_size])
        return outputs, snt.LSTMState(hidden, cell)

    @snt.once
    def _create(self, input_size: int) -> None:
        size = self.hidden_size
        init = snt.initializers.TruncatedNormal(stddev=size**-0.5)
        self._w_x = tf.Variable(init([input_size, 4 * size], tf.float32), name='w_x')
        self._w_h = tf.Variable(init([size, 4 * size], tf.float32), name='w_h')
        # Gates in this order: input, forget, output, candidate.
        bias = tf.concat([tf.zeros([size]), tf.ones([size]), tf.zeros([2 * size])], 0)
        self._b = tf.Variable(bias, name='b')


def _forward(projected, w_h, hidden, cell):
    """Returns h, c, the three gates [N, 3 H], the candidate, and tanh c."""
    size = hidden.shape[-1]
    raw = projected + tf.matmul(hidden, w_h)
    gates = tf.sigmoid(raw[:, : 3 * size])
    candidate = tf.tanh(raw[:, 3 * size :])
    into, keep, out = tf.split(gates, 3, axis=-1)
    cell = keep * cell + into * candidate
    squashed = tf.tanh(cell)
    return out * squashed, cell, gates, candidate, squashed


def _backward(d_hidden, d_cell, cell_before, gates, candidate, squashed):
    """Returns the gradients of the raw gates [N, 4 H] and of the cell before."""
    into, keep, out = tf.split(gates, 3, axis=-1)
    d_cell += d_hidden * out * (1.0 - tf.square(squashed))
    d_gates = tf.concat(
        [d_cell * candidate, d_cell * cell_before, d_hidden * squashed], axis=-1
    )
    d_candidate = d_cell * into * (1.0 - tf.square(candidate))
    d_raw = tf.concat([d_gates * gates * (1.0 - gates), d_candidate], axis=-1)
    return d_raw, d_cell * keep


def _unroll(projected, w_h, state, initial, reset, static):
    """Returns outputs [T, N, H] and the last hidden and cell states.

    The gradient is written out, for two reasons: the weights' gradient is one product
    over all steps, and no more than is needed of the forward loop is kept.
    """
    mask = reset[..., tf.newaxis]  # [T, N, 1]

    @tf.custom_gradient
    def run(projected, w_h, hidden, cell, initial_hidden, initial_cell):
        def forward(carry, now):
            hidden = tf.where(now[1], initial_hidden, carry[0])
            cell = tf.where(now[1], initial_cell, carry[1])
            return (*_forward(now[0], w_h, hidden, cell), hidden, cell)

        size = hidden.shape[-1]
        zeros = tf.zeros_like(hidden)
        start = (hidden, cell, tf.tile(zeros, [1, 3]), zeros, zeros, zeros, zeros)
        outputs, cells, gates, candidate, squashed, hidden_before, cell_before = _scan(
            forward, (projected, mask), start, static
        )

        def gradient(d_outputs, d_hidden, d_cell):
            def backward(carry, now):
                d_output, mask, *kept = now
                d_raw, d_cell = _backward(d_output + carry[0], carry[1], *kept)
                d_hidden = tf.matmul(d_raw, w_h, transpose_b=True)
                none = tf.zeros_like(d_hidden)
                return (
                    tf.where(mask, none, d_hidden),
                    tf.where(mask, none, d_cell),
                    d_raw,
                    carry[3] + tf.where(mask, d_hidden, none),
                    carry[4] + tf.where(mask, d_cell, none),
                )

            zeros = tf.zeros_like(d_hidden)
            start = (d_hidden, d_cell, tf.tile(zeros, [1, 4]), zeros, zeros)
            kept = (d_outputs, mask, cell_before, gates, candidate, squashed)
            sums = _scan(backward, kept, start, static, reverse=True)
            d_projected = sums[2]
            d_w_h = tf.matmul(
                tf.reshape(hidden_before, [-1, size]),
                tf.reshape(d_projected, [-1, 4 * size]),
                transpose_a=True,
            )
            return (d_projected, d_w_h, *(sums[i][0] for i in (0, 1, 3, 4)))

        return (outputs, outputs[-1], cells[-1]), gradient

    return run(projected, w_h, *state, *initial)


def _scan(body: Body, inputs, start, static: bool, reverse: bool = False):
    """Returns what `body` gave at each step, stacked; it takes the step before's."""
    if not static:
        return tf.scan(body, inputs, initializer=start, reverse=reverse)
    steps = list(range(inputs[0].shape[0]))
    inputs = [tf.unstack(x) for x in inputs]
    carry, results = start, []
    for t in reversed(steps) if reverse else steps:
        carry = body(carry, [x[t] for x in inputs])
        results.append(carry)
    if reverse:
        results.reverse()
    return tuple(tf.stack([r[i] for r in results]) for i in range(len(start)))
