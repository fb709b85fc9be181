"""Fewer rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from repertory.components import core


class Throttle(core.Logger):
    """Writes at most one row a period, and the last row when it is closed."""

    def __init__(
        self,
        logger: core.Logger,
        period_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises ValueError if `period_seconds` is not above 0."""
        if period_seconds <= 0:
            raise ValueError(f'period_seconds must be > 0, got {period_seconds}.')
        self._logger = logger
        self._period_seconds = period_seconds
        self._clock = clock
        self._last_write: float | None = None
        self._held: dict[str, Any] | None = None

    def write(self, values: Mapping[str, Any]) -> None:
        now = self._clock()
        last = self._last_write
        if last is not None and now - last < self._period_seconds:
            self._held = dict(values)
            return
        self._held, self._last_write = None, now
        self._logger.write(values)

    def close(self) -> None:
        held, self._held = self._held, None
        try:
            if held is not None:
                self._logger.write(held)
        finally:
            self._logger.close()
