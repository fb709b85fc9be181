"""Takes samples in a thread, so that a wait can be told and ended."""

from __future__ import annotations

import functools
import queue
import threading
import time
from collections.abc import Callable, Iterator

import tensorflow as tf
import tree

# Private, but the only way out of a blocked iterator.
from tensorflow.python.eager import cancellation, context, execute

from repertory.components import core, nests, types
from repertory.replay import seldom

_POLL_SECONDS = 0.2  # Who is stopped while it waits takes so long to end.


class Prefetcher(Iterator[types.Sample]):
    """Takes samples of a dataset in a thread, so that a wait can be told and ended.

    Args:
        dataset: of samples.
        wait: is called about each 0.2 s that `next` waits; see `core.Wait`.
        describe: returns what is waited for, in words.
        size: samples taken ahead.

    Attributes:
        element_spec: tf.TensorSpec for each leaf of a sample.

    Raises:
        StopIteration: from `next`, if the dataset ends.
        RuntimeError: from `next`, after `close`.
    """

    def __init__(
        self,
        dataset: tf.data.Dataset,
        wait: core.Wait,
        describe: Callable[[], str] = lambda: 'a sample',
        size: int = 1,
    ) -> None:
        self.element_spec = dataset.element_spec
        self._wait = wait
        self._describe = seldom.Seldom(describe)  # It may ask a server.
        self._queue: queue.Queue = queue.Queue(maxsize=size)
        self._closed = threading.Event()
        self._next, self._cancel = _make_next(dataset)
        self._thread = threading.Thread(
            target=self._run, name='prefetcher', daemon=True
        )
        self._thread.start()

    def __next__(self) -> types.Sample:
        start = time.monotonic()
        while True:
            if self._closed.is_set():
                raise RuntimeError('the prefetcher has been closed.')
            try:
                sample, error = self._queue.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                self._wait(self._describe(), time.monotonic() - start)
                continue
            if error is not None:
                self._put(None, error)  # For whoever asks again.
                raise error
            return sample

    def close(self) -> None:
        """Ends the thread, also if it is blocked; may be called twice."""
        if not self._closed.is_set():
            self._closed.set()
            self._cancel()
        self._thread.join(timeout=10.0)

    def __enter__(self) -> Prefetcher:
        return self

    def __exit__(self, *unused) -> None:
        self.close()

    def _run(self) -> None:
        try:
            while self._put(self._next(), None):
                pass
        except tf.errors.OutOfRangeError:
            self._put(None, StopIteration())
        except Exception as error:  # It is raised where it is missed.
            self._put(None, error)

    def _put(self, sample: types.Sample | None, error: Exception | None) -> bool:
        while not self._closed.is_set():
            try:
                self._queue.put((sample, error), timeout=0.2)
                return True
            except queue.Full:
                continue
        return False


def _make_next(
    dataset: tf.data.Dataset,
) -> tuple[Callable[[], types.Sample], Callable[[], None]]:
    """Returns what takes the next sample, and what ends a blocked call of it."""
    iterator = iter(dataset)
    manager = cancellation.CancellationManager()
    # Beside a call of a function, this takes a sixth of the time, and TensorFlow 2.8
    # keeps nothing of it: see `compiled.Compiled`.
    specs = tree.flatten(dataset.element_spec)
    take = functools.partial(
        execute.execute_with_cancellation,
        'IteratorGetNext',
        len(specs),
        [iterator._iterator_resource],
        (
            'output_types',
            [spec.dtype.as_datatype_enum for spec in specs],
            'output_shapes',
            [execute.make_shape(spec.shape, 'output_shapes') for spec in specs],
        ),
        context.context(),
        manager,
    )
    nest = nests.unflattener(dataset.element_spec)
    return lambda: nest(take()), manager.start_cancel
