"""The one module that knows Reverb's writer API.

Measured with Reverb 0.7.2, 16 lanes, 240-byte rows, items of 6 rows, server in another
process, appended one at a time, microseconds per lane and step: one writer per lane 24;
one writer with a column per lane 35-40; the public TrajectoryWriter 50-60. So each lane
has a writer of its own, and appends and items go to the binding that TrajectoryWriter
wraps, as long as that is there.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Sequence

import numpy as np
import reverb

from repertory.components import core
from repertory.replay import info, seldom

_POLL_SECONDS = 0.2  # Who is stopped while it waits takes so long to end.
_FLUSH_SECONDS = 1.0  # But the last items of a run have this long.
_UNREACHABLE_SECONDS = 60.0  # A restarted server is back sooner.
_START_SECONDS = 120.0  # Processes that start together may be slow to.
# With 53 created Reverb was seen to warn, which costs more than the items. A flush to
# half of them cuts no chunk of so many rows short, and waits for none of its items.
MAX_PENDING = 48
# Of a lane, appended one after the other: with single rows, between an environment's
# step and a network's, D4PG recorded for 1.6 times as long, as each woke a thread.
_ROWS_AT_ONCE = 8
_WAITING_SECONDS = 0.2  # A row that comes later is handed on at once, with the rest.


class RowWriter:
    """Writes packed rows of several lanes, and items over the last rows of a lane.

    Rows, and items with them, wait here until there are `rows_at_once` a lane or one
    comes 0.2 s after the last were handed on. Then items wait in Reverb's writers until
    they are flushed: at `max_pending` in a lane `append` blocks until half are taken.

    Args:
        address: of the replay server, 'host:port'.
        table: name.
        num_lanes: each with its own rows.
        num_rows: of an item, its context included.
        wait: is called about each 0.2 s of a wait; see `core.Wait`.
        has_state: whether items have a second column, the state before the first row
            of their own.
        chunk_length: rows that are compressed, sent and stored together; None takes
            `num_rows`.
        max_pending: items of a lane that may wait in its writer.
        rows_at_once: of a lane, on average.
        num_context: rows of an item that come before its own: the rows before, also of
            another episode. Before a lane's first row it is repeated so often.

    Raises:
        ConnectionError: from any method, if the server's port takes no connection for
            60 s, or it does not start within 120 s. One that is busy is waited for.
        core.Stopped: from any method that blocks, if `wait` raises it.
    """

    def __init__(
        self,
        address: str,
        table: str,
        num_lanes: int,
        num_rows: int,
        wait: core.Wait,
        has_state: bool = False,
        chunk_length: int | None = None,
        max_pending: int = MAX_PENDING,
        num_context: int = 0,
        rows_at_once: int = _ROWS_AT_ONCE,
    ) -> None:
        self._address = address
        self._table = table
        self._wait = wait
        self._has_state = has_state
        self._max_pending = max_pending
        self._num_context = num_context
        chunk_length = chunk_length or num_rows
        # A writer whose stream fails as it begins can end the process by SIGSEGV.
        _wait_for_server(address, wait)
        client = reverb.Client(address)
        self._lanes = [
            _LaneWriter(client, num_rows, chunk_length, has_state)
            for _ in range(num_lanes)
        ]
        # References to the last rows of each lane, and to the states before them.
        self._rows: list[collections.deque] = [
            collections.deque(maxlen=num_rows) for _ in range(num_lanes)
        ]
        self._states: list[collections.deque] = [
            collections.deque(maxlen=num_rows) for _ in range(num_lanes)
        ]
        # What is yet to be written, by lane: rows (with states, if any) and priorities.
        self._waiting: list[collections.deque] = [
            collections.deque() for _ in range(num_lanes)
        ]
        self._num_waiting, self._max_waiting = 0, rows_at_once * num_lanes
        self._written_at = time.monotonic()
        self._pending = [0] * num_lanes
        self._samples = info.Motion()
        self._describe = seldom.Seldom(self._describe_wait)
        self.num_items = 0

    def append(
        self, lane: int, row: np.ndarray, state: np.ndarray | None = None
    ) -> None:
        """Appends a row, and the state before it where an item may start; may block.

        Both are kept as they are, and must not change any more.
        """
        self._waiting[lane].append((row, state) if self._has_state else row)
        self._count(1)

    def append_all(self, rows: np.ndarray) -> None:
        """Appends a row [num_lanes, ...] of each lane, for items without states.

        May block. The rows are kept as they are, and must not change any more.
        """
        assert not self._has_state
        for waiting, row in zip(self._waiting, rows, strict=True):
            waiting.append(row)
        self._count(len(rows))

    def create_item(self, lane: int, priority: float) -> None:
        """Makes an item of the last `num_rows` rows of a lane.

        They have to be consecutive: Reverb stores a first row and a length.
        """
        self._waiting[lane].append(float(priority))
        self.num_items += 1

    def flush(self) -> None:
        """Returns when every item created is in the table.

        Tries for a second at least before `wait` may stop it.
        """
        stopped_from = time.monotonic() + _FLUSH_SECONDS
        self._write(stopped_from)
        for lane, pending in enumerate(self._pending):
            if pending:
                self._flush_lane(lane, 0, stopped_from)

    def close(self) -> None:
        """Drops what is not flushed; may be called twice."""
        for lane in self._lanes:
            lane.close()
        self._lanes, self._waiting, self._pending = [], [], []
        self._num_waiting = 0

    def _count(self, num_rows: int) -> None:
        self._num_waiting += num_rows
        if (
            self._num_waiting >= self._max_waiting
            or time.monotonic() - self._written_at > _WAITING_SECONDS
        ):
            self._write()

    def _write(self, stopped_from: float = 0.0) -> None:
        """Hands on what waits; where that is stopped, the next call goes on."""
        for lane, waiting in enumerate(self._waiting):
            rows = self._rows[lane]
            while waiting:
                # Taken out first: a wait that is stopped comes after it is done.
                one = waiting.popleft()
                if type(one) is float:
                    self._make_item(lane, one, stopped_from)
                    continue
                row, state = one if self._has_state else (one, None)
                if not rows:
                    for _ in range(self._num_context):
                        self._append(lane, row, None)
                self._append(lane, row, state)
        self._num_waiting = 0
        self._written_at = time.monotonic()

    def _append(self, lane: int, row: np.ndarray, state: np.ndarray | None) -> None:
        if self._has_state:
            row, state = self._lanes[lane].append([row, state])
            self._states[lane].append(state)
        else:
            [row] = self._lanes[lane].append([row])
        self._rows[lane].append(row)

    def _make_item(self, lane: int, priority: float, stopped_from: float) -> None:
        state = self._states[lane][self._num_context] if self._has_state else None
        self._lanes[lane].create_item(
            self._table, priority, list(self._rows[lane]), state
        )
        self._pending[lane] += 1
        if self._pending[lane] >= self._max_pending:
            self._flush_lane(lane, self._max_pending // 2, stopped_from)

    def _flush_lane(self, lane: int, allowed: int, stopped_from: float = 0.0) -> None:
        start = heard = time.monotonic()
        while not self._lanes[lane].flush(allowed, _POLL_SECONDS):
            now = time.monotonic()
            reason, answered = self._describe()
            if answered:
                heard = now
            elif now - heard > _UNREACHABLE_SECONDS:
                raise ConnectionError(
                    f'{reason}, for {now - heard:.0f} s; items that were not yet in '
                    f'table `{self._table}` are lost.'
                )
            if now >= stopped_from:
                self._wait(reason, now - start)
        self._pending[lane] = allowed

    def _describe_wait(self) -> tuple[str, bool]:
        try:
            found = info.table_statistics(self._address, timeout=2.0)
        except ConnectionError:
            if info.is_listening(self._address):
                return info.describe_busy(self._address), True
            return f'the replay server at {self._address} does not answer', False
        for table in found:
            if table.name == self._table:
                still = self._samples.seconds_still(table.samples)
                return info.describe_insert_wait(table, still), True
        raise ConnectionError(
            f'the replay server at {self._address} has no table `{self._table}`, but '
            f'{[table.name for table in found]}.'
        )


def _wait_for_server(address: str, wait: core.Wait) -> None:
    begin = time.monotonic()
    while True:
        try:
            info.server_info(address, timeout=1.0)
            return
        except ConnectionError:
            waited = time.monotonic() - begin
            if info.is_listening(address):
                wait(info.describe_busy(address), waited)
                continue
            if waited > _START_SECONDS:
                raise
            wait(f'the replay server at {address} to start', waited)


class _LaneWriter:
    """One Reverb writer, used through its binding, or whole where that is not there."""

    def __init__(
        self, client: reverb.Client, num_rows: int, chunk_length: int, has_state: bool
    ) -> None:
        keep = max(num_rows, chunk_length)
        self._writer = client.trajectory_writer(keep, validate_items=False)
        self._writer.configure(
            (0,), num_keep_alive_refs=keep, max_chunk_length=chunk_length
        )
        if has_state:
            # A state stands alone: sampling one must not unpack its neighbours.
            self._writer.configure((1,), num_keep_alive_refs=keep, max_chunk_length=1)
        binding = getattr(self._writer, '_writer', None)
        is_fast = all(hasattr(binding, name) for name in ('Append', 'CreateItem'))
        self._binding = binding if is_fast else None
        # Returns a reference for each column, None for None.
        self.append: Callable[[Sequence[np.ndarray | None]], Sequence] = self._append

    def _append(self, columns: Sequence[np.ndarray | None]) -> Sequence:
        # The public method makes the columns and applies their configuration.
        self._writer.append(columns)
        if self._binding is not None:
            self.append = self._binding.Append
        return [
            None if column is None else next(iter(history[-1]))
            for column, history in zip(columns, self._writer.history, strict=True)
        ]

    def create_item(
        self, table: str, priority: float, rows: Sequence, state: object | None
    ) -> None:
        """Makes an item of references to rows and, if it is not None, to a state."""
        if self._binding is not None:
            columns, squeezed = [rows], [False]
            if state is not None:
                columns, squeezed = [rows, [state]], [False, True]
            self._binding.CreateItem(table, priority, columns, squeezed)
            return
        trajectory = {'rows': reverb.TrajectoryColumn(rows)}
        if state is not None:
            trajectory['state'] = reverb.TrajectoryColumn([state], squeeze=True)
        self._writer.create_item(table, priority, trajectory)

    def flush(self, allowed: int, seconds: float) -> bool:
        """Returns whether at most `allowed` items are pending within the time."""
        try:
            self._writer.flush(allowed, timeout_ms=int(1000 * seconds))
        except reverb.errors.DeadlineExceededError:
            return False
        return True

    def close(self) -> None:
        self._writer.close()
