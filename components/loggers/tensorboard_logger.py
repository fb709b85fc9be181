"""Rows as TensorBoard's scalars, without TensorFlow."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Mapping
from typing import Any

from repertory.components import core
from repertory.components.loggers import values as values_lib


class TensorBoardLogger(core.Logger):
    """Appends each row to an event file of its own, handed to the system at once.

    Strings are left out; True is 1.
    """

    def __init__(
        self, folder: str | os.PathLike, step_name: str, prefix: str = ''
    ) -> None:
        """Opens an event file.

        Args:
            folder: where the file goes; it is made if absent.
            step_name: the value in each row that is TensorBoard's step.
            prefix: comes before each name, with a '/' after it.
        """
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer import record_writer

        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self._step_name = step_name
        self._prefix = f'{prefix}/' if prefix else ''
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        name = f'events.out.tfevents.{time.time_ns()}.{os.getpid()}'
        self._file = open(folder / name, 'xb')  # noqa: SIM115
        self._records = record_writer.RecordWriter(self._file)
        self._append(file_version='brain.Event:2')

    def write(self, values: Mapping[str, Any]) -> None:
        """Raises KeyError if the row lacks the step's name."""
        row = values_lib.flatten(values)
        if self._step_name not in row:
            raise KeyError(
                f'values must hold {self._step_name!r}, the step, got {list(row)}.'
            )
        step = int(row.pop(self._step_name))
        scalars = [
            self._summary.Value(tag=self._prefix + name, simple_value=float(value))
            for name, value in row.items()
            if not isinstance(value, str)
        ]
        self._append(step=step, summary=self._summary(value=scalars))

    def close(self) -> None:
        self._file.close()

    def _append(self, **fields) -> None:
        event = self._event(wall_time=time.time(), **fields)
        self._records.write(event.SerializeToString())
        self._records.flush()
