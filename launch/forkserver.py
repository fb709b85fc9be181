"""Forks nodes from one process that has imported what they need.

TensorFlow's import takes seconds of a core in each process; here it is paid once. The
server is a fresh interpreter of one thread, which has imported TensorFlow and never
called it: no lock is held, and no thread is lost, where it forks. Where that cannot be
had, nodes start as fresh interpreters.

Nothing here imports TensorFlow, Launchpad or Ray.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import json
import logging
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from repertory.launch import entry, forking, supervisor

# Variables that are read as a process starts or as modules are imported.
_EARLY = (
    *('LD_', 'GLIBC_', 'MALLOC_', 'PYTHON'),
    *('OPENBLAS_', 'GOTO_', 'MKL_', 'OMP_', 'KMP_'),
    *('TF_', 'XLA_', 'GRPC_'),
)
# But for these: in a fork NumPy has one thread, and TensorFlow makes its own later.
_LATE = ('OMP_NUM_THREADS', 'TF_NUM_INTRAOP_THREADS', 'TF_NUM_INTEROP_THREADS')
# NumPy starts as many threads when it is imported, and none later.
_THREAD_VARIABLES = ('OPENBLAS_NUM_THREADS', 'GOTO_NUM_THREADS', 'OMP_NUM_THREADS')
_START_SECONDS = 120.0
_FORK_SECONDS = 10.0
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37

_logger = logging.getLogger(__name__)
_adoption = threading.Lock()


def early(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns those that would not work if they were set in a fork, after imports."""
    return {
        name: value
        for name, value in variables.items()
        if name not in _LATE and name.startswith(_EARLY)
    }


def most_wanted(groups: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Returns what a server starts with, that it forks the most of these nodes.

    Args:
        groups: the variables of each node.
    """
    wanted = collections.Counter(
        frozenset(early(variables).items())
        for variables in groups
        # A server of several threads could not fork.
        if not early(variables).keys() & {*_THREAD_VARIABLES}
    )
    return dict(wanted.most_common(1)[0][0]) if wanted else {}


class ForkServer:
    """Starts nodes as forks of a server, which starts with the first of them.

    The kernel kills the server when the thread that started it ends. The nodes outlive
    it: they are children of this process, and die with its main thread.

    Attributes:
        variables: what it starts with, beside the environment of this process.
    """

    def __init__(self, log_path: pathlib.Path):
        """Does not start it yet; what it says is appended to `log_path`."""
        self.variables: dict[str, str] = {}
        self._log_path = log_path
        self._process: subprocess.Popen | None = None
        self._channel: socket.socket | None = None
        self._ready = self._failed = False
        self._ready_by = 0.0

    def is_ready(self) -> bool:
        """Returns whether `fork` can be called; at once.

        The first call starts the server, which is ready when it has imported.
        """
        if self._ready or self._failed:
            return True
        try:
            if self._process is None:
                self._start()
            self._ready = bool(self._receive())
        except BlockingIOError:
            if time.monotonic() > self._ready_by:
                self._fail(f'it has not imported within {_START_SECONDS:.0f} s')
        except OSError as error:
            self._fail(error)
        return self._ready or self._failed

    def fork(
        self, job: pathlib.Path, log: int, events: int, environment: Mapping[str, str]
    ) -> ForkedProcess | None:
        """Starts a node, in a session of its own; returns None where that fails.

        Args:
            job: a file of what `entry.make_job` returned.
            log: descriptor that it writes to.
            events: descriptor that it sends its events to.
            environment: all variables of the node.
        """
        if self._failed or not self._ready:
            return None
        assert self._channel is not None
        # The node waits for a word in this pipe: one of which nothing was heard ends.
        word, say = os.pipe()
        try:
            self._channel.settimeout(_FORK_SECONDS)
            # In a file, for a message has a limit.
            with tempfile.TemporaryFile('w+') as fields, _adopting():
                json.dump({'job': str(job), 'environment': dict(environment)}, fields)
                fields.seek(0)
                descriptors = [fields.fileno(), log, events, word]
                socket.send_fds(self._channel, [b'fork'], descriptors)
                pid = int(self._receive())
            # Raises where it is not our child, whatever the kernel was asked for.
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            os.write(say, b'!')
            return ForkedProcess(pid)
        except ConnectionError:
            self._fail('it has ended')
        except TimeoutError:
            self._fail(f'it has not forked within {_FORK_SECONDS:.0f} s')
        except OSError as error:
            self._fail(error)
        finally:
            os.close(word)
            os.close(say)
        return None

    def close(self) -> None:
        """Ends the server, not the nodes; may be called twice."""
        if self._channel is not None:
            self._channel.close()
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        if not self._failed:
            with contextlib.suppress(OSError):
                if not self._log_path.stat().st_size:
                    self._log_path.unlink()

    def _start(self) -> None:
        self._ready_by = time.monotonic() + _START_SECONDS
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.setblocking(False)
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
                    **self.variables,
                    **dict.fromkeys(_THREAD_VARIABLES, '1'),
                    supervisor.PARENT_VARIABLE: str(os.getpid()),
                    forking.SPARE_VARIABLE: '_' * forking.SPARE_BYTES,
                },
            )

    def _receive(self) -> bytes:
        assert self._channel is not None
        if answer := self._channel.recv(64):
            return answer
        raise ConnectionResetError('it has ended')

    def _fail(self, reason: object) -> None:
        _logger.warning(
            'Nodes start as fresh interpreters, as the server cannot fork them: %s; '
            'what it said is in %s.',
            reason,
            self._log_path,
        )
        self._failed = True
        self.close()


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
        entry.control_process(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
        entry.control_process(_PR_SET_CHILD_SUBREAPER, 1)
        try:
            yield
        finally:
            entry.control_process(_PR_SET_CHILD_SUBREAPER, before.value)
