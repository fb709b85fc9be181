"""Steps that a node may do without asking: granted ahead, taken, counted."""

from __future__ import annotations

import collections
import time
from collections.abc import Callable
from typing import Any

_PERIOD_SECONDS = 0.25  # Of the measurements of the rate.
_LEASE_SECONDS = 1.0  # How much work is leased ahead.


class Lease:
    """The steps granted to one role, and those it has done; not thread-safe.

    Attributes:
        steps: that may be done without asking.
        counts: totals of what was done, such as `steps`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        """Begins without any; `clock` gives seconds, for tests."""
        self.counts: collections.Counter[str] = collections.Counter()
        self._clock = clock
        self.steps = 0
        self._in_flight = 0
        self._quantum = 0  # The most steps that were ever taken at once.
        self._exhausted = False
        self._held_up = False  # In a wait, where steps are of no use.
        self._rate_time, self._rate_steps, self._rate = clock(), 0, 0.0

    @property
    def is_low(self) -> bool:
        """Whether it is time to ask for more."""
        return self.steps < self._wanted() // 2

    def take(self, number: int) -> bool:
        """Takes `number` steps if they are there; the last may exceed what is left."""
        self._quantum = max(self._quantum, number)
        self._held_up = False
        if self.steps < number and not (self._exhausted and self.steps > 0):
            return False
        self.steps -= number
        self._in_flight += number
        return True

    def count(self, steps: int, **others: int) -> None:
        """Counts what was done of the steps taken; the rest goes back."""
        self.steps += self._in_flight - steps
        self._in_flight = 0
        self.counts.update(steps=steps, **others)

    def give_back(self) -> None:
        """Keeps none while the role waits: others may need them to go on."""
        self._held_up, self.steps = True, 0

    def news(self) -> dict[str, Any]:
        """Returns what the coordinator is told and asked."""
        now = self._clock()
        if now - self._rate_time >= _PERIOD_SECONDS:
            done = self.counts['steps'] - self._rate_steps
            self._rate = done / (now - self._rate_time)
            self._rate_time, self._rate_steps = now, self.counts['steps']
        asks = self._quantum and not self._held_up
        return {
            'counts': dict(self.counts),
            'lease': self.steps + self._in_flight,
            'wanted': max(0, self._wanted() - self.steps) if asks else 0,
        }

    def grant(self, steps: int, exhausted: bool) -> None:
        """Takes the coordinator's answer."""
        self.steps += steps
        self._exhausted = exhausted

    def _wanted(self) -> int:
        return max(2 * self._quantum, int(self._rate * _LEASE_SECONDS))
