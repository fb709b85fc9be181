"""SIGINT and SIGTERM, while a run is waited for."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

AT_ONCE = 'a second signal ended the run at once: what was not yet saved is lost.'


@contextlib.contextmanager
def handled(on_signal: Callable[[int], None]) -> Iterator[None]:
    """Hands signals to `on_signal`; does nothing off the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = signal.SIGINT, signal.SIGTERM
    before = {n: signal.signal(n, lambda n, frame: on_signal(n)) for n in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
