"""Traced functions, called at half of tf.function's cost."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tree

# Private: `tf.experimental.async_scope` waits at its end, and the public setting of an
# asynchronous thread is for all that it calls; `tf.constant` moves to a device.
from tensorflow.python.eager import context, executor
from tensorflow.python.framework import ops

from repertory.components import kernels, nests, types

_logger = logging.getLogger(__name__)


class Compiled:
    """A function traced once, for arguments of one structure, shape and dtype.

    A call of a `tf.function`, and of its concrete function, spends some 250
    microseconds in Python: more than a small network. Here the graph is called as an
    operation of its own. No gradient flows through it.

    TensorFlow 2.8 keeps 414 bytes of each call of a function, until 2.12 mended that
    (tensorflow issue 50765): a gigabyte an hour of a fast actor. The branch of a
    conditional does not, but is run without Grappler and oneDNN.

    Args:
        function: of nests of tensors, to a nest of tensors. It may read and change
            variables, which have to exist; it is traced at once, without autograph.
        signature: tf.TensorSpec for each leaf of the arguments.
        small: for graphs of which `is_small` is true: run as such a branch, on a CPU;
            where there is a GPU, which may lack one of the operations, as others.
    """

    def __init__(
        self,
        function: Callable[..., types.Nest],
        signature: Sequence[types.Nest],
        small: bool = False,
    ):
        # Kept, for it owns the graph.
        self._traced = tf.function(
            function, input_signature=signature, autograph=False
        ).get_concrete_function()
        self._captured = list(self._traced.captured_inputs)
        self._dtypes = [output.dtype for output in self._traced.outputs]
        self._unflatten = nests.unflattener(self._traced.structured_outputs)
        self._true = tf.constant(True)
        self._executor: executor.Executor | None = None
        self._begun: list[tf.Tensor] = []
        self._as_branch = small and not tf.config.list_logical_devices('GPU')

    def __call__(self, *arguments: types.Nest) -> Any:
        """Returns what the function returns.

        Args:
            *arguments: tensors, or NumPy arrays of the very dtypes of the signature.

        Raises:
            tf.errors.InvalidArgumentError: if they do not fit the signature.
        """
        return self._unflatten(self._call([*tree.flatten(arguments), *self._captured]))

    def begin(self, *arguments: types.Nest) -> Any:
        """Calls it, and returns before it is done.

        Its outputs are waited for as they are read, or at once by the next call that
        they are arguments of. Until then the variables that it reads must not change.
        One such call runs at a time. The function must have an output.

        Args:
            *arguments: tensors, or NumPy arrays of the very dtypes of the signature,
                which are copied.

        Raises:
            tf.errors.InvalidArgumentError: also as an output is read, and from then on
                as each one is.
        """
        if self._executor is None:
            self._executor = executor.new_executor(enable_async=True)
        inputs = [
            # Without a device, for else it is moved there: 2 of 2.8 microseconds.
            ops.EagerTensor(leaf.copy(), None, None)
            if isinstance(leaf, np.ndarray)
            else leaf
            for leaf in tree.flatten(arguments)
        ]
        current = context.context()
        before = current.executor
        current.executor = self._executor  # Of this thread.
        try:
            outputs = self(*inputs)
        finally:
            current.executor = before
        self._begun = tree.flatten(outputs)
        return outputs

    def close(self) -> None:
        """Waits for the call that was begun, whatever comes of it; may be called twice.

        The next one begins anew.
        """
        # The executor's own end waits with Python's lock held, which a call may need.
        for output in self._begun:
            with contextlib.suppress(tf.errors.OpError):
                output.numpy()
        self._begun, self._executor = [], None

    def __del__(self):
        # Else who has not closed it, with a policy that calls Python, waits for ever.
        with contextlib.suppress(Exception):
            self.close()

    def _call(self, inputs: list) -> list:
        if self._as_branch:
            return tf.raw_ops.If(
                cond=self._true,
                input=inputs,
                Tout=self._dtypes,
                then_branch=self._traced,
                else_branch=self._traced,
            )
        return tf.raw_ops.StatefulPartitionedCall(
            args=inputs, Tout=self._dtypes, f=self._traced
        )


def is_small(variables: Sequence[tf.Variable], max_size: float = math.inf) -> bool:
    """Returns whether the graph of these parameters is to be `small`.

    Convolutions, whose weights have more than two dimensions, need oneDNN more than
    their calls weigh; so do products with weights of more than `max_size` numbers.
    """
    shapes = [variable.shape for variable in variables]
    return all(len(s) < 3 and s.num_elements() <= max_size for s in shapes)


def is_small_learner(variables: Sequence[tf.Variable]) -> bool:
    """Returns whether a learner's is to be; warns if it is not, and lacks oneDNN."""
    small = is_small(variables, kernels.WIDE)
    if not small and kernels.are_off() and not tf.config.list_logical_devices('GPU'):
        _logger.warning(
            "Learning takes up to 1.7 times as long without oneDNN's kernels, which "
            'wide layers and convolutions need, and TensorFlow was imported without '
            'them: set %s=1 before Python starts, or 0 to do without.',
            kernels.VARIABLE,
        )
    return small
