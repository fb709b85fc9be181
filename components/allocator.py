"""Which allocator processes start with: jemalloc, where there is one.

Tensors are made in one thread and freed in another. glibc's arenas have a lock each,
for which such threads wait: a quarter of a sampler's time, on small items. The loader
reads the variable as a process starts; later it is no use. Nothing here imports
TensorFlow, or the package whose library it takes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

VARIABLE = 'LD_PRELOAD'
_TRIAL_SECONDS = 2.0
# As Linux distributions name it, and where; their tools to ask take 30 ms.
_NAME = 'libjemalloc.so.2'
_FOLDERS = (
    '/usr/local/lib',
    f'/usr/lib/{os.uname().machine}-linux-gnu',
    '/usr/lib64',
    '/usr/lib',
)


def variables() -> dict[str, str]:
    """Returns what a process of this machine is to start with.

    What the user has set stays, also where it is empty.
    """
    if VARIABLE in os.environ:
        return {}
    path = find()
    return {} if path is None else {VARIABLE: path}


def is_one(preloaded: str) -> bool:
    """Returns whether a value of the variable seems to name an allocator."""
    return 'malloc' in preloaded


def find() -> str | None:
    """Returns the path of a jemalloc with which Python starts here, if there is one.

    The system's comes before the one in Ray's wheel, which is there to be preloaded.
    """
    if sys.platform != 'linux':
        return None
    return next(filter(_works, _candidates()), None)


def _candidates() -> Iterator[str]:
    for folder in _FOLDERS:
        yield f'{folder}/{_NAME}'
    ray = None
    with contextlib.suppress(ValueError):  # Of a module that somebody made up.
        ray = importlib.util.find_spec('ray')  # Does not import it.
    if ray is not None and ray.origin is not None:
        yield str(pathlib.Path(ray.origin).absolute().parent / 'core/libjemalloc.so')


def _works(path: str) -> bool:
    """Returns whether the loader takes the file without a word; in some 3 ms.

    One of another machine, or half a one, would be an error in every log, and one that
    lacks a library or a newer glibc would keep all processes from starting.
    """
    # The loader parts its list at the first two, and reads names after the third.
    if set(' :$') & set(path) or not os.path.isfile(path):
        return False
    try:
        done = subprocess.run(
            [sys.executable, '-V'],  # Ends before the interpreter begins.
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, VARIABLE: path},
            timeout=_TRIAL_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return not done.returncode and not done.stderr
