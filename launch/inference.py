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
import tree

from repertory.components import joint_policy, policies, specs, types, variables

# The caller's own time-out is shorter: nobody waits for an answer any longer.
_ANSWER_SECONDS = 2.0
_ALIVE_SECONDS = 1.0  # An actor that has not asked for so long is not waited for.


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
    """One step of one actor, from its arrival on; the actor's newest one is kept."""

    def __init__(self, actor: int, run: str, step: int):
        self.actor, self.run, self.step = actor, run, step
        self.observation: list[np.ndarray] = []
        self.first = np.zeros(0, bool)
        self.state: types.Nest = None  # Before it; when it is answered, after it.
        self.arrived = time.monotonic()
        self.answered = threading.Event()
        self.answer: Any = None
        self.error: Exception | None = None

    def refuse(self, error: Exception) -> None:
        self.error = error
        self.answered.set()


class InferenceServer:
    """Answers `act` from any thread; a context manager.

    A batch is evaluated when `max_lanes` wait, or all actors that have asked of late,
    or the first has waited for `timeout_seconds`: in one compiled call, with the
    exploration and the random numbers of each actor's own role. So an actor does what
    its own policy would do.

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
        self._num_lanes = num_lanes
        self._client = client
        self._max_lanes = max_lanes
        self._timeout = timeout_seconds
        self._policy = joint_policy.JointPolicy(policies_, environment_spec, num_lanes)
        self._newest: dict[int, _Request] = {}
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
        self,
        actor: int,
        run: str,
        step: int,
        observation: list[np.ndarray],
        first: np.ndarray,
    ) -> tuple[list[np.ndarray], dict[str, types.Nest], int]:
        """Returns the actions of one actor's lanes; blocks until its batch is done.

        Each step is taken once: who asks for the same one again, as after an answer
        that was lost, gets the same answer.

        Args:
            actor: its index.
            run: names its process.
            step: calls before this one in that process; 0 for the first.
            observation: leaves [N, ...].
            first: bool [N], where an episode begins.

        Returns:
            The action's leaves [N, ...]; the extras, with `state` where the policy has
            one; and the version of the parameters.

        Raises:
            ValueError: if there is no such actor, or the step is an earlier one.
            RuntimeError: if the server is closed, if another process asks for the same
                actor meanwhile, or if no answer comes within 2 s.
        """
        with self._changed:
            if self._closed or self._error is not None:
                raise RuntimeError(
                    f'the inference server must be serving to answer actor {actor}, '
                    f'got {"closed" if self._closed else "failed"}; it has to be '
                    'started again.'
                )
            request = self._newest.get(actor)
            if request is None or (request.run, request.step) != (run, step):
                request = self._enqueue(actor, run, step, observation, first)
        if not request.answered.wait(_ANSWER_SECONDS):
            raise RuntimeError(
                f'step {step} of actor {actor} must be answered within '
                f'{_ANSWER_SECONDS:g} s, got no answer; ask for the same step again.'
            )
        if request.error is not None:
            raise request.error
        return request.answer

    def statistics(self) -> InferenceStatistics:
        """Returns what was done since the start.

        Raises:
            RuntimeError: if a batch has failed; the server answers no more.
        """
        if self._error is not None:
            raise RuntimeError(
                'each batch must be answered, got '
                f'{type(self._error).__name__} in one; its traceback says why.'
            ) from self._error
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

    def _enqueue(self, actor, run, step, observation, first) -> _Request:
        if actor not in range(self._policy.num_roles):
            raise ValueError(
                f'actor must be in [0, {self._policy.num_roles}), got {actor}; are '
                'actor and server of one topology?'
            )
        last = self._newest.get(actor)
        request = _Request(actor, run, step)
        request.observation, request.first = observation, np.asarray(first)
        if last is None or last.run != run:
            request.first = np.ones_like(request.first)
            request.state = self._policy.no_state
        if last is not None:
            expected = last.step + 1 if last.run == run else 0
            if step != expected:
                raise ValueError(
                    f'step must be {expected} for actor {actor} of process {run}, got '
                    f'{step}; it is a call that was given up.'
                )
            if last.run == run:
                request.state, last.state = last.state, None
            elif self._waiting.pop(actor, None) is not None:
                last.refuse(
                    RuntimeError(
                        f'actor {actor} must be one process, got {run} while '
                        f'{last.run} waits; that one has been replaced.'
                    )
                )
        self._newest[actor] = self._waiting[actor] = request
        self._changed.notify_all()
        return request

    def _serve(self) -> None:
        while True:
            batch = self._take_batch()
            try:
                if self._closed:
                    raise RuntimeError(
                        'the inference server must be serving to answer, got closed; '
                        'the run is over, or it has to be started again.'
                    )
                self._client.update(len(batch) * self._num_lanes)
                self._answer(batch)
            except Exception as error:  # `statistics` raises it.
                if not self._closed:
                    self._error = error
                with self._changed:
                    late = list(self._waiting.values())
                for request in (*batch, *late):
                    request.refuse(error)
                return

    def _take_batch(self) -> list[_Request]:
        with self._changed:
            while not self._closed:
                left = None
                if self._waiting:
                    now = time.monotonic()
                    oldest = min(r.arrived for r in self._waiting.values())
                    left = oldest + self._timeout - now
                    since = now - _ALIVE_SECONDS
                    alive = [
                        r.arrived for r in self._newest.values() if r.arrived > since
                    ]
                    lanes = len(self._waiting) * self._num_lanes
                    enough = min(self._max_lanes, len(alive) * self._num_lanes)
                    if left <= 0 or lanes >= enough:
                        break
                    # Once another falls silent, fewer are enough.
                    left = min(left, min(alive) - since)
                self._changed.wait(left)
            batch, self._waiting = list(self._waiting.values()), {}
            return batch

    def _answer(self, batch: Sequence[_Request]) -> None:
        lanes = self._num_lanes
        before, action, extras, after = self._policy(
            [request.actor for request in batch],
            [request.observation for request in batch],
            [request.first for request in batch],
            [request.state for request in batch],
        )
        self._batches += 1
        self._lanes += len(batch) * lanes
        if tree.flatten(before):
            extras = {**extras, 'state': before}
        for i, request in enumerate(batch):

            def own(leaf, i=i):
                return leaf[i * lanes : (i + 1) * lanes]

            request.state = tree.map_structure(own, after)
            request.answer = (
                [own(leaf) for leaf in tree.flatten(action)],
                tree.map_structure(own, extras),
                self._client.version,
            )
            request.answered.set()
