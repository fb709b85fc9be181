"""Several loggers as one."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from repertory.components import core


class Tee(core.Logger):
    """Hands each row to every one of several loggers."""

    def __init__(self, loggers: Sequence[core.Logger]) -> None:
        self._loggers = tuple(loggers)

    def write(self, values: Mapping[str, Any]) -> None:
        for logger in self._loggers:
            logger.write(values)

    def close(self) -> None:
        # Each is closed, also where closing an earlier one fails.
        with contextlib.ExitStack() as stack:
            for logger in self._loggers:
                stack.callback(logger.close)
