"""Importance weights, and priorities written back off the critical path."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import reverb
import tensorflow as tf

from repertory.components import core
from repertory.replay import info

_LOGGER = logging.getLogger(__name__)
_POLL_SECONDS = 1.0
# A thread that wakes for each learner step, thousands of times a second, takes the
# interpreter and a core from the learner: a quarter of a small step's time.
_PERIOD_SECONDS = 0.005
_UNREACHABLE_SECONDS = 60.0  # A restarted server is back sooner.
_BUSY_SECONDS = 600.0  # More than any checkpoint of the tables takes.
_FLUSH_SECONDS = 120.0
_CLOSE_SECONDS = 10.0
_RETRY_SECONDS = 1.0
_MAX_RETRIES = 60


def importance_weights(
    probabilities: tf.Tensor, exponent: float, least: Any = ()
) -> tf.Tensor:
    """Returns the weights that undo the bias of prioritized sampling.

    w_i = (N P(i))^-beta / max_j (N P(j))^-beta = (min_j P(j) / P(i))^beta, so
    the table's size N cancels.

    Reference: Schaul et al. (2016), "Prioritized Experience Replay", sec. 3.4,
    https://arxiv.org/abs/1511.05952.

    Args:
        probabilities: float64 [B]; chance of drawing each item, in (0, 1].
        exponent: beta, in [0, 1]; 0 turns the correction off.
        least: float64 []; min_j P(j) where these are a part of the batch:
            `SampleInfo.least_probability`. () where they are all of it.

    Returns:
        float32 [B], each in (0, 1]; the least likely item's weight is 1.

    Raises:
        ValueError: if `exponent` is outside [0, 1] or `probabilities` not rank 1.
    """
    if not 0.0 <= exponent <= 1.0:
        raise ValueError(f'exponent must be in [0, 1], got {exponent}.')
    tf.debugging.assert_shapes([(probabilities, ('B',))])
    if isinstance(least, tuple):
        least = tf.reduce_min(probabilities)
    # The quotient first: an inverse of its own can overflow once cast to float32.
    quotient = least / probabilities  # [B]
    return tf.cast(quotient**exponent, tf.float32)


def check(priorities: np.ndarray, lanes: np.ndarray | None = None) -> np.ndarray:
    """Returns the priorities as float64.

    Args:
        priorities: any shape.
        lanes: where each comes from, for the message; None where it is not known.

    Raises:
        FloatingPointError: if one is not finite.
        ValueError: if one is not positive: its item would never be sampled; or if
            there is not one for each of `lanes`.
    """
    priorities = np.asarray(priorities, np.float64)
    if lanes is not None and priorities.shape != lanes.shape:
        raise ValueError(
            f'priorities must be of shape {list(lanes.shape)}, one for each item, got '
            f'{list(priorities.shape)}.'
        )

    def describe(is_bad: np.ndarray) -> str:
        i = np.flatnonzero(is_bad)[0]
        place = f'at index {i}' if lanes is None else f'in lane {lanes[i]}'
        return f'{priorities.flat[i]} {place}'

    is_finite = np.isfinite(priorities)
    if not is_finite.all():
        raise FloatingPointError(
            f'priorities must be finite, got {describe(~is_finite)}; none of these '
            f'{priorities.size} was written.'
        )
    if not (priorities > 0).all():
        raise ValueError(
            f'priorities must be > 0, got {describe(priorities <= 0)}; the item would '
            'never be sampled: add a floor.'
        )
    return priorities


class PriorityUpdater:
    """Writes priorities back in a thread; a context manager.

    Of an item that is named twice the last priority stays; items that are gone are
    ignored. While `max_pending` calls wait, the next one waits too.

    Args:
        addresses: of the replay servers; an item is known to one, the others ignore it.
        table: name.
        max_pending: calls that may wait to be written.
    """

    def __init__(
        self, addresses: Sequence[str], table: str, max_pending: int = 16
    ) -> None:
        self._addresses = tuple(addresses)
        self._clients = [reverb.Client(address) for address in addresses]
        self._table = table
        self._queue: queue.Queue = queue.Queue(maxsize=max_pending)
        self._error: Exception | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name='priorities', daemon=True
        )
        self._thread.start()

    def __call__(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """Enqueues new priorities.

        Args:
            keys: uint64, any shape.
            priorities: positive, of the same shape.

        Raises:
            FloatingPointError: if one is not finite; nothing is written then.
            ValueError: if one is not positive, or the shapes differ.
            RuntimeError: if an earlier update failed, or after `close`.
            core.Stopped: if another thread calls `close` while this call waits.
            ConnectionError: if it waits for a server whose port takes no connection
                for 60 s.
            TimeoutError: if it waits for 10 minutes.
        """
        self._raise_error()
        if self._stopping.is_set():
            raise RuntimeError('the priority updater has been closed.')
        keys, priorities = np.asarray(keys), check(priorities)
        if keys.shape != priorities.shape:
            raise ValueError(
                'keys and priorities must have the same shape, got '
                f'{list(keys.shape)} and {list(priorities.shape)}.'
            )

        def put(seconds: float) -> bool:
            if self._stopping.is_set():
                raise core.Stopped
            try:
                self._queue.put((keys, priorities), timeout=seconds)
            except queue.Full:
                return False
            return True

        self._wait_until(put, _BUSY_SECONDS)

    def flush(self) -> None:
        """Returns when all is written; may be called at any time.

        Raises:
            RuntimeError: if an update failed.
            ConnectionError: if the port of a server takes no connection for 60 s.
            TimeoutError: if it takes longer than two minutes.
        """
        tasks = self._queue.all_tasks_done

        def is_written(seconds: float) -> bool:
            with tasks:
                return tasks.wait_for(lambda: not self._queue.unfinished_tasks, seconds)

        self._wait_until(is_written, _FLUSH_SECONDS)
        self._raise_error()

    def close(self) -> None:
        """Writes what is pending, for 10 s at most; may be called twice."""
        self._stopping.set()
        self._thread.join(timeout=_CLOSE_SECONDS)
        if self._thread.is_alive():
            _LOGGER.warning(
                'the last priorities of table `%s` were not written within %.0f s.',
                self._table,
                _CLOSE_SECONDS,
            )

    def __enter__(self) -> PriorityUpdater:
        return self

    def __exit__(self, *unused) -> None:
        self.close()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            stopping = self._stopping.wait(_PERIOD_SECONDS)
            updates = []
            with contextlib.suppress(queue.Empty):
                while True:
                    updates.append(self._queue.get_nowait())
            try:
                if updates and self._error is None:
                    self._write(updates)
            except Exception as error:  # The next call raises it.
                self._error = error
            finally:
                for _ in updates:
                    self._queue.task_done()

    def _write(self, updates: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        newest: dict[int, float] = {}
        for keys, priorities in updates:
            pairs = zip(keys.ravel().tolist(), priorities.ravel().tolist(), strict=True)
            newest.update(pairs)
        for client in self._clients:
            for attempt in range(_MAX_RETRIES + 1):
                try:
                    client.mutate_priorities(self._table, updates=newest)
                    break
                except RuntimeError:
                    if attempt == _MAX_RETRIES or self._stopping.wait(_RETRY_SECONDS):
                        raise

    def _wait_until(self, attempt: Callable[[float], bool], limit: float) -> None:
        """Returns once `attempt` of some seconds is true, or raises what hinders it.

        Writing blocks without end, also where the server is gone.
        """
        start = heard = time.monotonic()
        while not attempt(_POLL_SECONDS):
            self._raise_error()
            gone = [a for a in self._addresses if not info.is_listening(a)]
            now = time.monotonic()
            if not gone:
                heard = now
            elif now - heard > _UNREACHABLE_SECONDS:
                raise ConnectionError(
                    f'no replay server answers at {gone} for {now - heard:.0f} s; '
                    f'priorities of table `{self._table}` wait to be written there.'
                )
            if now - start > limit:
                raise TimeoutError(
                    f'priorities of table `{self._table}` were not written within '
                    f'{limit:.0f} s by {list(self._addresses)}, though the ports take '
                    'connections; look at the log of the replay server.'
                )

    def _raise_error(self) -> None:
        if self._error is not None:
            raise RuntimeError(
                f'priorities of table `{self._table}` could not be written: '
                f'{self._error}'
            ) from self._error
