"""What an actor does: observation and state in; action, extras and state out."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import NamedTuple

import dm_env.specs
import numpy as np
import sonnet as snt
import tensorflow as tf

from repertory.components import types


class PolicyOutput(NamedTuple):
    action: types.Nest  # [N, ...]
    extras: dict[str, types.Nest]  # [N, ...], as `extras_spec` says.
    state: types.Nest  # [N, ...]


class Policy(abc.ABC):
    """A pure function of observation, state and parameters, traced once by its actor.

    Exploration is part of it. It is batched over lanes, and knows nothing of resets:
    the actor puts `initial_state` back where a lane begins an episode.
    """

    @property
    @abc.abstractmethod
    def variables(self) -> Sequence[tf.Variable]:
        """The parameters, in the order in which the learner publishes them."""

    @property
    @abc.abstractmethod
    def extras_spec(self) -> dict[str, types.Nest]:
        """Specs of one lane's extras, by name; {} for none."""

    def initial_state(self, num_lanes: int) -> types.Nest:
        """Returns the state [N, ...] before an episode's first observation."""
        del num_lanes
        return ()

    @abc.abstractmethod
    def __call__(self, observation: types.Nest, state: types.Nest) -> PolicyOutput:
        """Returns the action for each lane; runs in a graph."""


def epsilon_greedy(
    q_values: tf.Tensor, epsilon: tf.Tensor, generator: tf.random.Generator
) -> tf.Tensor:
    """Returns actions that are random with a lane's chance epsilon, else greedy.

    Args:
        q_values: float32 [N, A].
        epsilon: float32 [N], or [1] for all lanes; each in [0, 1].
        generator: makes two numbers a lane and call.

    Returns:
        int32 [N]; each lane draws for itself.
    """
    tf.debugging.assert_shapes([(q_values, ('N', 'A')), (epsilon, ('E',))])
    num_actions = q_values.shape[1]
    # An exported policy leaves N open.
    draws = generator.uniform([2, tf.shape(q_values)[0]])
    greedy = tf.argmax(q_values, axis=-1, output_type=tf.int32)
    # The product can round up to num_actions.
    random = tf.minimum(tf.cast(draws[0] * num_actions, tf.int32), num_actions - 1)
    return tf.where(draws[1] < epsilon, random, greedy)


class EpsilonGreedyPolicy(Policy):
    """Acts epsilon-greedily on a network's action values.

    Its extras, `q_taken` and `q_max`, are float32 [N]: the values of the action taken
    and of the best one, from which actors compute priorities.

    Args:
        network: observation nest [N, ...] to action values [N, A].
        epsilon: [N], the lanes' chances of a random action, each in [0, 1].
        action_spec: of one lane; gives the dtype of actions.
        seed: of the random numbers.
    """

    def __init__(
        self,
        network: snt.Module,
        epsilon: Sequence[float],
        action_spec: dm_env.specs.DiscreteArray,
        seed: int,
    ):
        self._network = network
        self._epsilon = tf.constant(epsilon, tf.float32)
        self._dtype = tf.as_dtype(action_spec.dtype)
        self._random = any(value > 0.0 for value in epsilon)
        self._generator = tf.random.Generator.from_seed(seed)

    @property
    def variables(self) -> Sequence[tf.Variable]:
        return self._network.variables

    @property
    def extras_spec(self) -> dict[str, types.Nest]:
        scalar = dm_env.specs.Array((), np.float32)
        return {'q_taken': scalar, 'q_max': scalar}

    def __call__(self, observation: types.Nest, state: types.Nest) -> PolicyOutput:
        q_values = self._network(observation)  # [N, A]
        if self._random:
            action = epsilon_greedy(q_values, self._epsilon, self._generator)
        else:
            action = tf.argmax(q_values, axis=-1, output_type=tf.int32)
        extras = {
            'q_taken': tf.gather(q_values, action, batch_dims=1),
            'q_max': tf.reduce_max(q_values, axis=-1),
        }
        return PolicyOutput(tf.cast(action, self._dtype), extras, state)
