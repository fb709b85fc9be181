"""What a replay table is, declared without Reverb; and how it becomes a reverb.Table.

Reverb is imported where a table is made, so that configs can be read in no time.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np
from dm_env import specs

from repertory.components import specs as specs_lib
from repertory.replay import limits, rows

if TYPE_CHECKING:
    import reverb

Signature = dict[str, specs.Array]

# What the server keeps for an item beside its rows, measured with windows of 6 rows.
_ITEM_BYTES = 1000
_SAMPLERS = ('uniform', 'prioritized', 'fifo')
_REMOVERS = ('fifo', 'lowest_priority')


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableSpec:
    """One replay table.

    Attributes:
        name: of the table.
        sampler: 'uniform', 'prioritized' or 'fifo'.
        max_size: items; a full table removes one for each that is inserted.
        signature: the columns of an item; see `signature`.
        rate_limit: None makes a 'fifo' table a queue: each item is sampled once, and
            inserting blocks while `max_size` items wait.
        remover: 'fifo', or 'lowest_priority' for Ape-X DPG's eviction. Reverb has no
            removal by chance: it takes no negative exponent.
        priority_exponent: alpha; the table raises priorities to it.
        max_times_sampled: times, after which an item is removed; 0 for no limit.
        new_rows_per_item: rows that an item does not share with the one before; for
            the estimate of memory.
    """

    name: str
    sampler: str
    max_size: int
    signature: Signature | None
    rate_limit: limits.RateLimit | None
    remover: str = 'fifo'
    priority_exponent: float = 1.0
    max_times_sampled: int = 0
    new_rows_per_item: int = 1

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError('name must not be empty.')
        for field, known in (('sampler', _SAMPLERS), ('remover', _REMOVERS)):
            if getattr(self, field) not in known:
                raise ValueError(
                    f'{field} must be one of {known}, got {getattr(self, field)!r}.'
                )
        if self.max_size < 1:
            raise ValueError(f'max_size must be >= 1, got {self.max_size}.')
        if not self.priority_exponent >= 0:
            raise ValueError(
                f'priority_exponent must be >= 0, got {self.priority_exponent}.'
            )
        if self.rate_limit is None:
            if self.sampler != 'fifo' or self.max_times_sampled != 1:
                raise ValueError(
                    "rate_limit must be given unless sampler is 'fifo' and "
                    f'max_times_sampled 1, got sampler {self.sampler!r} and '
                    f'max_times_sampled {self.max_times_sampled}.'
                )
            return
        if self.rate_limit.min_size > self.max_size:
            raise ValueError(
                'min_size must be <= max_size, got '
                f'{self.rate_limit.min_size} > {self.max_size}; '
                'the table would never become ready to sample.'
            )
        ratio = self.rate_limit.samples_per_insert
        if ratio is not None and 0 < self.max_times_sampled < ratio < math.inf:
            raise ValueError(
                'samples_per_insert must be <= max_times_sampled, got '
                f'{ratio} > {self.max_times_sampled}; every item would be gone before '
                'the ratio is reached.'
            )

    @property
    def is_queue(self) -> bool:
        return self.rate_limit is None

    @property
    def estimated_bytes(self) -> int:
        """Bytes of the full table, uncompressed; rows that windows share count once."""
        if self.signature is None:
            return 0
        total = 0
        for name, column in self.signature.items():
            size = math.prod(column.shape) * np.dtype(column.dtype).itemsize
            if name == 'rows':
                size = size // column.shape[0] * self.new_rows_per_item
            total += size
        return (total + _ITEM_BYTES) * self.max_size

    def limiter(self, limited: bool = True) -> limits.Limiter:
        """Returns the inequalities by which the table blocks.

        Args:
            limited: False leaves out the ratio; a queue's limits always hold.
        """
        if self.rate_limit is None:
            return limits.Limiter(
                samples_per_insert=1.0,
                min_size=1,
                min_diff=0.0,
                max_diff=float(self.max_size),
            )
        if not limited:
            return limits.RateLimit(min_size=self.rate_limit.min_size).limiter()
        return self.rate_limit.limiter()


def make_queue(name: str, max_size: int, signature: Signature) -> TableSpec:
    """Returns a queue: each item is sampled once, in order; inserting waits if full.

    Its items share no rows with each other.
    """
    return TableSpec(
        name=name,
        sampler='fifo',
        max_size=max_size,
        signature=signature,
        rate_limit=None,
        max_times_sampled=1,
        new_rows_per_item=signature['rows'].shape[0] if 'rows' in signature else 1,
    )


def signature(
    codec: rows.RowCodec,
    length: int,
    state_codec: rows.NestCodec | None = None,
    num_lanes: int | None = None,
) -> Signature:
    """Returns the columns of an item of `length` packed rows.

    Args:
        codec: packs a row.
        length: rows of an item: n + 1 for n-step transitions, T + 1 for unrolls. The
            codec's context comes on top.
        state_codec: packs the recurrent state before the item's first row.
        num_lanes: lanes side by side in each row of an unroll; None for one lane.
    """
    lanes = () if num_lanes is None else (num_lanes,)
    shape = codec.num_context + length, *lanes, codec.num_bytes
    columns = {'rows': specs.Array(shape, np.uint8, 'rows')}
    if state_codec is not None and state_codec.num_bytes:
        columns['state'] = specs.Array(
            (*lanes, state_codec.num_bytes), np.uint8, 'state'
        )
    return columns


def columns_of(signature: Signature) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Returns dtype and shape of each column, by name, to compare signatures.

    Args:
        signature: of a TableSpec, or TensorSpecs as a server tells them.
    """
    return {
        name: (column.dtype.name, tuple(column.shape))
        for name, column in signature.items()
    }


