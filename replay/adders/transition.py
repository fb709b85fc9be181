"""Writes n-step transitions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from repertory.components import core, types
from repertory.replay import priorities, rows, stacks, writers
from repertory.replay.adders import episodes

PriorityFn = Callable[[dict, np.ndarray, np.ndarray, dict], np.ndarray]


_CHUNK_BYTES = 8192


class TransitionAdder(core.Adder):
    """Writes a window of n + 1 rows for each step; the learner's graph sums it up.

    An episode of T steps gives exactly T items, and none crosses its end: after the
    LAST row n - 1 PADDING rows follow, so that the last windows exist too, with their
    true length m < n and the final observation as their end. There are no short
    windows at an episode's start.

    With `priority_fn`, each window's return R and discount D of ALGORITHMS' n-step
    equations, R = sum_{k<m} (prod_{j<k} gamma d_{t+j}) r_{t+k} and
    D = prod_{j<m} gamma d_{t+j}, are handed to it with the extras of its first row and
    of the row that bootstraps it, on which the policy has run as well.

    Reference: Horgan et al. (2018), "Distributed Prioritized Experience Replay",
    https://arxiv.org/abs/1803.00933, for priorities computed by the actors.

    Args:
        address: of the replay server.
        table: name.
        codec: packs the rows; extras outside its spec are not stored.
        n_step: environment steps, at least 1.
        discount: gamma, in [0, 1].
        num_lanes: lanes of each row.
        wait: is called while the table makes the actor wait.
        priority_fn: (first_extras [K, ...], reward [K], discount [K],
            last_extras [K, ...]) -> [K], positive; None gives each item priority 1.
        max_abs_reward: rewards are clipped to plus or minus this; None: as they are.

    Raises:
        ValueError: if `n_step` or `discount` is out of range.
    """

    def __init__(
        self,
        address: str,
        table: str,
        codec: rows.RowCodec,
        n_step: int,
        discount: float,
        num_lanes: int,
        wait: core.Wait,
        priority_fn: PriorityFn | None = None,
        max_abs_reward: float | None = None,
    ) -> None:
        if n_step < 1:
            raise ValueError(f'n_step must be >= 1, got {n_step}.')
        if not 0.0 <= discount <= 1.0:
            raise ValueError(f'discount must be in [0, 1], got {discount}.')
        self._codec = codec
        self._check = stacks.StackCheck(codec.spec.observation)
        self._n_step = n_step
        self._discount = np.float32(discount)
        self._history = episodes.History(n_step + 1) if priority_fn else None
        self._priority_fn = priority_fn
        self._max_abs_reward = max_abs_reward
        # Steps of the running episode, by lane; -1 before its FIRST row.
        self._steps = np.full(num_lanes, -1)
        window = codec.num_context + n_step + 1
        self._writer = writers.RowWriter(
            address,
            table,
            num_lanes,
            num_rows=window,
            wait=wait,
            num_context=codec.num_context,
            # Small rows cost by the chunk, large ones by what a sample unpacks. Longer
            # ones would be cut by each flush, which waits for them, as windows are.
            chunk_length=max(
                window,
                min(
                    4 * window,
                    _CHUNK_BYTES // codec.num_bytes,
                    writers.MAX_PENDING // 2,
                ),
            ),
        )

    @property
    def num_items(self) -> int:
        return self._writer.num_items

    def add(self, row: types.Row) -> None:
        limit = self._max_abs_reward
        if limit is not None:
            row = row._replace(reward=np.clip(row.reward, -limit, limit))
        packed = self._codec.encode(row)
        self._check(row)
        is_first = row.step_type == types.StepType.FIRST
        self._steps = episodes.count_steps(self._steps, is_first)
        if self._history is not None:
            self._history.append(row)
        writer, n = self._writer, self._n_step
        writer.append_all(packed)

        full = np.flatnonzero(self._steps >= n).tolist()
        last = np.flatnonzero(row.step_type == types.StepType.LAST).tolist()
        # The windows that an episode's end cuts short, the longest first.
        short = [
            (lane, length)
            for lane in last
            for length in range(min(n - 1, int(self._steps[lane])), 0, -1)
        ]
        lanes = np.array([*full, *(lane for lane, _ in short)], int)
        lengths = np.array([n] * len(full) + [length for _, length in short], int)
        values = self._priorities(lanes, lengths)
        for lane, priority in zip(full, values[: len(full)], strict=True):
            writer.create_item(lane, priority)
        if short:
            padding = dict(zip(last, self._codec.padding(row, last), strict=True))
            padded = dict.fromkeys(last, 0)
            for (lane, m), priority in zip(short, values[len(full) :], strict=True):
                for _ in range(n - m - padded[lane]):
                    writer.append(lane, padding[lane])
                padded[lane] = n - m
                writer.create_item(lane, priority)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _priorities(self, lanes: np.ndarray, lengths: np.ndarray) -> list[float]:
        if self._priority_fn is None or self._history is None or not len(lanes):
            return [1.0] * len(lanes)
        history = self._history
        first = history.now - lengths
        times = first[:, None] + np.arange(self._n_step + 1)
        reward, discount, _ = history.scalars(times, lanes[:, None])  # [K, n + 1]
        is_real = times <= history.now
        factor = np.where(is_real, self._discount * discount, np.float32(1))[:, 1:]
        product = np.cumprod(factor, axis=1)
        returns = reward[:, 1] + np.sum(reward[:, 2:] * product[:, :-1], axis=1)
        computed = self._priority_fn(
            history.extras(first, lanes),
            returns,
            product[:, -1],
            history.extras(times[:, -1], lanes),
        )
        return priorities.check(computed, lanes).tolist()
