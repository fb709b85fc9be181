"""The Ray actor that runs one node's process on the machine where Ray placed it.

The process is not Ray's worker itself: it keeps its port over restarts, its exceptions
and signals are seen, and Launchpad finds the main thread that it needs.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import ray

from repertory.components import allocator
from repertory.launch import addresses, supervisor

# Less than Ray takes to give up a machine that it does not hear from: of two replays,
# or two writers of checkpoints, the older is gone when the newer starts.
_LEASE_SECONDS = 45.0


class Host:
    """Starts, watches and ends one process; it dies with this actor."""

    def __init__(self, name: str):
        """Begins the lease; `name` is the node's."""
        os.environ.pop('OMP_NUM_THREADS', None)  # Ray sets it to its CPUs.
        self._name = name
        # Without a name: nobody removes a file of a worker that is killed.
        self._log = tempfile.TemporaryFile()
        self._events: list[dict] = []
        self._child: supervisor.ChildProcess | None = None
        self._heard = time.monotonic()
        threading.Thread(target=self._expire, daemon=True).start()

    def prepare(self, number: int, wanted: Sequence[int]) -> dict[str, Any]:
        """Returns this machine's `ip` and `machine`, and `ports`: `wanted` if free."""
        ports = [port for port in wanted if addresses.is_free(port)]
        ports += [addresses.free_port() for _ in range(number - len(ports))]
        return {
            'ip': ray.util.get_node_ip_address(),
            'machine': ray.get_runtime_context().get_node_id(),
            'ports': ports,
        }

    def start(
        self, job: bytes, environment: Mapping[str, str], attempt: int
    ) -> dict[str, Any]:
        """Starts the process, here or elsewhere for the `attempt` + 1st time; polls."""
        self._heard = time.monotonic()
        # A new one: a restarted process may be told other hosts than before.
        self._child = supervisor.ChildProcess(
            self._name,
            [self._name],
            job,
            pathlib.Path(f'/proc/{os.getpid()}/fd/{self._log.fileno()}'),
            # The launcher's machine may have another one, elsewhere.
            {**allocator.variables(), **environment},
            self._events.append,
        )
        self._child.attempts = attempt
        self._child.start()
        return self.poll()

    def poll(self) -> dict[str, Any]:
        """Returns `pid`, `outcome` as of `binding.Node`, and new `events` and `log`."""
        self._heard = time.monotonic()
        outcome = None if self._child is None else self._child.poll()
        events = self._events.copy()
        del self._events[: len(events)]
        pid = None if self._child is None else self._child.pid
        return {
            'outcome': outcome,
            'pid': pid,
            'events': events,
            'log': self._log.read(),
        }

    def terminate(self) -> None:
        """Asks the process to stop."""
        if self._child is not None:
            self._child.terminate()

    def kill(self) -> None:
        """Ends the process."""
        if self._child is not None:
            self._child.kill()

    def _expire(self) -> None:
        # Without a process there is nothing to end, and others may still be placed.
        while self._child is None or time.monotonic() - self._heard < _LEASE_SECONDS:
            time.sleep(1.0)
        self.kill()
        os._exit(1)
