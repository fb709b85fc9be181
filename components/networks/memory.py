"""A network with a memory: what acts step by step and learns from sequences."""

from __future__ import annotations

from typing import Any

import sonnet as snt
import tensorflow as tf
import tree

from repertory.components import types
from repertory.components.networks import observations, recurrent


class NoMemory:
    """Stands in an LSTM's place where a network is to have no memory."""

    def initial_state(self, num_lanes: int | tf.Tensor) -> tuple[()]:
        return ()

    def step(self, inputs: tf.Tensor, state: tuple[()]) -> tuple[tf.Tensor, tuple[()]]:
        return inputs, state

    def unroll(
        self, inputs: tf.Tensor, state: tuple[()], reset: tf.Tensor
    ) -> tuple[tf.Tensor, tuple[()]]:
        return inputs, state


class RecurrentNetwork(snt.Module):
    """Torso, memory and head; torso and head run once over all steps of a sequence.

    Args:
        torso: observation nest [N, ...] to features [N, F].
        core: the memory.
        head: [N, H] to the output, a nest [N, ...].
    """

    def __init__(
        self,
        torso: snt.Module,
        core: recurrent.LSTM | NoMemory,
        head: snt.Module,
        name: str | None = None,
    ):
        super().__init__(name=name)
        self._torso, self._core, self._head = torso, core, head

    def initial_state(self, num_lanes: int | tf.Tensor) -> types.Nest:
        """Returns the state [N, ...] before an episode's first observation."""
        return self._core.initial_state(num_lanes)

    def step(
        self, observation: types.Nest, state: types.Nest
    ) -> tuple[Any, types.Nest]:
        """Returns the output [N, ...] of one step and the next state."""
        output, state = self._core.step(self._torso(observation), state)
        return self._head(output), state

    def unroll(
        self,
        observation: types.Nest,
        state: types.Nest,
        reset: tf.Tensor,
        burn_in: int = 0,
    ) -> Any:
        """Returns the outputs [T - burn_in, N, ...] of a sequence.

        Args:
            observation: [T, N, ...].
            state: [N, ...], before the first observation.
            reset: bool [R, N], R <= T; where True the initial state comes before that
                step. Later steps are never reset: where that is known it saves time.
            burn_in: steps at the start that only bring the state up to date: they give
                no outputs, and no gradient flows through them.
        """
        if burn_in:
            before = tree.map_structure(lambda x: x[:burn_in], observation)
            _, state = self._remember(before, state, reset[:burn_in])
            state = tree.map_structure(tf.stop_gradient, state)
            observation = tree.map_structure(lambda x: x[burn_in:], observation)
        outputs, _ = self._remember(observation, state, reset[burn_in:])
        return observations.over_time(self._head, outputs)

    def _remember(self, observation, state, reset):
        features = observations.over_time(self._torso, observation)
        return self._core.unroll(features, state, reset)


def reset_lanes(first: tf.Tensor, initial: types.Nest, state: types.Nest) -> types.Nest:
    """Returns the state [N, ...] with the initial one in the lanes that begin anew.

    Args:
        first: bool [N].
        initial: nest of tensors [N, ...] or [1, ...].
        state: nest of tensors [N, ...].
    """

    def reset(initial: tf.Tensor, current: tf.Tensor) -> tf.Tensor:
        lanes = tf.reshape(first, [-1] + [1] * (current.shape.rank - 1))
        return tf.where(lanes, initial, current)

    return tree.map_structure(reset, initial, state)
