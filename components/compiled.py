"""Traced functions, called at half of tf.function's cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tree

from repertory.components import types


class Compiled:
    """A function traced once, for arguments of one structure, shape and dtype.

    A call of a `tf.function`, and of its concrete function, spends some 250
    microseconds in Python: more than a small network. Here the graph is called as an
    operation of its own. No gradient flows through it.

    Args:
        function: of nests of tensors, to a nest of tensors. It may read and change
            variables, which have to exist; it is traced at once, without autograph.
        signature: tf.TensorSpec for each leaf of the arguments.
    """

    def __init__(
        self, function: Callable[..., types.Nest], signature: Sequence[types.Nest]
    ):
        # Kept, for it owns the graph.
        self._traced = tf.function(
            function, input_signature=signature, autograph=False
        ).get_concrete_function()
        self._captured = list(self._traced.captured_inputs)
        self._dtypes = [output.dtype for output in self._traced.outputs]
        self._structure = self._traced.structured_outputs

    def __call__(self, *arguments: types.Nest) -> Any:
        """Returns what the function returns.

        Args:
            *arguments: tensors, or NumPy arrays of the very dtypes of the signature.

        Raises:
            tf.errors.InvalidArgumentError: if they do not fit the signature.
        """
        results = tf.raw_ops.StatefulPartitionedCall(
            args=[*tree.flatten(arguments), *self._captured],
            Tout=self._dtypes,
            f=self._traced,
        )
        return tree.unflatten_as(self._structure, results)
