"""Rows as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from repertory.components import core
from repertory.components.loggers import values as values_lib


class TerminalLogger(core.Logger):
    """Prints each row as `[label] name=value name=value`."""

    def __init__(
        self, label: str, print_line: Callable[[str], Any] | None = None
    ) -> None:
        self._label = label
        self._print_line = print_line or _print_line

    def write(self, values: Mapping[str, Any]) -> None:
        row = values_lib.flatten(values)
        cells = ' '.join(f'{name}={_format(value)}' for name, value in row.items())
        self._print_line(f'[{self._label}] {cells}')

    def close(self) -> None:
        pass


def _print_line(line: str) -> None:
    print(line, flush=True)  # A killed process loses what it has not flushed.


def _format(value: values_lib.Scalar) -> str:
    if isinstance(value, float):
        return f'{value:.4g}' if abs(value) < 1e4 else f'{value:,.0f}'
    if isinstance(value, int) and not isinstance(value, bool):
        return f'{value:,}'
    return str(value)
