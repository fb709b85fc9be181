"""Keeps what compiled libraries write to stderr out of the user's way."""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

_lock = threading.Lock()
_users = 0
_redirection: _Redirection | None = None


@contextlib.contextmanager
def native_errors_to(path: str | os.PathLike) -> Iterator[None]:
    """Appends to a file what libraries write to the descriptor of stderr.

    Reverb tells there of each server and checkpoint, and cannot be told not to. What
    Python writes to `sys.stderr`, warnings and logs among it, is shown as before.

    It is of the whole process: threads may overlap, and until the last is out the
    first one's file has it all.
    """
    global _users, _redirection
    with _lock:
        if not _users:
            _redirection = _Redirection(pathlib.Path(path))
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                assert _redirection is not None
                _redirection.end()


class _Redirection:
    """What the descriptor of stderr was, and now is."""

    def __init__(self, path: pathlib.Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._before = sys.stderr
        self._before.flush()
        self._kept = os.dup(2)
        with open(path, 'ab') as file:
            os.dup2(file.fileno(), 2)
        self._shown = open(self._kept, 'w', buffering=1, closefd=False)  # noqa: SIM115
        self._is_descriptor = _descriptor(self._before) == 2
        if self._is_descriptor:
            sys.stderr = self._shown
            _hand_over(self._before, self._shown)

    def end(self) -> None:
        os.dup2(self._kept, 2)
        if self._is_descriptor:
            _hand_over(self._shown, self._before)
            if sys.stderr is not self._shown:
                # A table on the screen shows lines above it, and puts back what it
                # found when it ends: that has to stay open.
                return
            sys.stderr = self._before
        self._shown.close()
        os.close(self._kept)


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):  # As a notebook's.
        return None


def _hand_over(old: TextIO, new: TextIO) -> None:
    """Has all log handlers of the stream `old` write to `new`."""
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    for logger in loggers:
        for handler in getattr(logger, 'handlers', []):
            if getattr(handler, 'stream', None) is old:
                handler.setStream(new)
