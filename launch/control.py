"""A node's end of the coordinator: heartbeats, leases, waiting, stopping."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from repertory.components import core
from repertory.launch import coordinator as coordinator_lib
from repertory.launch import leases, progress

_PERIOD_SECONDS = 0.25
_FIRST_LOG_SECONDS = 5.0
_LOG_PERIOD_SECONDS = 30.0
_WAIT_SECONDS = 3.0  # A wait that has not been repeated for so long is over.
_ORPHANED_SECONDS = 1.5  # Asked to stop, and no answer for so long: nobody is left.
_CLOSE_SECONDS = 1.0  # A call to a coordinator that is gone lasts longer.
_DELIVERY_SECONDS = 10.0

_logger = logging.getLogger(__name__)


class NodeControl:
    """Tells one role how far the run is, and the coordinator how far the role is.

    A background thread exchanges heartbeats: no call of the role crosses the network.
    Without it, in one thread, `take_steps`, `report` and the waits do, when due.
    Leaving its context sends the last news and ends the thread. It holds back
    `core.Stopped`: a node that is stopped as it waits has not failed.
    """

    def __init__(
        self,
        role: str,
        coordinator: Any,
        *,
        background: bool = True,
        unreachable_seconds: float = 60.0,
        start_seconds: float = 300.0,
        asked_to_stop: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Begins the heartbeats.

        Args:
            role: such as `actor_0`, `learner`, `evaluator`, `replay_0`.
            coordinator: a `Coordinator`, or a client of one; calls to a client need
                a time-out, or an unreachable coordinator is never noticed.
            background: whether a thread exchanges the heartbeats.
            unreachable_seconds: without an answer for so long, the role fails.
            start_seconds: the same until the first answer.
            asked_to_stop: if so, and no coordinator answers any more, the run is over.
            clock: seconds, for tests.
        """
        self.role = role
        self._coordinator = coordinator
        self._background = background
        self._unreachable_seconds = unreachable_seconds
        self._start_seconds = start_seconds
        self._asked_to_stop = asked_to_stop
        self._clock = clock
        self._incarnation = uuid.uuid4().hex
        self._changed = threading.Condition(threading.RLock())
        self._wake = threading.Event()
        self._begun = self._answered = 0  # Heartbeats.
        self._phase = 'run'
        self._lease = leases.Lease(clock)
        self._counts: dict[str, float] = {}
        self._metrics: dict[str, Any] = {}
        self._waits_for, self._waited_at = '', 0.0
        self.lost: list[str] = []  # Roles that are gone, as last heard of.
        self._next_log = _FIRST_LOG_SECONDS
        self._done = self._closed = False
        self._failure: Exception | None = None
        self._last_answer = self._last_beat = clock()
        self._thread = None
        if background:
            self._thread = threading.Thread(
                target=self._beat_for_ever, name=f'{role} heartbeat', daemon=True
            )
            self._thread.start()

    @property
    def phase(self) -> str:
        """The phase of the run as last heard of; one of `progress.PHASES`.

        Raises:
            RuntimeError: if the coordinator cannot be reached.
        """
        self._exchange_if_due()
        self._check()
        return self._phase

    @property
    def stopping(self) -> bool:
        """Whether the phase is past `run`."""
        return self.phase != 'run'

    @property
    def counts(self) -> dict[str, float]:
        """Totals of the run as last heard of: `actor_steps`, `seconds`, ..."""
        self._exchange_if_due()
        with self._changed:
            return dict(self._counts)

    def take_steps(self, number: int) -> int:
        """Returns `number` once so many steps may be done, or 0 if the run is ending.

        Mostly at once, from the lease. The last `number` may exceed what is left.

        Raises:
            RuntimeError: if the coordinator cannot be reached.
        """
        begin = self._clock()
        with self._changed:
            while not self.stopping:
                if self._lease.take(number):
                    if self._lease.is_low:
                        self._wake.set()
                    return number
                if self._clock() - begin > _FIRST_LOG_SECONDS:
                    self._note_wait('its share of the step budget')
                self._pause(0.5)
            return 0

    def count_steps(self, steps: int, **others: int) -> None:
        """Counts what was done since `take_steps`: `steps`, and others by name.

        `count_steps(16, episodes=2)` of an actor adds to `actor_steps` and
        `actor_episodes`. Steps taken and not counted, as those in which an episode
        began, go back to the lease.
        """
        with self._changed:
            self._lease.count(steps, **others)

    def report(self, values: Mapping[str, Any]) -> None:
        """Sends the newest metrics with the next heartbeat."""
        with self._changed:
            self._metrics.update(values)
        if not self._background:
            self._beat()  # A role whose turn is over has no later one to send it with.

    def wait(self, reason: str, waited_seconds: float) -> None:
        """Reports what is waited for; a `core.Wait`.

        Raises:
            core.Stopped: if the run is ending.
        """
        if self.stopping:
            raise core.Stopped(f'{self.role} stopped while it waited for {reason}')
        if waited_seconds < _FIRST_LOG_SECONDS:
            self._next_log = _FIRST_LOG_SECONDS
        elif waited_seconds >= self._next_log:
            self._next_log = waited_seconds + _LOG_PERIOD_SECONDS
            _logger.warning(
                '%s waits: %s (%.0f s so far)', self.role, reason, waited_seconds
            )
        if waited_seconds >= _FIRST_LOG_SECONDS:
            self._note_wait(reason)
            with self._changed:
                self._lease.give_back()

    def wait_until(self, phase: str, seconds: float = float('inf')) -> bool:
        """Returns True in `phase` or a later one, False if `seconds` pass before.

        Raises:
            RuntimeError: if the coordinator cannot be reached.
        """
        rank, end = progress.PHASES.index(phase), self._clock() + seconds
        with self._changed:
            while progress.PHASES.index(self.phase) < rank:
                left = end - self._clock()
                if left <= 0:
                    return False
                self._pause(min(left, 0.5))
            return True

    def done(self) -> None:
        """Says that the role has done its part of ending the run."""
        if not self._done:
            self._done = True
            self._deliver()

    def close(self) -> None:
        """Sends the last news and ends the thread; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._wake.set()
        if self._thread is None:
            self._say_goodbye()
        else:
            self._thread.join(_CLOSE_SECONDS)

    def _say_goodbye(self) -> None:
        if self._phase != 'exit':  # The coordinator waits for nobody in that phase.
            self._beat()

    def __enter__(self) -> NodeControl:
        return self

    def __exit__(self, kind, error: BaseException | None, *unused) -> bool:
        self.close()
        if stopped := isinstance(error, core.Stopped):
            _logger.info('%s', error)
        return stopped

    def _pause(self, seconds: float) -> None:
        """Waits for news; the condition is held."""
        if self._background:
            self._wake.set()
            self._changed.wait(seconds)
            return
        before = self._lease.steps, self._phase
        self._beat()
        if before == (self._lease.steps, self._phase):
            time.sleep(min(seconds, 0.02))

    def _deliver(self) -> None:
        """Returns once the coordinator has the news, or seems not to be there."""
        if not self._background:
            self._beat()
            return
        end = self._clock() + _DELIVERY_SECONDS
        with self._changed:
            needed = self._begun + 1
            while self._answered < needed and self._clock() < end:
                if self._phase == 'exit' or self._orphaned():
                    return
                self._pause(0.1)

    def _note_wait(self, reason: str) -> None:
        with self._changed:
            self._waits_for, self._waited_at = reason, self._clock()

    def _orphaned(self) -> bool:
        silent = self._clock() - self._last_answer
        return silent > _ORPHANED_SECONDS and self._asked_to_stop()

    def _check(self) -> None:
        if self._orphaned():
            self._phase = 'exit'
            return
        silent = self._clock() - self._last_answer
        patience = self._unreachable_seconds if self._counts else self._start_seconds
        if silent > patience:
            raise RuntimeError(
                f'The coordinator has not answered {self.role} for {silent:.0f} s; '
                f'last error: {self._failure}. {self.role} stops.'
            ) from self._failure

    def _exchange_if_due(self) -> None:
        due = self._clock() - self._last_beat >= _PERIOD_SECONDS
        if not self._background and (due or not self._counts):
            self._beat()

    def _beat(self) -> None:
        """Exchanges one heartbeat; errors are kept, and raised once they last."""
        with self._changed:
            self._begun = number = self._begun + 1
            metrics, self._metrics = self._metrics, {}
            if self._clock() - self._waited_at > _WAIT_SECONDS:
                self._waits_for = ''
            news = {
                **self._lease.news(),
                'metrics': metrics,
                'waits_for': self._waits_for,
                'done': self._done,
                'leaves': self._closed,
            }
        self._last_beat = self._clock()
        try:
            answer = self._coordinator.heartbeat(self.role, self._incarnation, **news)
        # Courier raises a type of its own making for anything at all.
        except Exception as error:
            if isinstance(self._coordinator, coordinator_lib.Coordinator):
                raise
            with self._changed:
                self._failure = error
                self._metrics = {**metrics, **self._metrics}
                self._changed.notify_all()
            return
        with self._changed:
            self._answered, self._last_answer = number, self._clock()
            self._lease.grant(answer['granted'], answer['exhausted'])
            self._phase, self._counts = answer['phase'], answer['counts']
            self.lost = answer['lost']
            self._changed.notify_all()

    def _beat_for_ever(self) -> None:
        while not self._closed:
            self._beat()
            time.sleep(0.02)  # However often leases run out.
            self._wake.wait(_PERIOD_SECONDS)
            self._wake.clear()
        self._say_goodbye()
