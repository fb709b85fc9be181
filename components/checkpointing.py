"""Checkpoints that are whole or absent: named arrays and JSON metadata in one file.

A checkpoint is `step_<step>.ckpt`, a zip archive of .npy files with a checksum each,
so that NumPy alone can read it. It is written under another name, synced to disk and
renamed; whatever ends a process in between leaves the earlier checkpoints as they are.
"""

from __future__ import annotations

import json
import logging
import os
import pathlib
import re
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Any, NamedTuple

import numpy as np

_logger = logging.getLogger(__name__)
_NAME = re.compile(r'step_(\d+)\.ckpt')
_PARTIAL = 'partial.tmp'  # One name, so that leftovers of a crash are overwritten.
_METADATA = 'metadata.json'
_ARRAYS = 'arrays/'
_BROKEN = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


class Checkpoint(NamedTuple):
    step: int
    arrays: dict[str, np.ndarray]
    metadata: dict[str, Any]


def save(
    folder: str | os.PathLike,
    step: int,
    arrays: Mapping[str, np.ndarray],
    metadata: Mapping[str, Any] | None = None,
    keep: int = 1,
) -> pathlib.Path:
    """Writes one checkpoint, then deletes all older ones but `keep` - 1 whole ones.

    Args:
        folder: made if it is absent; it must have one writer only.
        step: at least 0; the order of checkpoints. An equal step is replaced.
        arrays: by name, of any dtype but object.
        metadata: what JSON can hold.
        keep: checkpoints kept, at least 1.

    Returns:
        The file's path.

    Raises:
        OSError: if the disk refuses; the checkpoints that were there are untouched.
        TypeError: if an array holds objects, naming it.
        ValueError: if `keep` or `step` is out of range.
    """
    if keep < 1:
        raise ValueError(f'keep must be >= 1, got {keep}; nothing would be kept.')
    if step < 0:
        raise ValueError(f'step must be >= 0, got {step}.')
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / _PARTIAL
    path = folder / f'step_{step:012d}.ckpt'
    try:
        with open(partial, 'wb') as file:
            _write(file, step, arrays, metadata or {})
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync(folder)
    # What was cut short counts for nothing, and what was just written stays.
    older = [p for p in _paths(folder) if p != path and zipfile.is_zipfile(p)]
    for old in older[keep - 1 :]:
        old.unlink()
    return path


def latest(folder: str | os.PathLike) -> pathlib.Path | None:
    """Returns the newest whole checkpoint, or None; warns of each broken one."""
    for path in _paths(pathlib.Path(folder)):
        try:
            with zipfile.ZipFile(path) as archive:
                broken = archive.testzip()
                if broken is not None:
                    raise zipfile.BadZipFile(f'bad checksum of {broken}')
        except _BROKEN as error:
            _logger.warning(
                'Skipping checkpoint %s, which cannot be read (%s); trying the one '
                'before it. The file may be deleted.',
                path,
                error,
            )
            continue
        return path
    return None


