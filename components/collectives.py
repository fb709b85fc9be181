"""Several learners that learn as one, by TensorFlow's collectives.

All that is experimental or private in TensorFlow is in this module. What is reduced is
packed into one vector, so that a learner step costs one all-reduce.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence

import tensorflow as tf
from tensorflow.core.protobuf import tensorflow_server_pb2

# Private, as is all of it below `tf.distribute`'s strategies: these want to make the
# variables, and are meant for one reduction a call.
from tensorflow.python.eager import context

from repertory.components import core, types

_JOB = 'worker'
_POLL_SECONDS = 1.0
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
    that do in the same order. There is no time-out: while one rank waits for samples,
    the others wait for it. One that is gone is not always noticed either: whoever
    knows of it calls `abort`.

    TensorFlow's gRPC servers listen on every interface of the machine, without
    authentication.
    """

    def __init__(self, addresses: Sequence[str], rank: int):
        """Starts this rank's server; before anything else is done with TensorFlow.

        Args:
            addresses: `host:port` of each rank.
            rank: which of them this is; rank 0 leads.

        Raises:
            ValueError: if `rank` is not one of them.
            RuntimeError: if TensorFlow is in use already.
        """
        if not 0 <= rank < len(addresses):
            raise ValueError(
                f'rank must be in [0, {len(addresses)}), one for each address, got '
                f'{rank}.'
            )
        self.rank, self.size = rank, len(addresses)
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

    def all_reduce(
        self, tensors: Sequence[tf.Tensor], merge: str = 'Add'
    ) -> list[tf.Tensor]:
        """Returns the tensors, each the sum of those of all ranks, or their `Max`.

        Those of one type travel as one vector. Waits for all ranks. In a graph it is
        one operation for good; each call outside of one takes memory that is not given
        back.

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
        """
        # A sum with zeros, in which float32 and counts below 2^53 are exact.
        values = [tf.cast(variable, tf.float64) for variable in variables]
        if self.rank:
            values = [tf.zeros_like(value) for value in values]
        with self.errors(), tf.device('CPU:0'):
            values = self.all_reduce(values)
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


class JointSamples(Iterator[types.Sample]):
    """The samples of one rank, of which all ranks take one each, or none does.

    So all do the same number of learner steps: where one stops, all raise
    `core.Stopped`. Of each batch `info.least_probability` is that of all ranks.
    """

    def __init__(
        self,
        samples: Iterator[types.Sample],
        group: Group,
        updates_per_call: int,
        wait: core.Wait,
    ):
        """Takes no sample yet.

        Args:
            samples: of this rank, [updates_per_call, B, ...]; they may raise
                `core.Stopped`.
            group: of all ranks.
            updates_per_call: the same on all ranks.
            wait: is called about each second that other ranks are waited for, in the
                caller's thread. `core.Stopped` from it is left to the next sample: who
                leaves an exchange leaves the others in it.
        """
        self._samples = samples
        self._group = group
        self._wait = wait
        self._nothing = tf.ones([updates_per_call], tf.float64)
        self._agree = tf.function(self._exchange, autograph=False)
        self._over = False

    def __next__(self) -> types.Sample:
        """Returns the next sample, once all ranks have theirs.

        Raises:
            core.Stopped: if one of them stops.
            PeerLostError: if one of them is gone.
        """
        try:
            sample = next(self._samples)
        except core.Stopped:
            self.stop()
            raise
        least = tf.reduce_min(sample.info.probability, axis=1)
        stopped, least = self._ask(False, least)
        if stopped:
            self._over = True
            raise core.Stopped('another learner stopped')
        return sample._replace(info=sample.info._replace(least_probability=least))

    def stop(self) -> None:
        """Has all ranks stop, unless they have; waits until each knows.

        Raises:
            PeerLostError: if one of them is gone.
        """
        if not self._over:
            self._over = True
            self._ask(True, self._nothing)

    def _ask(self, stops: bool, least: tf.Tensor) -> tuple[bool, tf.Tensor]:
        answers: list[tuple[tf.Tensor, tf.Tensor]] = []
        errors: list[Exception] = []

        def ask() -> None:
            try:
                answers.append(
                    self._agree(tf.constant(float(stops), tf.float64), least)
                )
            except Exception as error:  # Raised in the caller's thread.
                errors.append(error)

        # In a thread of its own, since nothing can be done while a collective waits.
        begin, thread = time.monotonic(), threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(_POLL_SECONDS)
        while thread.is_alive():
            with contextlib.suppress(core.Stopped):
                self._wait('the other learners', time.monotonic() - begin)
            thread.join(_POLL_SECONDS)
        with self._group.errors():
            if errors:
                raise errors[0]
        stopped, least = answers[0]
        return bool(stopped), least

    def _exchange(
        self, stops: tf.Tensor, least: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.device('CPU:0'):
            stops, least = self._group.all_reduce([stops, -least], merge='Max')
        return stops > 0, -least
