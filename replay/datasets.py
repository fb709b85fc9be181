"""From replay servers to a tf.data.Dataset of `types.Sample`, batched in the graph."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import reverb
import tensorflow as tf

from repertory.components import core, types
from repertory.replay import info, rows, tables

_SIGNATURE_TIMEOUT_SECONDS = 60.0


def make_transition_dataset(
    addresses: Sequence[str],
    table: str,
    codec: rows.RowCodec,
    n_step: int,
    discount: float,
    batch_size: int,
    updates_per_call: int = 1,
    prefetch: bool = True,
) -> tf.data.Dataset:
    """Returns a dataset of samples [updates_per_call, B, ...] of `types.Transition`.

    With several servers each gives its share of a batch, in turn; the probabilities
    are those within the item's own table.

    Args:
        addresses: of the replay servers; one in this process is read directly.
        table: name.
        codec: that the adder packed the rows with.
        n_step: of the adder.
        discount: gamma, in [0, 1].
        batch_size: B, items.
        updates_per_call: batches of an element of the dataset.
        prefetch: False samples as little ahead as can be, for one thread.

    Raises:
        ConnectionError: if a server does not answer.
        ValueError: if the table is missing, lacks a signature or has another one.
    """

    def decode(packed: dict[str, tf.Tensor]) -> types.Transition:
        return to_transition(packed['rows'], codec, discount)

    return _make_dataset(
        addresses,
        table,
        tables.signature(codec, n_step + 1),
        decode,
        batch_size,
        updates_per_call,
        prefetch,
    )


def to_transition(
    packed: tf.Tensor, codec: rows.RowCodec, discount: float
) -> types.Transition:
    """Returns the n-step transitions [B] of windows of packed rows.

    R = sum_{k<m} (prod_{j<k} gamma d_{t+j}) r_{t+k}, D = prod_{j<m} gamma d_{t+j},
    with m the rows of the window after the first that are not PADDING.

    Args:
        packed: uint8 [B, n + 1, num_bytes].
        codec: of the rows.
        discount: gamma.
    """
    first, last = codec.decode(packed[:, 0]), codec.decode(packed[:, -1])
    steps = codec.decode(packed[:, 1:])
    is_padding = tf.equal(steps.step_type, types.StepType.PADDING)
    factor = tf.where(is_padding, 1.0, discount * steps.discount)  # [B, n]
    reward = tf.where(is_padding, 0.0, steps.reward)
    return types.Transition(
        observation=first.observation,
        action=first.action,
        reward=tf.reduce_sum(
            tf.math.cumprod(factor, axis=1, exclusive=True) * reward, axis=1
        ),
        discount=tf.reduce_prod(factor, axis=1),
        next_observation=last.observation,
        extras=first.extras,
    )


def _make_dataset(
    addresses: Sequence[str],
    table: str,
    signature: tables.Signature,
    decode: Callable[[dict[str, tf.Tensor]], types.Nest],
    batch_size: int,
    updates_per_call: int,
    prefetch: bool,
) -> tf.data.Dataset:
    for address in addresses:
        check_signature(address, table, signature)
    num_items = batch_size * updates_per_call
    is_queue = info.is_fifo(addresses[0], table)
    # Two or three workers take what a small learner needs; a queue needs one to keep
    # its order.
    options = dict(
        table=table,
        dtypes={name: tf.as_dtype(spec.dtype) for name, spec in signature.items()},
        shapes={name: tf.TensorShape(spec.shape) for name, spec in signature.items()},
        num_workers_per_iterator=2 if prefetch and not is_queue else 1,
        max_in_flight_samples_per_worker=max(1, num_items) if prefetch else 1,
    )

    def sample(address):
        return reverb.TrajectoryDataset(address, **options)

    if len(addresses) == 1:
        dataset = sample(addresses[0])
    else:
        dataset = tf.data.Dataset.from_tensor_slices(list(addresses)).interleave(
            sample, cycle_length=len(addresses), block_length=1
        )

    def to_sample(sampled: reverb.ReplaySample) -> types.Sample:
        info_fields = types.SampleInfo(
            key=sampled.info.key,
            probability=sampled.info.probability,
            table_size=sampled.info.table_size,
            priority=sampled.info.priority,
        )
        flat = types.Sample(info_fields, decode(sampled.data))
        return tf.nest.map_structure(
            lambda leaf: tf.reshape(
                leaf,
                [updates_per_call, leaf.shape[0] // updates_per_call, *leaf.shape[1:]],
            ),
            flat,
        )

    dataset = dataset.batch(num_items, drop_remainder=True)
    dataset = dataset.map(to_sample)
    return dataset.prefetch(1) if prefetch else dataset


def check_signature(
    address: str,
    table: str,
    signature: tables.Signature,
    timeout: float = _SIGNATURE_TIMEOUT_SECONDS,
) -> None:
    """Refuses a table whose items are not those of `signature`.

    Raises:
        ConnectionError: if the server does not answer within `timeout` seconds.
        ValueError: if there is no such table, or it has no or another signature.
    """
    found = info.server_info(address, timeout)
    if table not in found:
        raise ValueError(
            f'table must be one of {sorted(found)} at {address}, got `{table}`.'
        )
    actual = found[table].signature
    if actual is None:
        raise ValueError(
            f'table `{table}` at {address} must have a signature, got none; set '
            'TableSpec.signature.'
        )
    wanted = {name: (s.dtype.name, tuple(s.shape)) for name, s in signature.items()}
    given = {name: (s.dtype.name, tuple(s.shape)) for name, s in actual.items()}
    if wanted != given:
        raise ValueError(
            f'table `{table}` at {address} must have the columns {wanted}, got '
            f'{given}; table, adder and dataset need the same specs and lengths.'
        )


class Prefetcher(Iterator[types.Sample]):
    """Takes samples of a dataset in a thread, so that a wait can be told and ended.

    Args:
        dataset: of samples.
        wait: is called about each second that `next` waits; see `core.Wait`.
        describe: returns what is waited for, in words.
        size: samples taken ahead.

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
        self._wait = wait
        self._describe = describe
        self._queue = queue.Queue(maxsize=size)
        self._closed = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(dataset,), name='prefetcher', daemon=True
        )
        self._thread.start()

    def __next__(self) -> types.Sample:
        start = time.monotonic()
        while True:
            if self._closed.is_set():
                raise RuntimeError('the prefetcher has been closed.')
            try:
                sample, error = self._queue.get(timeout=1.0)
            except queue.Empty:
                self._wait(self._describe(), time.monotonic() - start)
                continue
            if error is not None:
                self._put(None, error)  # For whoever asks again.
                raise error
            return sample

    def close(self) -> None:
        """Ends the thread, unless it waits for a table: that ends with the server."""
        self._closed.set()
        self._thread.join(timeout=2.0)

    def __enter__(self) -> Prefetcher:
        return self

    def __exit__(self, *unused) -> None:
        self.close()

    def _run(self, dataset: tf.data.Dataset) -> None:
        try:
            for sample in dataset:
                if not self._put(sample, None):
                    return
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


def describe_wait(addresses: Sequence[str], table: str) -> Callable[[], str]:
    """Returns a function that says what sampling from `table` waits for."""

    def describe() -> str:
        waiting = []
        for address in addresses:
            try:
                found = info.table_statistics(address, timeout=2.0)
            except ConnectionError as error:
                waiting.append(str(error))
                continue
            waiting += [
                f'table `{t.name}` has {t.size} of min_size {t.min_size} items, waits '
                f'for {t.waits_for or "nothing"}; are the actors alive?'
                for t in found
                if t.name == table
            ]
        return ' | '.join(waiting)

    return describe
