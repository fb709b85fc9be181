"""Packed rows: a whole row of replay as one column of bytes.

What Reverb costs goes by the column, so a row (any nest of any numeric dtypes) is
written as one uint8 vector, and taken apart again in the learner's graph.
TensorFlow is imported when something is first decoded: an adder does without.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import tree
from dm_env import specs as dm_specs

from repertory.components import specs, types
from repertory.replay import stacks

if TYPE_CHECKING:
    import tensorflow as tf

_BITCASTABLE = 'iufc'


def make_row_spec(
    environment_spec: specs.EnvironmentSpec,
    extras_spec: dict[str, types.Nest],
    stored_extras: Sequence[str] = (),
) -> types.Row:
    """Returns the spec of one lane's stored row.

    Args:
        environment_spec: gives observation and action.
        extras_spec: what the policy says that it adds, by name.
        stored_extras: the names out of `extras_spec` that the learner needs.

    Raises:
        ValueError: if a stored extra is not in `extras_spec`.
    """
    missing = sorted(set(stored_extras) - set(extras_spec))
    if missing:
        raise ValueError(
            f'stored_extras must be extras of the policy, got {missing}, which are not '
            f"among {sorted(extras_spec)}; add them to the policy's extras_spec."
        )
    return types.Row(
        observation=environment_spec.observations,
        action=environment_spec.actions,
        reward=dm_specs.Array((), np.float32, 'reward'),
        discount=dm_specs.Array((), np.float32, 'discount'),
        step_type=dm_specs.Array((), np.uint8, 'step_type'),
        extras={name: extras_spec[name] for name in stored_extras},
    )


class NestCodec:
    """Packs a nest of arrays [N, ...] into uint8 [N, num_bytes], and back.

    Of a leaf whose spec is `specs.StackedFrames` it packs the newest frame alone.

    Args:
        spec: a nest of specs (anything with `shape` and `dtype`), without N.
        name: of the whole, for error messages.

    Raises:
        ValueError: if a leaf of `spec` is not numeric or has an unknown size.
    """

    def __init__(self, spec: types.Nest, name: str = 'nest') -> None:
        self.spec = spec
        self._name = name
        self._paths = []
        self._shapes = []
        self._num_frames: dict[int, int] = {}  # Of the leaves that are stacks.
        fields: list[tuple] = []
        for path, leaf in tree.flatten_with_path(spec):
            path = self._describe_path(path)
            dtype = np.dtype(leaf.dtype)
            if dtype.kind != 'b' and dtype.kind not in _BITCASTABLE:
                raise ValueError(
                    f'{path} must be numeric, got dtype {dtype}; replay stores bytes.'
                )
            if any(size is None or size < 0 for size in leaf.shape):
                raise ValueError(
                    f'{path} must have a fixed shape, got {tuple(leaf.shape)}.'
                )
            self._paths.append(path)
            shape = tuple(leaf.shape)
            self._shapes.append(shape)
            if isinstance(leaf, specs.StackedFrames):
                self._num_frames[len(fields)] = shape[-1]
                shape = shape[:-1]
            fields.append((f'f{len(fields)}', dtype, shape))
        self._fields = fields
        self._checked = False
        self._names = [name for name, _, _ in fields]
        self._dtypes = [dtype for _, dtype, _ in fields]
        self._ends = list(
            itertools.accumulate(
                dtype.itemsize * math.prod(shape) for _, dtype, shape in fields
            )
        )
        self._record = np.dtype(fields)  # Without gaps: every byte is written.

    @property
    def num_bytes(self) -> int:
        """Bytes of one packed row."""
        return self._record.itemsize

    def encode(self, nest: types.Nest) -> np.ndarray:
        """Returns uint8 [N, num_bytes] from arrays [N, ...].

        Raises:
            ValueError: if structure, a shape or a dtype is not that of the spec; the
                message names the field and gives both.
        """
        leaves = self._flatten(nest)
        num_rows = len(leaves[0]) if np.ndim(leaves[0]) else 0
        packed = np.empty(num_rows, self._record)
        for i, leaf in enumerate(leaves):
            if leaf.dtype != self._dtypes[i] or leaf.shape != (
                num_rows,
                *self._shapes[i],
            ):
                raise ValueError(self._mismatch(i, leaf, num_rows))
            packed[self._names[i]] = leaf[..., -1] if i in self._num_frames else leaf
        return packed.view(np.uint8).reshape(num_rows, self.num_bytes)

    def decode(self, packed: tf.Tensor) -> types.Nest:
        """Returns the nest of tensors [..., *shape] from uint8 [..., num_bytes].

        Of a stack of frames it is the newest one.
        """
        leaves = [self._decode_leaf(packed, i) for i in range(len(self._fields))]
        return tree.unflatten_as(self.spec, leaves)

    def _decode_leaf(self, packed: tf.Tensor, i: int) -> tf.Tensor:
        import tensorflow as tf

        _, dtype, shape = self._fields[i]
        end, size = self._ends[i], dtype.itemsize * math.prod(shape)
        leading = [
            tf.shape(packed)[axis] if length is None else length
            for axis, length in enumerate(packed.shape[:-1])
        ]
        leaf = packed[..., end - size : end]
        if dtype.itemsize > 1:
            leaf = tf.reshape(leaf, [*leading, math.prod(shape), dtype.itemsize])
        if dtype.kind == 'b':
            leaf = tf.cast(leaf, tf.bool)
        elif dtype != np.uint8:
            leaf = tf.bitcast(leaf, tf.as_dtype(dtype))
        return tf.reshape(leaf, [*leading, *shape])

    def _flatten(self, nest: types.Nest) -> list[np.ndarray]:
        leaves = tree.flatten(nest)
        # The whole check takes 0.1 ms, so only the first row gets it.
        if not self._checked or len(leaves) != len(self._fields):
            try:
                tree.flatten_up_to(self.spec, nest, check_types=False)
                tree.assert_same_structure(self.spec, nest, check_types=False)
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f'{self._name} must have the structure '
                    f'{specs.describe(self.spec)}, got another: {error}'
                ) from error
            self._checked = True
        return [np.asarray(leaf) for leaf in leaves]

    def _mismatch(self, i: int, leaf: np.ndarray, num_rows: int) -> str:
        return (
            f'{self._paths[i]} must be {self._dtypes[i].name}'
            f'{[num_rows, *self._shapes[i]]}, got {leaf.dtype.name}{list(leaf.shape)}; '
            'what is written must be what the spec says.'
        )

    def _describe_path(self, path: Sequence[str | int]) -> str:
        return '.'.join([self._name, *map(str, path)])


def make_state_codec(initial_state: types.Nest) -> NestCodec | None:
    """Returns what packs a recurrent state; None for a policy without memory.

    Args:
        initial_state: arrays or tensors [N, ...], such as `Policy.initial_state`.
    """
    leaves = [np.asarray(leaf)[0] for leaf in tree.flatten(initial_state)]
    if not leaves:
        return None
    return NestCodec(tree.unflatten_as(initial_state, leaves), 'state')


class RowCodec(NestCodec):
    """Packs rows; extras that its spec does not name are left out.

    Attributes:
        num_context: the rows that an item needs before its own, so that each of its
            stacks of frames can be put together from single ones.
    """

    def __init__(self, row_spec: types.Row) -> None:
        super().__init__(row_spec, 'row')
        self.num_context = max(self._num_frames.values(), default=1) - 1

    def encode(self, nest: types.Row) -> np.ndarray:
        """Returns uint8 [N, num_bytes]; see `NestCodec.encode`.

        Raises:
            ValueError: also if an extra of the spec is missing, naming it.
        """
        names = self.spec.extras
        try:
            extras = {name: nest.extras[name] for name in names}
        except KeyError:
            missing = sorted(set(names) - set(nest.extras))
            raise ValueError(
                f'row.extras must hold {sorted(names)}, got {sorted(nest.extras)}; '
                f'the policy did not give {missing}.'
            ) from None
        return super().encode(nest._replace(extras=extras))

    def decode_items(
        self, packed: tf.Tensor, observed: Sequence[int] | None = None
    ) -> types.Row:
        """Returns the rows [B, T, ...] of items, observations as they were acted on.

        Args:
            packed: uint8 [B, num_context + T, num_bytes].
            observed: those of the T rows whose observations are needed, so that
                observations are [B, len(observed), ...]; None for all.
        """
        import tensorflow as tf

        length = packed.shape[1] - self.num_context
        wanted = range(length) if observed is None else [t % length for t in observed]
        own = seen = packed[:, self.num_context :]
        if observed is not None:
            seen = tf.stack([own[:, t] for t in wanted], axis=1)
        num_observations = len(tree.flatten(self.spec.observation))
        step_type = self.decode(packed).step_type
        leaves = []
        for i in range(len(self._fields)):
            if i in self._num_frames:
                leaf = stacks.stack_frames(
                    self._decode_leaf(packed, i),
                    step_type,
                    [self.num_context + t for t in wanted],
                    self._num_frames[i],
                )
            else:
                leaf = self._decode_leaf(seen if i < num_observations else own, i)
            leaves.append(leaf)
        return tree.unflatten_as(self.spec, leaves)

    def padding(self, row: types.Row, lanes: np.ndarray) -> np.ndarray:
        """Returns packed PADDING rows of `lanes`: `row` without reward, discount 1."""
        row = tree.map_structure(lambda leaf: leaf[lanes], row)
        return self.encode(
            row._replace(
                reward=np.zeros_like(row.reward),
                discount=np.ones_like(row.discount),
                step_type=np.full_like(row.step_type, types.StepType.PADDING),
            )
        )
