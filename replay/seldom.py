"""Answers that are not asked for anew each time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar('_T')


class Seldom(Generic[_T]):
    """Calls a function that takes long at most once in so many seconds.

    Args:
        function: what is called; its last result is returned in between.
        seconds: from its end to its next call.
        clock: seconds, for tests.
    """

    def __init__(
        self,
        function: Callable[[], _T],
        seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._function = function
        self._seconds = seconds
        self._clock = clock
        self._due = -math.inf
        self._result: _T

    def __call__(self) -> _T:
        if self._clock() >= self._due:
            self._result = self._function()
            self._due = self._clock() + self._seconds
        return self._result
