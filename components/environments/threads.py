"""Many environments in lockstep, in a thread each."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections.abc import Sequence
from typing import Any

import dm_env

from repertory.components import types
from repertory.components.environments import vector

_CLOSE_SECONDS = 10.0
_logger = logging.getLogger(__name__)


class ThreadVectorEnvironment(vector.SerialVectorEnvironment):
    """Steps environments at the same time, in threads of this process.

    For environments that wait: for a robot, a network, another program, or for code
    that releases Python's lock. A step costs less CPU time than it does
    in processes, which share no lock. What the environments return is checked as in
    `vector.SerialVectorEnvironment`, but lanes must not share what they write to.

    An environment is made in the caller's thread, and stepped and reset in its own.

    Args:
        environments: one a lane, all with the same specs; closed by `close`.

    Raises:
        Exception: what an environment raises; that of the lowest lane, where several
            do. Otherwise as `vector.SerialVectorEnvironment`.
    """

    def __init__(self, environments: Sequence[dm_env.Environment]):
        super().__init__(environments)
        self._all_begun: queue.SimpleQueue = queue.SimpleQueue()
        self._done: queue.SimpleQueue = queue.SimpleQueue()
        self._lanes = [
            _Lane(number, self._all_begun, self._done)
            for number in range(self.num_lanes)
        ]

    def begin_step(self, action: types.Nest) -> bool:
        rows = self._unstack(action)
        self._num_steps += 1
        self._begin(rows)
        return True

    def end_step(self) -> types.TimeStep:
        self._note_begun(False)
        self._done.get()
        for lane in self._lanes:
            if lane.failure is not None:
                raise lane.failure
        # Here: lanes that did it in their threads would wait for Python's lock longer.
        step = self._columns.begin(self._num_steps)
        for number, lane in enumerate(self._lanes):
            self._columns.put(step, number, lane.result)
        return self._finish(step)

    def _run(self, rows: Sequence[types.Nest]) -> types.TimeStep:
        self._begin(rows)
        return self.end_step()

    def _begin(self, rows: Sequence[types.Nest]) -> None:
        if self._closed:
            raise RuntimeError('reset and step must be called before close.')
        self._note_begun(True)
        # The last lane alone wakes this thread: to wake it for each costs as much as
        # a small environment. `next` of a count is atomic.
        begun, done = (itertools.count(self.num_lanes - 1, -1) for _ in range(2))
        for number, (lane, row) in enumerate(zip(self._lanes, rows, strict=True)):
            lane.calls.put((self._advance, (number, row), begun, done))
        # Whoever goes on with other work holds Python's lock, for 5 ms at a time: the
        # lanes would begin late.
        self._all_begun.get()

    def close(self) -> None:
        for lane in self._lanes:
            lane.calls.put(None)
        for number, lane in enumerate(self._lanes):
            lane.thread.join(timeout=_CLOSE_SECONDS)
            if lane.thread.is_alive():
                _logger.warning(
                    'lane %d must end its step within %g s of close, got none; its '
                    'thread is left behind: give the environment a time-out.',
                    number,
                    _CLOSE_SECONDS,
                )
        super().close()


class _Lane:
    """The thread of one lane."""

    def __init__(self, number: int, begun: queue.SimpleQueue, done: queue.SimpleQueue):
        self.calls: queue.SimpleQueue = queue.SimpleQueue()
        self.result: Any = None
        self.failure: BaseException | None = None
        self._begun = begun
        self._done = done
        self.thread = threading.Thread(
            target=self._serve, name=f'lane {number}', daemon=True
        )
        self.thread.start()

    def _serve(self) -> None:
        while (call := self.calls.get()) is not None:
            function, arguments, begun, done = call
            self.failure = None
            if not next(begun):
                self._begun.put(None)
            try:
                self.result = function(*arguments)
            except BaseException as error:  # Raised in the caller's thread.
                self.failure = error
            if not next(done):
                self._done.put(None)
