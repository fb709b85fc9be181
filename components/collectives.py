"""Several learners that learn as one, by TensorFlow's collectives.

All that is experimental or private in TensorFlow is in this module. What is reduced is
packed into one vector, so that a learner step costs one all-reduce.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import tensorflow as tf
from tensorflow.core.protobuf import tensorflow_server_pb2

# Private, as is all of it below `tf.distribute`'s strategies: these want to make the
# variables, and are meant for one reduction a call.
from tensorflow.python.eager import context

from repertory.components import core, types

_JOB = 'worker'
_POLL_SECONDS = 1.0
_START_SECONDS = 600.0
_Answer = TypeVar('_Answer')
# What TensorFlow raises of a collective that fails.
LOST = (
    tf.errors.UnavailableError,
    tf.errors.CancelledError,
    tf.errors.AbortedError,
    tf.errors.FailedPreconditionError,
)


class PeerLostError(RuntimeError):
    """Another learner of the group is gone, and the group with it."""


class Group:
    """The learners that learn as one, as one of them sees it.

    Each process is in one group in its life, of which all are started together. The
    ranks must call `broadcast` and `all_reduce` in the same order, and build graphs
    that do in the same order. One that is gone is not always noticed: whoever knows of
    it calls `abort`.

    TensorFlow's gRPC servers listen on every interface of the machine, without
    authentication: see `repertory.replay.ports.keep_local`.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        rank: int,
        wait: core.Wait = lambda reason, waited_seconds: None,
        start_seconds: float = _START_SECONDS,
    ):
        """Starts this rank's server, and waits until those of the others are up.

        To be called before anything else is done with TensorFlow.

        Args:
            addresses: `host:port` of each rank.
            rank: which of them this is; rank 0 leads.
            wait: is called now and then while others are waited for.
            start_seconds: until all must be up, and again until all must `broadcast`.

        Raises:
            ValueError: if `rank` is not one of them.
            RuntimeError: if TensorFlow is in use already.
            TimeoutError: if one of the others does not come, naming it.
        """
        if not 0 <= rank < len(addresses):
            raise ValueError(
                f'rank must be in [0, {len(addresses)}), one for each address, got '
                f'{rank}.'
            )
        self.rank, self.size = rank, len(addresses)
        self._addresses, self._wait = addresses, wait
        self._start_seconds = start_seconds
        self._keys = 0
        eager = context.context()
        eager.configure_collective_ops(
            collective_leader=f'/job:{_JOB}/replica:0/task:0',
            # Without it, operations are placed on other ranks too.
            device_filters=(f'/job:{_JOB}/task:{rank}',),
        )
        cluster = tf.train.ClusterSpec({_JOB: list(addresses)})
        eager.enable_collective_ops(
            tensorflow_server_pb2.ServerDef(
                cluster=cluster.as_cluster_def(),
                job_name=_JOB,
                task_index=rank,
                protocol='grpc',
                # It names the leader; without it the ranks never find each other.
                default_session_config=eager.config,
            )
        )
        eager.ensure_initialized()
        self._await_servers()

    @property
    def others(self) -> str:
        """The other ranks, in words."""
        return self._name([i for i in range(self.size) if i != self.rank])

    def _name(self, ranks: Sequence[int]) -> str:
        return ', '.join(f'learner {i} at {self._addresses[i]}' for i in ranks)

    def _await_servers(self) -> None:
        begin = time.monotonic()
        missing = list(range(self.size))
        while missing := [i for i in missing if not _listens(self._addresses[i])]:
            waited = time.monotonic() - begin
            if waited > self._start_seconds:
                raise TimeoutError(
                    f'all {self.size} learners must start within '
                    f'{self._start_seconds:g} s, got no answer from '
                    f'{self._name(missing)}; see the log there, and start all at once.'
                )
            self._wait(f'the start of {self._name(missing)}', waited)
            time.sleep(0.1)

    def call(
        self,
        function: Callable[[], _Answer],
        wait: core.Wait,
        what: str,
        seconds: float,
    ) -> _Answer:
        """Returns what `function` does, in which this rank waits for the others.

        Args:
            function: is called in a thread of its own, since nothing can be done in a
                thread while a collective waits in it.
            wait: is called about each second meanwhile, in the caller's thread.
                `core.Stopped` from it is left to the next wait for samples: who leaves
                an exchange leaves the others in it.
            what: all ranks are to do, in words.
            seconds: in which they must.

        Raises:
            TimeoutError: if they do not.
            PeerLostError: if one of them is gone.
        """
        answers: list[_Answer] = []
        errors: list[Exception] = []

        def call() -> None:
            try:
                answers.append(function())
            except Exception as error:  # Raised in the caller's thread.
                errors.append(error)

        begin, thread = time.monotonic(), threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(_POLL_SECONDS)
        while thread.is_alive():
            waited = time.monotonic() - begin
            if waited > seconds:
                raise TimeoutError(
                    f'all {self.size} learners must {what} within {seconds:g} s, got '
                    f'learner {self.rank} and not all of {self.others}; see the logs.'
                )
            with contextlib.suppress(core.Stopped):
                wait(f'{self.others}, to {what}', waited)
            thread.join(_POLL_SECONDS)
        with self.errors():
            if errors:
                raise errors[0]
        return answers[0]

    def all_reduce(
        self, tensors: Sequence[tf.Tensor], merge: str = 'Add'
    ) -> list[tf.Tensor]:
        """Returns the tensors, each the sum of those of all ranks, or their `Max`.

        Those of one type travel as one vector. Waits for all ranks, without a time-out
        for one that hangs but lives. In a graph it is one operation for good; each call
        outside of one takes memory that is not given back.

        Args:
            tensors: of known shapes, the same on all ranks.
            merge: `Add` or `Max`.

        Raises:
            ValueError: if a shape is not known.
            tf.errors.OpError: where it runs, one of `LOST` if another rank is gone.
        """
        dense = [tf.convert_to_tensor(tensor) for tensor in tensors]
        for tensor in dense:
            if not tensor.shape.is_fully_defined():
                raise ValueError(
                    f'tensors must have known shapes, got {tensor.shape}; set it.'
                )
        reduced: dict[int, tf.Tensor] = {}
        for dtype in dict.fromkeys(tensor.dtype for tensor in dense):
            places = [i for i, tensor in enumerate(dense) if tensor.dtype == dtype]
            flat = tf.concat([tf.reshape(dense[i], [-1]) for i in places], axis=0)
            sizes = [dense[i].shape.num_elements() for i in places]
            pieces = tf.split(self._reduce(flat, merge), sizes)
            for i, piece in zip(places, pieces, strict=True):
                reduced[i] = tf.reshape(piece, dense[i].shape)
        return [reduced[i] for i in range(len(dense))]

    def _reduce(self, vector: tf.Tensor, merge: str) -> tf.Tensor:
        self._keys += 1
        return tf.raw_ops.CollectiveReduceV2(
            input=vector,
            group_size=self.size,
            # Of its own for each type: a group's ranks have the same kind of device.
            group_key=vector.dtype.as_datatype_enum,
            instance_key=self._keys,
            ordering_token=[],
            merge_op=merge,
            final_op='Id',
        )

    def combine(self, parts: types.Nest, summed: bool) -> types.Nest:
        """Returns a nest of tensors, each the mean over all ranks, or the sum.

        Raises:
            as `all_reduce` does.
        """
        values = self.all_reduce(tf.nest.flatten(parts))
        if not summed:
            values = [value / self.size for value in values]
        return tf.nest.pack_sequence_as(parts, values)

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Gives the variables of all ranks the values that rank 0 has.

        Raises:
            PeerLostError: if another rank is gone.
            TimeoutError: if another rank does not come.
        """
        # A sum with zeros, in which float32 and counts below 2^53 are exact.
        parts = [tf.cast(variable, tf.float64) for variable in variables]
        if self.rank:
            parts = [tf.zeros_like(part) for part in parts]

        def share() -> list[tf.Tensor]:
            with tf.device('CPU:0'):
                return self.all_reduce(parts)

        values = self.call(share, self._wait, 'join', self._start_seconds)
        for variable, value in zip(variables, values, strict=True):
            variable.assign(tf.cast(value, variable.dtype))

    def abort(self, reason: str) -> None:
        """Ends what waits for the others, with `PeerLostError`; the group is over.

        May be called in any thread.
        """
        context.context().abort_collective_ops(tf.errors.UNAVAILABLE, reason)

    def lost(self, error: tf.errors.OpError) -> PeerLostError:
        """Returns what to raise for one of `LOST`."""
        return PeerLostError(
            f'learner {self.rank} of {self.size} lost the others: '
            f'{error.message.splitlines()[0]}'
        )

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Raises `PeerLostError` where a collective fails."""
        try:
            yield
        except LOST as error:
            raise self.lost(error) from error


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(':')
    try:
        socket.create_connection((host, int(port)), timeout=_POLL_SECONDS).close()
    except OSError:
        return False
    return True
