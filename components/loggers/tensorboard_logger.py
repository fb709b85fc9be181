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
        self, folder: str | os.PathLike, step_name: str = 'actor_steps'
    ) -> None:
        """Opens an event file.

        Args:
            folder: where the file goes, and TensorBoard's name for the run; it is
                made if absent.
            step_name: the value in each row that is TensorBoard's step; a row without
                it, since nothing has been counted yet, is at step 0.
        """
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer import record_writer

        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self._step_name = step_name
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        name = f'events.out.tfevents.{time.time_ns()}.{os.getpid()}'
        self._file = open(folder / name, 'xb')  # noqa: SIM115
        self._records = record_writer.RecordWriter(self._file)
        self._append(file_version='brain.Event:2')

    def write(self, values: Mapping[str, Any]) -> None:
        row = values_lib.flatten(values)
        step = int(row.pop(self._step_name, 0))
        scalars = [
            self._summary.Value(tag=name, simple_value=float(value))
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