def estimate_bytes(
    environment_spec: specs_lib.EnvironmentSpec,
    max_size: int,
    new_rows_per_item: int = 1,
    state_bytes: int = 0,
) -> int:
    """Returns `TableSpec.estimated_bytes` of a table without a policy, which is slow.

    Args:
        environment_spec: gives the rows, to which no extras are added.
        max_size: items.
        new_rows_per_item: see `TableSpec`.
        state_bytes: of the recurrent state that each item has.
    """
    row_bytes = rows.RowCodec(rows.make_row_spec(environment_spec, {})).num_bytes
    return (row_bytes * new_rows_per_item + state_bytes + _ITEM_BYTES) * max_size


def check_batch(spec: TableSpec, batch_size: int) -> None:
    """Refuses a table from which batches of `batch_size` items cannot flow.

    Raises:
        ValueError: with the arithmetic, if learner and actors would stop each other.
    """
    limit = spec.rate_limit
    if limit is None:
        if spec.max_size <= batch_size + 1:
            raise ValueError(
                f'max_size must be > batch_size + 1 = {batch_size + 1} for the queue '
                f'`{spec.name}`, got {spec.max_size}; two items can be written at once '
                'while the learner waits for the last of its batch.'
            )
        return
    if batch_size > spec.max_size:
        raise ValueError(
            f'batch_size must be <= max_size of table `{spec.name}`, got '
            f'{batch_size} > {spec.max_size}; a batch would never be of different '
            'items.'
        )
    buffer = limit.error_buffer
    if buffer is not None and limit.is_limited and buffer < batch_size:
        raise ValueError(
            f'error_buffer of table `{spec.name}` must be >= batch_size, got '
            f'{buffer} < {batch_size}; at {limit.samples_per_insert} '
            f'samples per insert the limiter would stop the learner after '
            f'{buffer:g} samples, within its batch, and soon the actors. '
            'Use limits.make_rate_limit.'
        )


def to_reverb(spec: TableSpec, limited: bool = True) -> reverb.Table:
    """Returns a new, empty table.

    Args:
        spec: what it is.
        limited: False leaves out the ratio, for one thread, which must not block on
            itself and keeps the ratio by a SampleBudget. A queue is always limited.
    """
    import reverb
    import tensorflow as tf

    selectors = {
        'uniform': reverb.selectors.Uniform,
        'prioritized': lambda: reverb.selectors.Prioritized(spec.priority_exponent),
        'fifo': reverb.selectors.Fifo,
        'lowest_priority': reverb.selectors.MinHeap,
    }
    limiter = spec.limiter(limited)
    columns = spec.signature and {
        name: tf.TensorSpec(column.shape, tf.as_dtype(column.dtype), name)
        for name, column in spec.signature.items()
    }
    return reverb.Table(
        name=spec.name,
        sampler=selectors[spec.sampler](),
        remover=selectors[spec.remover](),
        max_size=spec.max_size,
        max_times_sampled=spec.max_times_sampled,
        rate_limiter=reverb.rate_limiters.RateLimiter(
            samples_per_insert=limiter.samples_per_insert,
            min_size_to_sample=limiter.min_size,
            min_diff=limiter.min_diff,
            max_diff=limiter.max_diff,
        ),
        signature=columns,
    )
