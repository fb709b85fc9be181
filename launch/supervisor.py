"""One child process: started, watched, and ended with all that it started.

Nothing here imports TensorFlow, Launchpad or Ray.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from repertory.launch import forkserver

_TAIL_BYTES = 4000
_TRACEBACK_SECONDS = 0.1

PARENT_VARIABLE = 'REPERTORY_PARENT_PID'
EVENTS_VARIABLE = 'REPERTORY_EVENTS_FD'
ATTEMPT_VARIABLE = 'REPERTORY_ATTEMPT'
NODE_VARIABLE = 'REPERTORY_NODE_ID'
TRACEBACK_SIGNAL = signal.SIGUSR2


class ChildProcess:
    """A process in a session of its own, running one pickled function.

    The kernel kills a fresh interpreter when the thread that called `start` ends, which
    must outlive it, and a fork when the main thread does. What it says goes to
    `log_path`; news comes through a pipe.
    """

    def __init__(
        self,
        name: str,
        roles: Sequence[str],
        job: bytes,
        log_path: pathlib.Path,
        environment: Mapping[str, str],
        on_event: Callable[[dict[str, Any]], None],
        forks: forkserver.ForkServer | None = None,
    ):
        """Does not start it yet.

        Args:
            name: for messages.
            roles: what the coordinator knows of it.
            job: what `entry.make_job` returned.
            log_path: where stdout and stderr are appended.
            environment: variables set beside those of this process.
            on_event: takes what the child sends by `entry.send_event`.
            forks: what forks it, once that is ready; None for a fresh interpreter.
        """
        self.name = name
        self.roles = roles
        self._job = job
        self._log_path = log_path
        self._environment = environment
        self._on_event = on_event
        self._forks = forks
        self._id = uuid.uuid4().hex  # By which all that it starts is found again.
        self.attempts = 0  # Starts before the next.
        self._log_start = 0
        self._process: subprocess.Popen | forkserver.ForkedProcess | None = None
        self._folder: tempfile.TemporaryDirectory | None = None
        self._events = -1
        self._partial = b''
        self._error = ''
        self._asked: set[int] = set()
        self._outcome: str | None = None
        self._waits = False  # For what forks it.

    def start(self) -> None:
        """Starts the process, or starts it again once `poll` has said that it ended.

        One that is forked may start later, by `poll`.
        """
        self._partial, self._error, self._outcome = b'', '', None
        self._asked = set()
        self._waits = self._forks is not None and not self._forks.is_ready()
        if not self._waits:
            self._start()

    def _start(self) -> None:
        # Also for its temporary files: it may be killed, and TensorFlow leaves some.
        self._folder = tempfile.TemporaryDirectory(
            prefix='repertory_', ignore_cleanup_errors=True
        )
        job_path = pathlib.Path(self._folder.name) / f'{self.name}.job'
        job_path.write_bytes(self._job)
        self._events, child_end = os.pipe()
        os.set_blocking(self._events, False)
        environment = {
            **os.environ,
            'TMPDIR': self._folder.name,
            **self._environment,
            PARENT_VARIABLE: str(os.getpid()),
            EVENTS_VARIABLE: str(child_end),
            ATTEMPT_VARIABLE: str(self.attempts),
            NODE_VARIABLE: self._id,
        }
        try:
            with open(self._log_path, 'ab') as log:
                self._log_start = log.tell()
                forked = self._forks and self._forks.fork(
                    job_path, log.fileno(), child_end, environment
                )
                self._process = forked or subprocess.Popen(
                    [sys.executable, '-m', 'repertory.launch.entry', job_path],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(child_end,),
                    env=environment,
                )
        finally:
            os.close(child_end)
            self.attempts += 1

    @property
    def pid(self) -> int | None:
        """The process id, once started."""
        return None if self._process is None else self._process.pid

    def poll(self) -> str | None:
        """Returns None while it runs, '' once it ended well, else what went wrong."""
        if self._waits and self._forks is not None and self._forks.is_ready():
            self._waits = False
            self._start()
        if self._outcome is not None or self._process is None:
            return self._outcome
        self._read_events()
        pid = self._process.pid
        # Looked at but not reaped yet, so that its id still names its own group.
        if not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return None
        self._read_events()
        self._signal_group(signal.SIGKILL)
        self._kill_strays()
        code = self._process.wait()
        os.close(self._events)
        assert self._folder is not None
        self._folder.cleanup()
        if code == 0 or -code in self._asked:
            self._outcome = ''
        elif code < 0:
            name = signal.Signals(-code).name
            self._outcome = f'was killed by signal {-code} ({name}).\n{self.tail()}'
        else:
            text = self._error or self.tail()
            self._outcome = f'ended with exit code {code}.\n{text}'
        return self._outcome

    def terminate(self) -> None:
        """Asks it to stop: `lp.wait_for_stop` returns in it."""
        process = self._process_or_never()
        if process is not None and self._outcome is None:
            self._asked.add(signal.SIGTERM)
            # Not Popen's own, which may reap the process.
            os.kill(process.pid, signal.SIGTERM)

    def kill(self) -> bool:
        """Ends it and its group; returns True, as nothing can resist.

        If it was asked to stop before, its log says first where its threads are.
        """
        process = self._process_or_never()
        if process is not None and self._asked and self._outcome is None:
            os.kill(process.pid, TRACEBACK_SIGNAL)
            time.sleep(_TRACEBACK_SECONDS)
        self._asked |= {signal.SIGKILL, TRACEBACK_SIGNAL}
        self._signal_group(signal.SIGKILL)
        return True

    def tail(self) -> str:
        """Returns the end of its log, as of the last start."""
        try:
            with open(self._log_path, 'rb') as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start, end - 4 * _TAIL_BYTES))
                lines = log.read().decode(errors='replace').splitlines()
        except OSError as error:
            return f'(its log cannot be read: {error})'
        # Longer than all that faulthandler says besides.
        kept = [line for line in lines if not line.startswith('Extension modules:')]
        return '\n'.join(kept).strip()[-_TAIL_BYTES:]

    def _process_or_never(self) -> subprocess.Popen | forkserver.ForkedProcess | None:
        """Returns the process; without one, sees to it that there never is one."""
        if self._process is None:
            self._outcome, self._waits = '', False
        return self._process

    def _read_events(self) -> None:
        while True:
            try:
                data = os.read(self._events, 65536)
            except BlockingIOError:
                break
            if not data:
                break
            *lines, self._partial = (self._partial + data).split(b'\n')
            for line in lines:
                event = json.loads(line)
                self._error = event.get('error', self._error)
                self._on_event(event)

    def _kill_strays(self) -> None:
        """Kills what it started in other groups: they have its variables."""
        mark = f'{NODE_VARIABLE}={self._id}'.encode()
        for path in pathlib.Path('/proc').glob('[0-9]*/environ'):
            try:
                if mark in path.read_bytes().split(b'\0'):
                    os.kill(int(path.parent.name), signal.SIGKILL)
            except (OSError, ValueError):
                continue  # It has ended, or is another user's.

    def _signal_group(self, number: int) -> None:
        if self._process is not None and self._outcome is None:
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                pass  # Nobody is left in it.
