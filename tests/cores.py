"""Recurrent cores for tests."""

import sonnet as snt
import tensorflow as tf

from repertory.components.networks import recurrent


class HalfState(recurrent.LSTM):
    """Begins each episode with 0.5 everywhere."""

    def initial_state(self, num_lanes):
        return snt.LSTMState(*[tf.fill([num_lanes, self.hidden_size], 0.5)] * 2)
