"""What an actor does: observation and state in; action, extras and state out."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import NamedTuple

import dm_env.specs
import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from repertory.components import types


class PolicyOutput(NamedTuple):
    action: types.Nest  # [N, ...]
    extras: dict[str, types.Nest]  # [N, ...], as `extras_spec` says.
    state: types.Nest  # [N, ...]


class Policy(abc.ABC):
    """A pure function of observation, state and parameters, traced once by its actor.

    Exploration is part of it. It is batched over lanes, and knows nothing of resets:
    the actor puts `initial_state` back where a lane begins an episode.

    All that differs between roles, and all that is random, is in `draw`: `act` is the
    same for all roles, and so a server can do it for the lanes of many at once.
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

    def draw(self, num_lanes: int | tf.Tensor) -> types.Nest:
        """Returns the role's own numbers for one step [N, ...], as random ones."""
        del num_lanes
        return ()

    @abc.abstractmethod
    def act(
        self, observation: types.Nest, state: types.Nest, draws: types.Nest
    ) -> PolicyOutput:
        """Returns the action for each lane."""

    def __call__(self, observation: types.Nest, state: types.Nest) -> PolicyOutput:
        """Returns what `act` does by numbers drawn for this step; runs in a graph."""
        # An exported policy leaves N open.
        num_lanes = tf.shape(tree.flatten(observation)[0])[0]
        return self.act(observation, state, self.draw(num_lanes))


def epsilon_greedy(
    q_values: tf.Tensor, epsilon: tf.Tensor, uniform: tf.Tensor
) -> tf.Tensor:
    """Returns actions that are random with a lane's chance epsilon, else greedy.

    Args:
        q_values: float32 [N, A].
        epsilon: float32 [N], each in [0, 1].
        uniform: float32 [N, 2], random numbers in [0, 1).

    Returns:
        int32 [N]; each lane decides for itself.
    """
    tf.debugging.assert_shapes(
        [(q_values, ('N', 'A')), (epsilon, ('N',)), (uniform, ('N', 2))]
    )
    num_actions = q_values.shape[1]
    greedy = tf.argmax(q_values, axis=-1, output_type=tf.int32)
    # The product can round up to num_actions.
    random = tf.cast(uniform[:, 0] * num_actions, tf.int32)
    random = tf.minimum(random, num_actions - 1)
    return tf.where(uniform[:, 1] < epsilon, random, greedy)


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

    def draw(self, num_lanes: int | tf.Tensor) -> types.Nest:
        if not self._random:
            return ()
        # Drawn as rows: seeds give what they always gave.
        uniform = tf.transpose(self._generator.uniform([2, num_lanes]))
        return uniform, tf.broadcast_to(self._epsilon, [num_lanes])

    def _evaluate(self, observation: types.Nest, state: types.Nest) -> tuple:
        return self._network(observation), state

    def act(
        self, observation: types.Nest, state: types.Nest, draws: types.Nest
    ) -> PolicyOutput:
        q_values, state = self._evaluate(observation, state)
        if draws:
            uniform, epsilon = draws
            action = epsilon_greedy(q_values, epsilon, uniform)
        else:
            action = tf.argmax(q_values, axis=-1, output_type=tf.int32)
        extras = {
            'q_taken': tf.gather(q_values, action, batch_dims=1),
            'q_max': tf.reduce_max(q_values, axis=-1),
        }
        return PolicyOutput(tf.cast(action, self._dtype), extras, state)


class RecurrentEpsilonGreedyPolicy(EpsilonGreedyPolicy):
    """Acts epsilon-greedily on the action values of a network with a state.

    Args as for EpsilonGreedyPolicy, but that the network has `initial_state(N)` and
    `step(observation, state) -> (action values, state)`.
    """

    def initial_state(self, num_lanes: int) -> types.Nest:
        return self._network.initial_state(num_lanes)

    def _evaluate(self, observation: types.Nest, state: types.Nest) -> tuple:
        return self._network.step(observation, state)


