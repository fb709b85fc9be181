"""What an actor does: observation and state in; action, extras and state out."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import NamedTuple

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
