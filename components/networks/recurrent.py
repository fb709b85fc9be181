"""A long short-term memory; `unrolling` has its unroll, which is written for speed."""

from __future__ import annotations

import sonnet as snt
import tensorflow as tf

from repertory.components.networks import unrolling

# Features. With as many and several lanes, oneDNN's product of rank 3 takes 0.6 of the
# time of its product of rank 2; with 1,024 1.3 times as long, with one lane 1.7.
_MANY = 2048


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
        hidden, cell = (tf.transpose(x) for x in state)
        raw = _product(self._w_x, tf.transpose(inputs)) + self._b[:, tf.newaxis]
        hidden, cell, *_ = unrolling.forward(raw + tf.matmul(self._w_h, hidden), cell)
        hidden = tf.transpose(hidden)
        return hidden, snt.LSTMState(hidden, tf.transpose(cell))

    def unroll(
        self,
        inputs: tf.Tensor,
        state: snt.LSTMState,
        reset: tf.Tensor,
        static: bool | None = None,
    ) -> tuple[tf.Tensor, snt.LSTMState]:
        """Returns the outputs [T, N, H] for inputs [T, N, F], and the last state.

        Args:
            inputs: float32 [T, N, F].
            state: [N, H] each, before the first input.
            reset: bool [R, N], R <= T; where True the initial state takes the place of
                the state before that input. Later steps are never reset, which is
                faster where it is known.
            static: whether the loop is written out in the graph, which needs a known
                T: slower to trace, up to twice as fast to run. None: if T is known.

        Raises:
            ValueError: if the shapes do not fit, or T is unknown and `static` is set.
        """
        tf.debugging.assert_shapes(
            [(inputs, ('T', 'N', 'F')), (reset, ('R', 'N'))],
            message='inputs must be [T, N, F] and reset [R, N]',
        )
        length = inputs.shape[0]
        if static is None:
            static = length is not None
        if static and length is None:
            raise ValueError(
                'inputs must have a known length for static=True, got '
                f'{inputs.shape}; set its shape or use static=False.'
            )
        if length is not None and (reset.shape[0] or 0) > length:
            raise ValueError(
                f'reset must have at most the {length} steps of inputs, got '
                f'{reset.shape}.'
            )
        self._create(inputs.shape[-1])
        weights = [tf.convert_to_tensor(x) for x in (self._w_x, self._w_h, self._b)]
        num_lanes = inputs.shape[1]
        if num_lanes is None:
            num_lanes = tf.shape(inputs)[1]
        initial = self.initial_state(num_lanes)
        if _are_zeros(initial):
            initial = ()
        outputs, hidden, cell = unrolling.unroll(
            inputs, weights, state, initial, reset, static
        )
        outputs.set_shape([*inputs.shape[:2], self.hidden_size])
        return outputs, snt.LSTMState(hidden, cell)

    @snt.once
    def _create(self, input_size: int) -> None:
        size = self.hidden_size
        init = snt.initializers.TruncatedNormal(stddev=size**-0.5)
        self._w_x = tf.Variable(init([4 * size, input_size], tf.float32), name='w_x')
        self._w_h = tf.Variable(init([4 * size, size], tf.float32), name='w_h')
        # Gates in this order: input, forget, output, candidate.
        bias = tf.concat([tf.zeros([size]), tf.ones([size]), tf.zeros([2 * size])], 0)
        self._b = tf.Variable(bias, name='b')


def _product(w, columns):
    """Returns w [M, F] times columns [F, N]."""
    if w.shape[1] < _MANY or columns.shape[1] in (None, 1):
        return tf.matmul(w, columns)
    product = tf.matmul(tf.expand_dims(w, 0), tf.expand_dims(columns, 0))
    return tf.squeeze(product, axis=0)


def _are_zeros(states):
    """Returns whether they are known to be, as a graph is made.

    Without a graph a variable's value is known too, but may change.
    """
    if tf.executing_eagerly():
        return False
    values = [tf.get_static_value(x) for x in states]
    return all(x is not None and not x.any() for x in values)
