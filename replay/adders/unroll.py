"""Writes unrolls of all lanes together, for learners that use each one once."""

from __future__ import annotations

import collections
import itertools

import numpy as np

from repertory.components import core, types
from repertory.replay import rows, stacks, writers
from repertory.replay.adders import episodes


class UnrollAdder(core.Adder):
    """Writes unroll_length + 1 rows of all lanes as one item, unroll after unroll.

    A row of an item is [num_lanes, num_bytes], and its `state` the recurrent states
    before its first row. Consecutive unrolls overlap by one row: the last observation
    of one bootstraps it and is the first of the next. They run on across episode ends:
    the step from a LAST row to the FIRST one after it is no transition, but takes one
    of the unroll's steps.

    Where observations are stacks of frames, the rows before an unroll come first, as
    many as its first stack needs.

    Nothing is dropped: `add` blocks while the queue is full and one item waits.

    Reference: Espeholt et al. (2018), "IMPALA", sec. 3, https://arxiv.org/abs/1802.01561.

    Args:
        address: of the replay server.
        table: name of a queue.
        codec: packs the rows; extras outside its spec are not stored.
        unroll_length: steps, from 1.
        wait: is called while the table makes the actor wait.
        state_codec: packs the row's extra `state`; None for a policy without memory.

    Raises:
        ValueError: if `unroll_length` is below 1.
    """

    def __init__(
        self,
        address: str,
        table: str,
        codec: rows.RowCodec,
        unroll_length: int,
        wait: core.Wait,
        state_codec: rows.NestCodec | None = None,
    ) -> None:
        if unroll_length < 1:
            raise ValueError(f'unroll_length must be >= 1, got {unroll_length}.')
        self._codec = codec
        self._check = stacks.StackCheck(codec.spec.observation)
        self._state_codec = state_codec
        self._unroll_length = unroll_length
        self._num_rows = 0
        # The row that two unrolls share is written twice, and so are those before it
        # that stacks need, so that each item is one whole chunk: it is sent at once,
        # and nothing else is with it.
        num_rows = codec.num_context + unroll_length + 1
        self._recent: collections.deque = collections.deque(
            maxlen=codec.num_context + 1
        )
        self._writer = writers.RowWriter(
            address,
            table,
            num_lanes=1,
            num_rows=num_rows,
            wait=wait,
            has_state=state_codec is not None,
            chunk_length=num_rows,
            max_pending=2,
            num_context=codec.num_context,
            rows_at_once=1,
        )

    @property
    def num_items(self) -> int:
        return self._writer.num_items

    def add(self, row: types.Row) -> None:
        packed = self._codec.encode(row)
        self._check(row)
        is_shared = self._num_rows % self._unroll_length == 0
        self._num_rows += 1
        self._recent.append(packed)
        if not is_shared:
            self._writer.append(0, packed)
            return
        if self._num_rows > 1:
            self._writer.append(0, packed)
            self._writer.create_item(0, priority=1.0)
            for context in itertools.islice(self._recent, self._codec.num_context):
                self._writer.append(0, context)
        else:
            is_first = row.step_type == types.StepType.FIRST
            episodes.count_steps(np.full_like(row.step_type, -1, int), is_first)
            self._recent.extend([packed] * self._codec.num_context)
        codec = self._state_codec
        state = None if codec is None else codec.encode(row.extras['state'])
        self._writer.append(0, packed, state)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
