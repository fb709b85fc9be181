"""How sampling from a table and inserting into it wait for each other."""

from __future__ import annotations

import dataclasses
import math
import sys

_UNLIMITED = sys.float_info.max


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limiter:
    """Reverb's inequalities; one insert or one sample goes through where they hold.

    Attributes:
        samples_per_insert: weight of an insert.
        min_size: items below which nothing is sampled and every insert goes through.
        min_diff: least inserts * samples_per_insert - samples after a sample.
        max_diff: most of the same after an insert.
    """

    samples_per_insert: float
    min_size: int
    min_diff: float
    max_diff: float

    def can_insert(self, inserts: int, samples: int, deletes: int) -> bool:
        """Says whether an insert goes through after so many operations."""
        if inserts + 1 - deletes <= self.min_size:
            return True
        return (inserts + 1) * self.samples_per_insert - samples <= self.max_diff

    def can_sample(self, inserts: int, samples: int, deletes: int) -> bool:
        """Says whether a sample goes through after so many operations."""
        if inserts - deletes < self.min_size:
            return False
        return inserts * self.samples_per_insert - samples - 1 >= self.min_diff


@dataclasses.dataclass(frozen=True, kw_only=True)
class RateLimit:
    """How sampling and inserting wait for each other.

    The limiter keeps samples = samples_per_insert * (inserts - min_size) to within
    `error_buffer` samples. None or infinity as `samples_per_insert` limits nothing
    but the start.

    Attributes:
        samples_per_insert: items sampled per item inserted; a batch of 32 counts 32.
        min_size: items in the table before the first is sampled.
        error_buffer: samples; see `make_rate_limit` for one that fits a batch.
    """

    samples_per_insert: float | None = None
    min_size: int = 1
    error_buffer: float | None = None

    def __post_init__(self) -> None:
        if self.min_size < 1:
            raise ValueError(f'min_size must be >= 1, got {self.min_size}.')
        ratio = self.samples_per_insert
        if ratio is None or ratio == math.inf:
            return
        if not ratio > 0:
            raise ValueError(
                f'samples_per_insert must be > 0, got {ratio}; None means no limit.'
            )
        least = max(1.0, ratio)
        if self.error_buffer is None or not self.error_buffer >= least:
            raise ValueError(
                f'error_buffer must be >= max(1, samples_per_insert) = {least}, got '
                f'{self.error_buffer}; sampling and inserting would block each other.'
            )

    @property
    def is_limited(self) -> bool:
        return self.samples_per_insert not in (None, math.inf)

    def limiter(self) -> Limiter:
        """Returns the inequalities."""
        ratio, buffer = self.samples_per_insert, self.error_buffer
        if ratio is None or buffer is None or not self.is_limited:
            return Limiter(
                samples_per_insert=1.0,
                min_size=self.min_size,
                min_diff=-_UNLIMITED,
                max_diff=_UNLIMITED,
            )
        offset = ratio * self.min_size
        return Limiter(
            samples_per_insert=float(ratio),
            min_size=self.min_size,
            min_diff=offset - buffer,
            max_diff=offset + buffer,
        )


def make_rate_limit(
    samples_per_insert: float | None,
    min_size: int,
    batch_size: int,
    prefetched_batches: int = 2,
) -> RateLimit:
    """Returns a limit whose buffer holds the batches that are sampled ahead.

    The buffer is max(2 ratio, 0.1 ratio min_size, (1 + prefetched) batch_size):
    with less than a batch, learner and actors would stop each other at every batch.

    Args:
        samples_per_insert: None or infinity for no limit.
        min_size: items.
        batch_size: items of a learner step.
        prefetched_batches: sampled ahead of the one in use.
    """
    ratio = samples_per_insert
    if ratio is None or ratio == math.inf:
        return RateLimit(min_size=min_size)
    return RateLimit(
        samples_per_insert=ratio,
        min_size=min_size,
        error_buffer=float(
            max(
                2 * ratio, 0.1 * ratio * min_size, (1 + prefetched_batches) * batch_size
            )
        ),
    )
