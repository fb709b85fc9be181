"""Chooses actions for many actors at once, in batches of whoever waits.

In the manner of Espeholt et al. (2020), "SEED RL: Scalable and Efficient Deep-RL with
Accelerated Central Inference", https://arxiv.org/abs/1910.06591: actors hold no
parameters, and the recurrent state of their lanes stays here.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Sequence

import numpy as np
import tree

from repertory.components import actor as actor_lib
from repertory.components import joint_policy, policies, specs, variables

_ALIVE_SECONDS = 1.0  # An actor that has not asked for so long is not waited for.
# An actor's own time-out is shorter: nobody waits for an answer any longer.
_ANSWER_SECONDS = 2.0


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

    def __init__(
        self,
        run: str,
        step: int,
        observation: joint_policy.Leaves,
        first: np.ndarray,
        answer: asyncio.Future[actor_lib.Answer],
    ):
        self.run, self.step = run, step
        self.observation, self.first = observation, first
        self.state: joint_policy.Leaves = []  # Before it; once answered, after it.
        self.arrived = time.monotonic()
        self.answer = answer

    def refuse(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # Whoever asked may be gone: it has been seen.


class InferenceServer:
    """Answers `act`; a context manager.

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
        loop: in which all is done; it is run by another thread.
    """

    def __init__(
        self,
        policies_: Sequence[policies.Policy],
        environment_spec: specs.EnvironmentSpec,
        num_lanes: int,
        client: variables.VariableClient,
        max_lanes: int,
        timeout_seconds: float,
        loop: asyncio.AbstractEventLoop,
    ):
        self._num_lanes = num_lanes
        self._client = client
        self._max_lanes = max_lanes
        self._timeout = timeout_seconds
        self._policy = joint_policy.JointPolicy(policies_, environment_spec, num_lanes)
        self._expected = [
            ((num_lanes, *leaf.shape), leaf.dtype)
            for leaf in tree.flatten(environment_spec.observations)
        ]
        self._newest: dict[int, _Request] = {}
        self._waiting: dict[int, _Request] = {}
        self._next: asyncio.Handle | None = None  # Look at who waits.
        self._loop = loop
        self._started = self._closed = False
        self._error: Exception | None = None
        self._batches = self._lanes = 0

    def start(self) -> None:
        """Takes the first parameters, and begins to answer."""
        self._client.update(wait=True)
        self._started = True
        self._loop.call_soon_threadsafe(self._answer_who_waits)

    async def act(
        self,
        actor: int,
        run: str,
        step: int,
        observation: joint_policy.Leaves,
        first: np.ndarray,
    ) -> actor_lib.Answer:
        """Returns the actions of one actor's lanes; awaits the batch. Runs in the loop.

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
            ValueError: if there is no such actor, if the step is an earlier one, or if
                the observation is not that of the environment here.
            RuntimeError: if the server is closed, or if another process asks for the
                same actor meanwhile.
            TimeoutError: if there is no answer within 2 s; the same step may be asked
                for again.
        """
        if self._closed or self._error is not None:
            raise RuntimeError(
                f'the inference server must be serving to answer actor {actor}, '
                f'got {"closed" if self._closed else "failed"}; it has to be '
                'started again.'
            )
        request = self._newest.get(actor)
        if request is None or (request.run, request.step) != (run, step):
            self._check(actor, observation)
            request = self._enqueue(actor, run, step, observation, first)
        # Not `wait_for`: it cancels what others await, and may swallow its own end.
        await asyncio.wait([request.answer], timeout=_ANSWER_SECONDS)
        if not request.answer.done():
            raise TimeoutError(
                f'step {step} of actor {actor} must be answered within '
                f'{_ANSWER_SECONDS:g} s, got no answer; ask for the same step again.'
            )
        return request.answer.result()

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
        """Refuses who waits, and whoever asks later; may be called twice.

        To be called before the loop ends.
        """
        if self._closed:
            return
        self._closed = True
        self._loop.call_soon_threadsafe(self._refuse_all)

    def __enter__(self) -> InferenceServer:
        return self

    def __exit__(self, *unused) -> None:
        self.close()

    def _check(self, actor: int, observation: joint_policy.Leaves) -> None:
        if actor not in range(self._policy.num_roles):
            raise ValueError(
                f'actor must be in [0, {self._policy.num_roles}), got {actor}; are '
                'actor and server of one topology?'
            )
        got = [(leaf.shape, leaf.dtype) for leaf in observation]
        if got != self._expected:
            raise ValueError(
                f'observation of actor {actor} must have the leaves {self._expected}, '
                f'got {got}; are actor and server of one environment and topology?'
            )

    def _enqueue(self, actor, run, step, observation, first) -> _Request:
        last = self._newest.get(actor)
        answer = self._loop.create_future()
        request = _Request(run, step, observation, np.asarray(first), answer)
        if last is None or last.run != run:
            request.first = np.ones_like(request.first)
            request.state = self._policy.no_state
        if last is not None:
            expected = last.step + 1 if last.run == run else 0
            if last.run == run and actor in self._waiting:
                expected = last.step
            if step != expected:
                raise ValueError(
                    f'step must be {expected} for actor {actor} of process {run}, got '
                    f'{step}; it is a call that was given up, or comes before the '
                    'answer to another.'
                )
            if last.run == run:
                request.state, last.state = last.state, []
            elif self._waiting.pop(actor, None) is not None:
                last.refuse(
                    RuntimeError(
                        f'actor {actor} must be one process, got {run} while '
                        f'{last.run} waits; that one has been replaced.'
                    )
                )
        self._newest[actor] = self._waiting[actor] = request
        # Whoever else has asked by now is heard before.
        self._look_at(self._loop.call_soon(self._answer_who_waits))
        return request

    def _look_at(self, handle: asyncio.Handle) -> None:
        if self._next is not None:
            self._next.cancel()
        self._next = handle

    def _answer_who_waits(self) -> None:
        try:
            if self._waiting and self._started:
                left = self._seconds_left()
                if left > 0:
                    later = self._loop.call_later(left, self._answer_who_waits)
                    return self._look_at(later)
                batch, self._waiting = self._waiting, {}
                self._client.update(len(batch) * self._num_lanes)
                self._answer(batch)
        except Exception as error:  # `statistics` raises it.
            self._error = error
            for request in self._newest.values():
                request.refuse(error)

    def _seconds_left(self) -> float:
        """Returns how long to wait for others; 0 where those who wait are enough."""
        now = time.monotonic()
        since = now - _ALIVE_SECONDS
        alive = [r.arrived for r in self._newest.values() if r.arrived > since]
        lanes = len(self._waiting) * self._num_lanes
        if lanes >= min(self._max_lanes, len(alive) * self._num_lanes):
            return 0.0
        oldest = min(request.arrived for request in self._waiting.values())
        # Once another falls silent, fewer are enough.
        return min(oldest + self._timeout - now, min(alive) - since)

    def _answer(self, batch: dict[int, _Request]) -> None:
        requests = batch.values()
        outputs = self._policy(
            list(batch),
            [request.observation for request in requests],
            [request.first for request in requests],
            [request.state for request in requests],
        )
        self._batches += 1
        self._lanes += len(batch) * self._num_lanes
        for request, output in zip(requests, outputs, strict=True):
            request.state = output.state
            request.answer.set_result(
                (output.action, output.extras, self._client.version)
            )

    def _refuse_all(self) -> None:
        error = RuntimeError(
            'the inference server must be serving to answer, got closed; the run is '
            'over, or it has to be started again.'
        )
        self._waiting = {}
        for request in self._newest.values():
            request.refuse(error)