class DeterministicPolicy(Policy):
    """Acts by a deterministic network, plus noise, within [-1, 1].

    The noise follows x <- (1 - theta) x + sigma N(0, 1): independent Gaussian numbers
    if theta is 1, an Ornstein-Uhlenbeck process below, whose x is the policy's state
    and so is 0 again where an episode begins.

    With a critic its extras, `q_taken` and `q_policy`, are float32 [N]: the values of
    the action taken and of the network's own, from which actors compute priorities.

    Reference: Lillicrap et al. (2016), "Continuous control with deep reinforcement
    learning", sec. 3 and 7, https://arxiv.org/abs/1509.02971.

    Args:
        observation: observation nest [N, ...] to features [N, F].
        policy: features to actions [N, ...] in [-1, 1].
        action_spec: of one lane.
        sigma: standard deviation of each step's noise, at least 0.
        theta: in (0, 1].
        seed: of the random numbers.
        critic: takes (features, actions), returns values [N] or a distribution with a
            `mean()`.
    """

    def __init__(
        self,
        observation: snt.Module,
        policy: snt.Module,
        action_spec: dm_env.specs.BoundedArray,
        sigma: float,
        theta: float,
        seed: int,
        critic: snt.Module | None = None,
    ):
        self._observation, self._policy, self._critic = observation, policy, critic
        self._shape = action_spec.shape
        self._sigma, self._theta = sigma, theta
        self._has_state = sigma > 0.0 and theta < 1.0
        self._generator = tf.random.Generator.from_seed(seed)

    @property
    def variables(self) -> Sequence[tf.Variable]:
        modules = self._observation, self._policy, self._critic
        return [v for module in modules if module is not None for v in module.variables]

    @property
    def extras_spec(self) -> dict[str, types.Nest]:
        if self._critic is None:
            return {}
        scalar = dm_env.specs.Array((), np.float32)
        return {'q_taken': scalar, 'q_policy': scalar}

    def initial_state(self, num_lanes: int) -> types.Nest:
        return tf.zeros([num_lanes, *self._shape]) if self._has_state else ()

    def draw(self, num_lanes: int | tf.Tensor) -> types.Nest:
        if self._sigma == 0.0:
            return ()
        return self._sigma * self._generator.normal([num_lanes, *self._shape])

    def act(
        self, observation: types.Nest, state: types.Nest, draws: types.Nest
    ) -> PolicyOutput:
        features = self._observation(observation)  # [N, F]
        action = greedy = self._policy(features)  # [N, *shape]
        if tree.flatten(draws):
            noise = draws
            if self._has_state:
                state = noise = (1.0 - self._theta) * state + noise
            action = tf.clip_by_value(greedy + noise, -1.0, 1.0)
        if self._critic is None:
            return PolicyOutput(action, {}, state)
        # Both actions in one pass.
        values = self._critic(
            (tf.tile(features, [2, 1]), tf.concat([action, greedy], axis=0))
        )
        if not isinstance(values, tf.Tensor):
            values = values.mean()
        taken, own = tf.split(values, 2)
        return PolicyOutput(action, {'q_taken': taken, 'q_policy': own}, state)


class SoftmaxPolicy(Policy):
    """Draws actions from a network's softmax, or takes the likeliest.

    Its extra `logits`, float32 [N, A], are those that the action was drawn from: what
    a learner needs to correct for a policy that has changed since.

    Args:
        network: has `step(observation, state)`, which returns a PolicyValue and the
            next state, `initial_state(num_lanes)` and `variables`.
        action_spec: of one lane; gives the dtype of actions.
        seed: of the random numbers.
        greedy: whether to take the likeliest action.
    """

    def __init__(
        self,
        network: snt.Module,
        action_spec: dm_env.specs.DiscreteArray,
        seed: int,
        greedy: bool = False,
    ):
        self._network = network
        self._num_actions = action_spec.num_values
        self._dtype = tf.as_dtype(action_spec.dtype)
        self._greedy = greedy
        self._generator = tf.random.Generator.from_seed(seed)

    @property
    def variables(self) -> Sequence[tf.Variable]:
        return self._network.variables

    @property
    def extras_spec(self) -> dict[str, types.Nest]:
        return {'logits': dm_env.specs.Array((self._num_actions,), np.float32)}

    def initial_state(self, num_lanes: int) -> types.Nest:
        return self._network.initial_state(num_lanes)

    def draw(self, num_lanes: int | tf.Tensor) -> types.Nest:
        if self._greedy:
            return ()
        return self._generator.uniform([num_lanes, self._num_actions])

    def act(
        self, observation: types.Nest, state: types.Nest, draws: types.Nest
    ) -> PolicyOutput:
        (logits, _), state = self._network.step(observation, state)
        score = logits
        if tree.flatten(draws):
            # The largest of logits plus Gumbel noise is a draw from their softmax.
            score = logits - tf.math.log(-tf.math.log(draws))
        action = tf.cast(tf.argmax(score, axis=-1), self._dtype)
        return PolicyOutput(action, {'logits': logits}, state)
