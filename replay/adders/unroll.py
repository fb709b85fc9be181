"""Writes unrolls of all lanes together, for learners that use each one once."""

from __future__ import annotations

from repertory.components import core, types
from repertory.replay import rows, writers


class UnrollAdder(core.Adder):
    """Writes unroll_length + 1 rows of all lanes as one item, unroll after unroll.

    A row of an item is [num_lanes, num_bytes], and its `state` the recurrent states
    before its first row. Consecutive unrolls overlap by one row: the last observation
    of one bootstraps it and is the first of the next. They run on across episode ends:
    the step from a LAST row to the FIRST one after it is no transition, but takes one
    of the unroll's steps.

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
        self._state_codec = state_codec
        self._unroll_length = unroll_length
        self._num_rows = 0
        # The row that two unrolls share is written twice, so that each item is one
        # whole chunk: it is sent at once, and nothing else is with it.
        self._writer = writers.RowWriter(
            address,
            table,
            num_lanes=1,
            num_rows=unroll_length + 1,
            wait=wait,
            has_state=state_codec is not None,
            chunk_length=unroll_length + 1,
            max_pending=2,
        )

    @property
    def num_items(self) -> int:
        return self._writer.num_items

    def add(self, row: types.Row) -> None:
        packed = self._codec.encode(row)
        is_shared = self._num_rows % self._unroll_length == 0
        self._num_rows += 1
        if not is_shared:
            self._writer.append(0, packed)
            return
        if self._num_rows > 1:
            self._writer.append(0, packed)
            self._writer.create_item(0, priority=1.0)
        codec = self._state_codec
        state = None if codec is None else codec.encode(row.extras['state'])
        self._writer.append(0, packed, state)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
