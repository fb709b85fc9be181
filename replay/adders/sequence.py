"""Writes sequences for recurrent learners that burn in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tree

from repertory.components import core, types
from repertory.replay import priorities, rows, stacks, writers
from repertory.replay.adders import episodes

# Items of a lane; each is a period's steps that run ahead of the rate limiter, beside
# some rows that the writer has yet to hand on.
_MAX_PENDING = 4

PriorityFn = Callable[[dict, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


class SequenceAdder(core.Adder):
    """Writes burn_in_length + trace_length + 1 rows every `period` steps.

    Traces start at the steps 0, period, 2 period ... of an episode, and none crosses
    its end: the first that reaches the LAST row is filled up with PADDING rows, and is
    the episode's last one. So each step of each episode is in a trace. Rows to burn in
    that would lie before the episode are PADDING too: at its FIRST row, where the state
    is known to be the initial one, the learner has to reset.

    The recurrent state before a sequence's first row is its second column, written only
    where a sequence starts.

    Reference: Kapturowski et al. (2019), "Recurrent Experience Replay in Distributed
    Reinforcement Learning", sec. 2.3, https://openreview.net/forum?id=r1lyTjAqYX.

    Args:
        address: of the replay server.
        table: name.
        codec: packs the rows; extras outside its spec are not stored.
        burn_in_length: steps, from 0.
        trace_length: steps that are trained on, from 1.
        period: steps between the starts of two sequences, in [1, trace_length].
        num_lanes: lanes of each row.
        wait: is called while the table makes the actor wait.
        state_codec: packs the row's extra `state`; None for a policy without memory.
        priority_fn: (extras [K, T, ...], reward [K, T], discount [K, T],
            step_type [K, T]) -> [K], positive, over the T = trace_length + 1 rows of
            a trace; PADDING rows repeat the last extras. None gives each item
            priority 1.

    Raises:
        ValueError: if a length is out of range.
    """

    def __init__(
        self,
        address: str,
        table: str,
        codec: rows.RowCodec,
        burn_in_length: int,
        trace_length: int,
        period: int,
        num_lanes: int,
        wait: core.Wait,
        state_codec: rows.NestCodec | None = None,
        priority_fn: PriorityFn | None = None,
    ) -> None:
        if burn_in_length < 0:
            raise ValueError(f'burn_in_length must be >= 0, got {burn_in_length}.')
        if trace_length < 1:
            raise ValueError(f'trace_length must be >= 1, got {trace_length}.')
        if not 1 <= period <= trace_length:
            raise ValueError(
                f'period must be in [1, trace_length = {trace_length}], got {period}; '
                'the steps between two traces would never be trained on.'
            )
        self._codec = codec
        self._check = stacks.StackCheck(codec.spec.observation)
        self._state_codec = state_codec
        self._burn_in = burn_in_length
        self._trace = trace_length
        self._period = period
        self._priority_fn = priority_fn
        self._history = episodes.History(trace_length + 1) if priority_fn else None
        self._steps = np.full(num_lanes, -1)
        self._starts = np.zeros(num_lanes, int)  # Of the next trace, steps.
        num_rows = codec.num_context + burn_in_length + trace_length + 1
        self._writer = writers.RowWriter(
            address,
            table,
            num_lanes,
            num_rows=num_rows,
            wait=wait,
            has_state=state_codec is not None,
            chunk_length=min(period, num_rows),
            max_pending=_MAX_PENDING,
            num_context=codec.num_context,
        )

    @property
    def num_items(self) -> int:
        return self._writer.num_items

    def add(self, row: types.Row) -> None:
        packed = self._codec.encode(row)
        self._check(row)
        is_first = row.step_type == types.StepType.FIRST
        is_last = row.step_type == types.StepType.LAST
        self._steps = episodes.count_steps(self._steps, is_first)
        self._starts = np.where(is_first, 0, self._starts)
        if self._history is not None:
            self._history.append(row)
        is_start = (self._steps + self._burn_in) % self._period == 0
        states = self._pack_states(row, is_start | is_first)
        self._begin(np.flatnonzero(is_first), row, states)
        for lane, lane_row in enumerate(packed):
            state = states.get(lane) if is_start[lane] else None
            self._writer.append(lane, lane_row, state)

        ends = self._starts + self._trace
        has_trace = self._steps > self._starts
        lanes = np.flatnonzero((self._steps == ends) | (is_last & has_trace))
        if not len(lanes):
            return
        values = self._priorities(lanes)
        missing = ends[lanes] - self._steps[lanes]
        short = lanes[missing > 0]
        padding = dict(zip(short, self._codec.padding(row, short), strict=True))
        for lane, count, priority in zip(lanes, missing, values, strict=True):
            for _ in range(count):
                self._writer.append(lane, padding[lane])
            self._writer.create_item(lane, priority)
        self._starts[lanes] += self._period

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _begin(self, lanes: np.ndarray, row: types.Row, states: dict) -> None:
        """Appends the rows before an episode, in the lanes where one begins."""
        if not len(lanes):
            return
        padding = self._codec.padding(row, lanes)
        for lane, lane_padding in zip(lanes, padding, strict=True):
            for t in range(self._burn_in):
                state = None if t % self._period else states.get(lane)
                self._writer.append(lane, lane_padding, state)

    def _pack_states(self, row: types.Row, wanted: np.ndarray) -> dict[int, np.ndarray]:
        """Returns the packed states of the wanted lanes, bool [N]."""
        lanes = np.flatnonzero(wanted)
        if self._state_codec is None or not len(lanes):
            return {}
        state = tree.map_structure(lambda leaf: leaf[lanes], row.extras['state'])
        return dict(zip(lanes, self._state_codec.encode(state), strict=True))

    def _priorities(self, lanes: np.ndarray) -> list[float]:
        if self._priority_fn is None or self._history is None:
            return [1.0] * len(lanes)
        history = self._history
        first = history.now - self._steps[lanes] + self._starts[lanes]
        times = first[:, None] + np.arange(self._trace + 1)  # [K, T]
        each = lanes[:, None]
        computed = self._priority_fn(
            history.extras(times, each), *history.scalars(times, each)
        )
        return priorities.check(computed, lanes).tolist()
