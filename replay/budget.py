"""The samples-per-insert ratio for one thread, which must not block on itself."""

from __future__ import annotations

import fractions
import math
from collections.abc import Mapping

from repertory.replay import tables


class SampleBudget:
    """Counts the learner steps owed for the items inserted so far; never blocks.

    After I inserted items the steps owed in all are
    floor(samples_per_insert (I - min_size) / batch_size), in exact fractions, which
    is what Reverb's limiter holds to on average. Without a ratio one step is owed
    whenever `owed` is called, once `min_size` items are there.

    Args:
        samples_per_insert: items sampled per item inserted; None or infinity: no ratio.
        min_size: items before the first step.
        batch_size: items of a learner step.

    Raises:
        ValueError: if an argument is out of range.
    """

    def __init__(
        self, samples_per_insert: float | None, min_size: int, batch_size: int
    ) -> None:
        if batch_size < 1:
            raise ValueError(f'batch_size must be >= 1, got {batch_size}.')
        if min_size < 0:
            raise ValueError(f'min_size must be >= 0, got {min_size}.')
        if samples_per_insert in (None, math.inf):
            self._steps_per_item = None
        elif not samples_per_insert > 0:
            raise ValueError(
                f'samples_per_insert must be > 0, got {samples_per_insert}.'
            )
        else:
            # By the decimal that was written: 0.1 is a tenth.
            ratio = fractions.Fraction(repr(float(samples_per_insert)))
            self._steps_per_item = ratio / batch_size
        self._min_size = min_size
        self._earlier = 0
        self._inserted = 0
        self._steps = 0

    @classmethod
    def for_table(cls, spec: tables.TableSpec, batch_size: int) -> SampleBudget:
        """Returns the budget of a table; from a queue each item is taken once."""
        limit = spec.rate_limit
        if limit is None:
            return cls(1.0, 0, batch_size)
        return cls(limit.samples_per_insert, limit.min_size, batch_size)

    def owed(self, inserted: int) -> int:
        """Returns the learner steps still to be done after `inserted` items.

        Args:
            inserted: items since this process started; those of the runs before are
                added where `restore` was called.
        """
        self._inserted = inserted
        beyond = self._earlier + inserted - self._min_size
        if beyond < 0:
            return 0
        if self._steps_per_item is None:
            return 1
        return max(math.floor(beyond * self._steps_per_item) - self._steps, 0)

    def spend(self, steps: int) -> None:
        """Counts learner steps that were done."""
        self._steps += steps

    def state(self) -> dict[str, int]:
        """Returns what a resumed run needs, if it restores the table as well."""
        return {'inserted': self._earlier + self._inserted, 'steps': self._steps}

    def restore(self, state: Mapping[str, int]) -> None:
        """Takes what `state` returned."""
        self._earlier = int(state['inserted'])
        self._steps = int(state['steps'])
        self._inserted = 0