def load(path: str | os.PathLike) -> Checkpoint:
    """Reads one checkpoint whole.

    Raises:
        FileNotFoundError: if there is none at `path`.
        ValueError: if it is cut short or damaged, with the remedy.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f'path must be a checkpoint, got {path}, which is no file; '
            f'checkpointing.latest({str(path.parent)!r}) finds the newest.'
        )
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read(_METADATA))
            arrays = {}
            for entry in archive.namelist():
                if entry.startswith(_ARRAYS):
                    name = entry[len(_ARRAYS) : -len('.npy')]
                    with archive.open(entry) as stream:
                        arrays[name] = np.lib.format.read_array(stream)
                        stream.read()  # The checksum is compared at the very end.
            return Checkpoint(header['step'], arrays, header['metadata'])
    except _BROKEN as error:
        raise ValueError(
            f'{path} must be a whole checkpoint, got {type(error).__name__}: {error}; '
            'delete it, and the checkpoint before it is taken.'
        ) from error


def check_fit(arrays: Mapping[str, np.ndarray], wanted: Mapping[str, Any]) -> None:
    """Refuses a checkpoint's arrays that do not fit the variables of a learner.

    Args:
        arrays: by name.
        wanted: the variables, by name.

    Raises:
        ValueError: if a name, shape or dtype does not fit, naming it.
    """
    remedy = (
        'resume with the configuration and the version of Repertory that the run was '
        'started with.'
    )
    if set(wanted) != set(arrays):
        raise ValueError(
            'the checkpoint must hold the variables of this learner, got '
            f'{sorted(set(arrays) - set(wanted))} too many and '
            f'{sorted(set(wanted) - set(arrays))} too few; {remedy}'
        )
    for name, one in wanted.items():
        value = arrays[name]
        if value.shape != one.shape or value.dtype != one.dtype:
            raise ValueError(
                f'{name} of the checkpoint must be {one.dtype.name}{list(one.shape)}, '
                f'got {value.dtype.name}{list(value.shape)}; {remedy}'
            )


class Checkpointer:
    """Writes checkpoints in a background thread, one at a time.

    A disk that refuses costs one warning for each attempt, never the run: the
    checkpoint before stays, and the next period tries again. The caller hands over
    arrays that nothing writes to any more. A context manager.

    Attributes:
        error: why the last finished write failed; None if it did not.
    """

    def __init__(
        self, folder: str | os.PathLike, period_seconds: float, keep: int = 1
    ) -> None:
        """Raises ValueError if `period_seconds` or `keep` is out of range."""
        if period_seconds <= 0:
            raise ValueError(f'period_seconds must be > 0, got {period_seconds}.')
        if keep < 1:
            raise ValueError(f'keep must be >= 1, got {keep}; nothing would be kept.')
        self.error: Exception | None = None
        self._folder = pathlib.Path(folder)
        self._period_seconds = period_seconds
        self._keep = keep
        self._executor = futures.ThreadPoolExecutor(1, 'checkpointer')
        self._pending: futures.Future | None = None
        self._last_save = time.monotonic()

    def due(self) -> bool:
        """Returns whether a period has passed and nothing is being written."""
        if self._pending is not None and not self._pending.done():
            return False
        return time.monotonic() - self._last_save >= self._period_seconds

    def save(
        self,
        step: int,
        arrays: Mapping[str, np.ndarray],
        metadata: Mapping[str, Any] | None = None,
        then: Callable[[], None] | None = None,
    ) -> None:
        """Starts to write; waits first for a write that is still going on.

        Args:
            step: see the function `save`.
            arrays: see there.
            metadata: see there.
            then: is called in the background after the write, such as to save what
                belongs to it elsewhere; it may raise OSError or RuntimeError.
        """
        self.wait()
        self._last_save = time.monotonic()
        self._pending = self._executor.submit(self._write, step, arrays, metadata, then)

    def wait(self) -> None:
        """Returns when nothing is being written; raises what no disk can cause."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Waits for the write that is going on; may be called twice."""
        try:
            self.wait()
        finally:
            self._executor.shutdown()

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, *unused) -> None:
        self.close()

    def _write(self, step, arrays, metadata, then) -> None:
        what = f'Checkpoint of step {step} was not written to {self._folder}'
        self.error = None
        try:
            save(self._folder, step, arrays, metadata, self._keep)
        except OSError as error:
            self._warn(what, error)
            return
        try:
            if then is not None:
                then()
        except (OSError, RuntimeError) as error:
            self._warn(f'What belongs to the checkpoint of step {step} failed', error)

    def _warn(self, what: str, error: Exception) -> None:
        self.error = error
        _logger.warning(
            '%s (%s); what was saved before stays, and the next is due in %g s.',
            what,
            error,
            self._period_seconds,
        )


def _write(file, step, arrays, metadata) -> None:
    with zipfile.ZipFile(file, 'w', zipfile.ZIP_STORED) as archive:
        header = {'step': int(step), 'metadata': dict(metadata)}
        archive.writestr(_METADATA, json.dumps(header))
        for name, array in arrays.items():
            array = np.asarray(array)
            if array.dtype.hasobject:
                raise TypeError(f'arrays[{name!r}] must hold numbers, got objects.')
            with archive.open(f'{_ARRAYS}{name}.npy', 'w', force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def _paths(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the checkpoints in `folder`, newest first."""
    found = []
    if folder.is_dir():
        for path in folder.iterdir():
            match = _NAME.fullmatch(path.name)
            if match:
                found.append((int(match[1]), path))
    return [path for _, path in sorted(found, reverse=True)]


def _sync(folder: pathlib.Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
