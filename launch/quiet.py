"""Keeps what compiled libraries write to stderr out of the user's way."""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import TextIO


@contextlib.contextmanager
def native_errors_to(path: str | os.PathLike) -> Iterator[None]:
    """Appends to a file what libraries write to the descriptor of stderr.

    Reverb tells there of each server and checkpoint, and cannot be told not to. What
    Python writes to `sys.stderr`, warnings and logs among it, is shown as before.
    """
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    before = sys.stderr
    before.flush()
    kept = os.dup(2)
    with open(path, 'ab') as file:
        os.dup2(file.fileno(), 2)
    shown = open(kept, 'w', buffering=1, closefd=False)  # noqa: SIM115
    is_descriptor = _descriptor(before) == 2
    if is_descriptor:
        sys.stderr = shown
        _hand_over(before, shown)
    try:
        yield
    finally:
        if is_descriptor:
            sys.stderr = before
            _hand_over(shown, before)
        shown.close()
        os.dup2(kept, 2)
        os.close(kept)


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
