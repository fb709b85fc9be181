"""The process that imports what nodes need, and forks them: `forkserver.py`'s."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import pathlib
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import NamedTuple

from repertory.launch import entry, supervisor

# What imports TensorFlow, and what most nodes import besides.
_MODULES = ('repertory.launch.wiring', 'repertory.launch.learners', 'cloudpickle')
# Room in what /proc shows of a process, for a path and for a node's variables.
SPARE_PATH = '_' * 256
SPARE_VARIABLE = 'REPERTORY_SPARE'
SPARE_BYTES = 16_384

_logger = logging.getLogger(__name__)


class _Request(NamedTuple):
    job: str
    environment: dict[str, str]
    log: int
    events: int
    told: int


def main(channel: socket.socket) -> None:
    """Serves until `channel` ends; runs the job in each node."""
    entry.die_with_parent()
    entry.configure_logging()
    entry.import_for_good(*_MODULES)
    if (threads := len(os.listdir('/proc/self/task'))) > 1:
        raise RuntimeError(
            f'the fork server must have 1 thread, got {threads}: an imported module '
            'starts them.'
        )
    channel.send(b'ready')
    request = _serve(channel)
    if request is not None:
        _become(request)
        entry.main(request.job)


def _serve(channel: socket.socket) -> _Request | None:
    """Returns in each node its request, and None in the server at its end."""
    while True:
        message, descriptors, *_ = socket.recv_fds(channel, 2**20, 3)
        if not message:
            return None
        told = json.loads(message)
        request = _Request(told['job'], told['environment'], *descriptors)
        pid = _fork_orphan()
        if pid is None:
            channel.close()
            return request
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(pid)


def _fork_orphan() -> bytes | None:
    """Returns the process id, in the server; None in the new process.

    The process between them has ended then: the launcher has adopted the new one.
    """
    read, write = os.pipe()
    between = os.fork()
    if not between:
        _fork_and_end(write)
        os.close(read)
        os.close(write)
        return None
    os.close(write)
    pid = os.read(read, 64)
    os.close(read)
    os.waitpid(between, 0)
    return pid or b'0'


def _fork_and_end(write: int) -> None:
    """Returns in a new process, whose parent has written its id and ended."""
    between = os.getpid()
    try:
        pid = os.fork()
        if pid:
            os.write(write, str(pid).encode())
    except OSError as error:  # There are too many processes.
        _logger.warning('%s', error)
        pid = between
    if pid:
        os._exit(0)
    while os.getppid() == between:
        time.sleep(0.001)


def _become(request: _Request) -> None:
    """Makes this fork what a fresh interpreter would be, once the launcher knows it."""
    if not os.read(request.told, 1):
        os._exit(1)
    os.close(request.told)
    os.setsid()
    for standard in 1, 2:
        os.dup2(request.log, standard)
    os.close(request.log)
    events = {supervisor.EVENTS_VARIABLE: str(request.events)}
    _show(request.job, request.environment)
    os.environ.clear()
    os.environ.update({**request.environment, **events})
    import numpy as np

    np.random.seed()  # `random` does so itself.
    tempfile.tempdir = None  # Another variable says where.


def _show(job: str, environment: Mapping[str, str]) -> None:
    """Has /proc show the node's job and variables, by which it and its own are found.

    They take the room that was spared for them: the rest may still be read.
    """
    name = supervisor.NODE_VARIABLE
    own = {name: environment[name], **environment}
    variables = '\0'.join(
        f'{name}={value}'
        for name, value in own.items()
        if os.environ.get(name) != value
    )
    # Fields 48 to 51, of which the second may have blanks.
    fields = pathlib.Path('/proc/self/stat').read_text().rpartition(')')[2].split()
    arguments, arguments_end, strings, strings_end = map(int, fields[45:49])
    _write_over(SPARE_PATH, job, arguments, arguments_end)
    spare = f'{SPARE_VARIABLE}={os.environ[SPARE_VARIABLE]}'
    _write_over(spare, variables, strings, strings_end)


def _write_over(old: str, new: str, begin: int, end: int) -> None:
    """Writes `new`, as far as it has room, where `old` is in this memory."""
    memory, room = ctypes.string_at(begin, end - begin), len(os.fsencode(old))
    offset = memory.find(os.fsencode(old))
    if offset >= 0:
        ctypes.memmove(begin + offset, os.fsencode(new)[:room].ljust(room, b'\0'), room)


if __name__ == '__main__':
    main(socket.socket(fileno=int(sys.argv[1])))
