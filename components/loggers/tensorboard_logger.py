"""Rows as TensorBoard's scalars, without TensorFlow."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from repertory.components import core
from repertory.components.loggers import values as values_lib

_DT_DOUBLE, _DT_STRING = 2, 7  # Of TensorFlow's DataType.
_BUCKETS = 30


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
        from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2
        from tensorboard.summary.writer import record_writer

        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self._tensor, self._metadata = (
            tensor_pb2.TensorProto,
            summary_pb2.SummaryMetadata,
        )
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

    def write_text(self, name: str, text: str) -> None:
        """Shows Markdown among TensorBoard's texts."""
        tensor = self._tensor(
            dtype=_DT_STRING,
            string_val=[text.encode()],
            tensor_shape={'dim': [{'size': 1}]},
        )
        self._write_tensor(name, 0, 'text', tensor)

    def write_histogram(self, name: str, values: np.ndarray, step: int) -> None:
        """Shows how `values`, of any shape, are distributed at a step."""
        counts, edges = np.histogram(np.asarray(values, np.float64), _BUCKETS)
        rows = np.stack([edges[:-1], edges[1:], counts], axis=1)  # [buckets, 3]
        tensor = self._tensor(
            dtype=_DT_DOUBLE,
            tensor_content=rows.tobytes(),
            tensor_shape={'dim': [{'size': len(rows)}, {'size': 3}]},
        )
        self._write_tensor(name, step, 'histograms', tensor)

    def write_gif(self, name: str, gif: bytes, shape: Sequence[int], step: int) -> None:
        """Shows an animated GIF; `shape` is [height, width] of its pictures."""
        height, width = shape
        image = self._summary.Image(
            height=height, width=width, colorspace=3, encoded_image_string=gif
        )
        value = self._summary.Value(tag=name, image=image)
        self._append(step=step, summary=self._summary(value=[value]))

    def close(self) -> None:
        self._file.close()

    def _write_tensor(self, name: str, step: int, plugin: str, tensor: Any) -> None:
        metadata = self._metadata(plugin_data={'plugin_name': plugin})
        value = self._summary.Value(tag=name, metadata=metadata, tensor=tensor)
        self._append(step=step, summary=self._summary(value=[value]))

    def _append(self, **fields) -> None:
        event = self._event(wall_time=time.time(), **fields)
        self._records.write(event.SerializeToString())
        self._records.flush()
