"""The process that imports what nodes need, and forks them: `forkserver.py`'s."""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from repertory.launch import entry, supervisor

# What imports TensorFlow, and what most nodes import besides.
_MODULES = ('repertory.launch.wiring', 'repertory.launch.learners', 'cloudpickle')
# Room in what /proc shows of a process, for a path and for a node's variables.
SPARE_PATH = '_' * 256
SPARE_VARIABLE = 'REPERTORY_SPARE'
SPARE_BYTES = 16_384


class _Request(NamedTuple):
    """Descriptors of a node: of its job and variables, and as `ForkServer.fork` has."""

    fields: int
    log: int
    events: int
    word: int


def main(channel: socket.socket) -> None:
    """Serves until `channel` ends; runs the job in each node."""
    inherited = set(os.environ)
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
        entry.main(_become(request, inherited))


def _serve(channel: socket.socket) -> _Request | None:
    """Returns in each node its request, and None in the server at its end."""
    while True:
        message, descriptors, *_ = socket.recv_fds(channel, 64, 4)
        if not message:
            return None
        pid = _fork_orphan()
        if pid is None:
            channel.close()
            return _Request(*descriptors)
        if not pid:  # It has died at once: the launcher sees this process end.
            return None
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(pid)


def _fork_orphan() -> bytes | None:
    """Returns the process id, in the server; None in the new process.

    The process between them has ended then, the launcher has adopted the new one, and
    that leads a session.
    """
    read, write = os.pipe()
    between = os.fork()
    if not between:
        between = os.getpid()
        if os.fork():
            os._exit(0)
        while os.getppid() == between:
            time.sleep(0.001)
        os.setsid()
        os.write(write, str(os.getpid()).encode())
        os.close(read)
        os.close(write)
        return None
    os.close(write)
    pid = os.read(read, 64)
    os.close(read)
    os.waitpid(between, 0)
    return pid


def _become(request: _Request, inherited: set[str]) -> str:
    """Makes this fork the node that is asked for, once the launcher knows it.

    Args:
        request: closed but for the events.
        inherited: names of variables that are not to stay; what imports set does.

    Returns:
        the path of its job.
    """
    if not os.read(request.word, 1):
        os._exit(1)
    os.close(request.word)
    for standard in 1, 2:
        os.dup2(request.log, standard)
    os.close(request.log)
    with open(request.fields) as file:
        fields = json.load(file)
    job, environment = fields['job'], fields['environment']
    _show(job, environment)
    for name in inherited - environment.keys():
        del os.environ[name]
    events = {supervisor.EVENTS_VARIABLE: str(request.events)}
    os.environ.update({**environment, **events})
    sys.argv = [entry.__file__, job]
    np.random.seed()  # `random` does so itself.
    tempfile.tempdir = None  # Another variable says where.
    return job


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
