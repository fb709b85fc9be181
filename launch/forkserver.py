"""Forks nodes from one process that has imported what they need.

TensorFlow's import takes seconds of a core in each process; here it is paid once. The
server is a fresh interpreter of one thread, which has imported TensorFlow and never
called it: no lock is held, and no thread is lost, where it forks. Where that cannot be
had, nodes start as fresh interpreters.

Nothing here imports TensorFlow, Launchpad or Ray.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import pathlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from repertory.launch import entry, forking, supervisor

_START_SECONDS = 120.0
_FORK_SECONDS = 10.0
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37

_logger = logging.getLogger(__name__)
_adoption = threading.Lock()


class ForkServer:
    """Starts nodes as forks of a server, which starts with the first of them.

    The kernel kills the server when the thread that first called `fork` ends. The nodes
    are children of this process, and outlive the server.
    """

    def __init__(self, log_path: pathlib.Path):
        """Does not start it yet; what it says is appended to `log_path`."""
        self._log_path = log_path
        self._process: subprocess.Popen | None = None
        self._channel: socket.socket | None = None
        self._failed = False

    def start(self) -> None:
        """Starts the server, which then imports; returns at once."""
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(_START_SECONDS)
        with theirs, open(self._log_path, 'ab') as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, '-m', 'repertory.launch.forking'),
                    *(str(theirs.fileno()), forking.SPARE_PATH),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
                env={
                    **os.environ,
                    **entry.VARIABLES,
                    'OMP_NUM_THREADS': '1',  # NumPy's import starts as many.
                    supervisor.PARENT_VARIABLE: str(os.getpid()),
                    forking.SPARE_VARIABLE: '_' * forking.SPARE_BYTES,
                },
            )

    def fork(
        self, job: pathlib.Path, log: int, events: int, environment: Mapping[str, str]
    ) -> ForkedProcess | None:
        """Starts a node; returns None where it cannot be forked.

        Waits for the server to have imported.

        Args:
            job: a file of what `entry.make_job` returned.
            log: descriptor that it writes to.
            events: descriptor that it sends its events to.
            environment: all variables of the node.
        """
        if self._failed:
            return None
        if self._channel is None:
            self.start()
        assert self._channel is not None
        request = json.dumps({'job': str(job), 'environment': dict(environment)})
        # The node waits for a word in this pipe: one of which nothing was heard ends.
        told, tell = os.pipe()
        try:
            if self._channel.gettimeout() == _START_SECONDS:
                self._receive()
                self._channel.settimeout(_FORK_SECONDS)
            with _adopting():
                given = [log, events, told]
                socket.send_fds(self._channel, [request.encode()], given)
                pid = int(self._receive())
            if not pid:
                return None
            os.write(tell, b'!')
            return ForkedProcess(pid)
        except OSError as error:
            _logger.warning(
                'Nodes start as fresh interpreters, as none can be forked: %s; see %s.',
                error,
                self._log_path,
            )
            self._failed = True
            self.close()
            return None
        finally:
            os.close(told)
            os.close(tell)

    def close(self) -> None:
        """Ends the server, not the nodes; may be called twice."""
        if self._process is None or self._channel is None:
            return
        self._channel.close()
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            if not self._log_path.stat().st_size:
                self._log_path.unlink()

    def _receive(self) -> bytes:
        assert self._channel is not None
        if answer := self._channel.recv(64):
            return answer
        raise ConnectionError('the server has ended')


class ForkedProcess(NamedTuple):
    """A child process by its id, with what is used of `subprocess.Popen`."""

    pid: int

    def wait(self) -> int:
        """Returns its exit code; less than 0 if a signal ended it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Makes orphans of this process' children its own children meanwhile."""
    with _adoption:
        before = ctypes.c_int()
        _control_process(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
        _control_process(_PR_SET_CHILD_SUBREAPER, 1)
        try:
            yield
        finally:
            _control_process(_PR_SET_CHILD_SUBREAPER, before.value)


def _control_process(option: int, argument: Any) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, argument):
        raise OSError(ctypes.get_errno(), 'orphans cannot be adopted')
