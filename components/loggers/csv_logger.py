"""Rows in a CSV file."""

from __future__ import annotations

import csv
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from repertory.components import core
from repertory.components.loggers import values as values_lib


class CSVLogger(core.Logger):
    """Appends rows to a CSV file, each handed to the system at once.

    A name that comes later adds a column: the file is written anew beside the old
    one and takes its place, with blanks in the earlier rows. A file that exists is
    continued; a last line that a crash cut short is dropped.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self._path = pathlib.Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._columns: list[str] = []
        if self._path.exists():
            _drop_unfinished_line(self._path)
            with open(self._path, newline='', encoding='utf-8') as file:
                self._columns = next(csv.reader(file), [])
        self._file = open(self._path, 'a', newline='', encoding='utf-8')  # noqa: SIM115

    def write(self, values: Mapping[str, Any]) -> None:
        row = values_lib.flatten(values)
        new = [name for name in row if name not in self._columns]
        if new:
            self._add_columns(new)
        # A line break within a cell would make a line that was cut short look whole.
        cells = (str(row.get(name, '')) for name in self._columns)
        csv.writer(self._file).writerow(' '.join(cell.splitlines()) for cell in cells)
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _add_columns(self, names: list[str]) -> None:
        self._file.close()
        columns = self._columns + names
        copy = self._path.with_name(f'{self._path.name}.tmp')
        with (
            open(self._path, newline='', encoding='utf-8') as source,
            open(copy, 'w', newline='', encoding='utf-8') as target,
        ):
            writer = csv.writer(target)
            writer.writerow(columns)
            for line in list(csv.reader(source))[1:]:
                writer.writerow(line + [''] * (len(columns) - len(line)))
        os.replace(copy, self._path)
        self._columns = columns
        self._file = open(self._path, 'a', newline='', encoding='utf-8')  # noqa: SIM115


def _drop_unfinished_line(path: pathlib.Path) -> None:
    content = path.read_bytes()
    end = content.rfind(b'\n') + 1
    if end < len(content):
        os.truncate(path, end)
