"""Chooses actions for many actors at once, in batches of whoever waits.

In the manner of Espeholt et al. (2020), "SEED RL: Scalable and Efficient Deep-RL with
Accelerated Central Inference", https://arxiv.org/abs/1910.06591: actors hold no
parameters, and the recurrent state of their lanes stays here.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tree

from repertory.components import policies, specs, types, variables

_ANSWER_SECONDS = 60.0


@dataclasses.dataclass(frozen=True)
class InferenceStatistics:
    """What was done since the start.

    Attributes:
        batches: calls of the network.
        lanes: actions chosen.
    """

    batches: int = 0
    lanes: int = 0

    @property
    def mean_batch(self) -> float:
        """Lanes a call."""
        return self.lanes / self.batches if self.batches else 0.0


class _Request:
    def __init__(self, actor: int, run: str, observation: list, first: np.ndarray):
        self.actor = actor
        self.run = run
        self.observation = observation
        self.first = first
        self.arrived = time.monotonic()
        self.answered = threading.Event()
        self.answer: Any = None
        self.error: Exception | None = None


class InferenceServer:
    """Answers `act` from any thread; a context manager.

    A batch is evaluated when `max_lanes` wait, or the first has waited for
    `timeout_seconds`. What an actor does is what its own policy would do: exploration
    and random numbers are those of its role.

    An actor's lanes begin with the policy's initial state when its process is a new
    one; a restart of this server loses the states in the midst of episodes.

    Args:
        policies_: of each actor, all of the same networks.
        environment_spec: of one lane.
        num_lanes: of each actor.
        client: brings newer parameters; its version is told with each action.
        max_lanes: of a batch that is not waited for further.
        timeout_seconds: the longest wait for others.
    """

    def __init__(
        self,
        policies_: Sequence[policies.Policy],
        environment_spec: specs.EnvironmentSpec,
        num_lanes: int,
        client: variables.VariableClient,
        max_lanes: int,
        timeout_seconds: float,
    ):
        self._policies = policies_
        self._spec = environment_spec
        self._num_lanes = num_lanes
        self._client = client
        self._max_lanes = max_lanes
        self._timeout = timeout_seconds
        self._states: dict[int, tuple[str, types.Nest]] = {}
        self._evaluate = tf.function(
            self._evaluate_lanes, input_signature=self._signature(), autograph=False
        )
        self._choose = [tf.function(p.choose, autograph=False) for p in policies_]
        self._waiting: dict[int, _Request] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._error: Exception | None = None
        self._batches = self._lanes = 0
        self._thread = threading.Thread(
            target=self._serve, name='inference', daemon=True
        )

    def start(self) -> None:
        """Takes the first parameters, and begins to answer."""
        self._client.update(wait=True)
        self._thread.start()

    def act(
        self, actor: int, run: str, observation: list[np.ndarray], first: np.ndarray
    ) -> tuple[list[np.ndarray], dict[str, types.Nest], int]:
        """Returns the actions of one actor's lanes; blocks until its batch is done.

        Args:
            actor: its index.
            run: names its process.
            observation: leaves [N, ...].
            first: bool [N], where an episode begins.

        Returns:
            The action's leaves [N, ...]; the extras, with `state` where the policy has
            one; and the version of the parameters.

        Raises:
            RuntimeError: if the server is closed, or the same actor asks anew.
        """
        request = _Request(actor, run, observation, np.asarray(first))
        with self._changed:
            if self._closed or self._error is not None:
                raise RuntimeError('the inference server has ended.')
            before = self._waiting.pop(actor, None)
            self._waiting[actor] = request
            self._changed.notify_all()
        if before is not None:  # By a call that was given up.
            before.error = RuntimeError(f'actor {actor} asked again.')
            before.answered.set()
        if not request.answered.wait(_ANSWER_SECONDS):
            raise RuntimeError(f'no action was chosen within {_ANSWER_SECONDS:.0f} s.')
        if request.error is not None:
            raise request.error
        return request.answer

    def statistics(self) -> InferenceStatistics:
        """Returns what was done since the start.

        Raises:
            RuntimeError: if a batch has failed; the server answers no more.
        """
        if self._error is not None:
            raise RuntimeError('no actions can be chosen.') from self._error
        return InferenceStatistics(self._batches, self._lanes)

    def close(self) -> None:
        """Refuses who waits, and ends the thread; may be called twice."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(timeout=10.0)

    def __enter__(self) -> InferenceServer:
        return self

    def __exit__(self, *unused) -> None:
        self.close()

    def _signature(self) -> list:
        def any_lanes(leaf):
            return tf.TensorSpec((None, *leaf.shape), leaf.dtype)

        state = tree.map_structure(
            lambda leaf: tf.TensorSpec((None, *leaf.shape[1:]), leaf.dtype),
            tree.map_structure(
                tf.convert_to_tensor, self._policies[0].initial_state(1)
            ),
        )
        observation = tree.map_structure(any_lanes, self._spec.observations)
        return [observation, tf.TensorSpec((None,), tf.bool), state]

    def _serve(self) -> None:
        while True:
            batch = self._take_batch()
            if self._closed:
                self._refuse(batch, RuntimeError('the server has been closed.'))
                return
            try:
                self._client.update(len(batch) * self._num_lanes)
                self._answer(batch)
            except Exception as error:  # `statistics` raises it.
                self._error = error
                self._refuse(batch, error)
                return

    def _refuse(self, batch: Sequence[_Request], error: Exception) -> None:
        for request in batch:
            request.error = error
            request.answered.set()

    def _take_batch(self) -> list[_Request]:
        with self._changed:
            while not self._closed:
                left = None
                if self._waiting:
                    oldest = min(r.arrived for r in self._waiting.values())
                    left = oldest + self._timeout - time.monotonic()
                    full = len(self._waiting) * self._num_lanes >= self._max_lanes
                    if full or left <= 0:
                        break
                self._changed.wait(left)
            batch, self._waiting = list(self._waiting.values()), {}
            return batch

    def _answer(self, batch: Sequence[_Request]) -> None:
        lanes = self._num_lanes
        leaves = zip(*(request.observation for request in batch), strict=True)
        observation = tree.unflatten_as(
            self._spec.observations, [np.concatenate(each) for each in leaves]
        )
        first = np.concatenate([request.first for request in batch])
        states = [self._state_before(request) for request in batch]
        state = tree.map_structure(lambda *each: tf.concat(each, 0), *states)
        before, outputs, after = self._evaluate(observation, first, state)
        self._batches += 1
        self._lanes += len(batch) * lanes
        for i, request in enumerate(batch):

            def own(leaf, i=i):
                return leaf[i * lanes : (i + 1) * lanes]

            chosen = self._choose[request.actor](
                tree.map_structure(own, outputs), tree.map_structure(own, after)
            )
            self._states[request.actor] = request.run, chosen.state
            extras = dict(chosen.extras)
            if tree.flatten(before):
                extras['state'] = tree.map_structure(own, before)
            request.answer = (
                [leaf.numpy() for leaf in tree.flatten(chosen.action)],
                tree.map_structure(lambda leaf: leaf.numpy(), extras),
                self._client.version,
            )
            request.answered.set()

    def _state_before(self, request: _Request) -> types.Nest:
        run, state = self._states.get(request.actor, ('', ()))
        if run != request.run:
            return tree.map_structure(
                tf.convert_to_tensor,
                self._policies[request.actor].initial_state(self._num_lanes),
            )
        return state

    def _evaluate_lanes(self, observation, first, state):
        def reset(initial, current):
            lanes = tf.reshape(first, [-1] + [1] * (current.shape.rank - 1))
            return tf.where(lanes, initial, current)

        policy = self._policies[0]
        # Read in the graph, since a trainable initial state changes.
        before = tree.map_structure(reset, policy.initial_state(1), state)
        return before, *policy.evaluate(observation, before)
