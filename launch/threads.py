"""Runs a Launchpad program in this process, one thread a node."""

from __future__ import annotations

import pathlib
import threading
import traceback
from collections.abc import Callable, Sequence

import launchpad as lp
from launchpad.launch import worker_manager

from repertory.launch import addresses, binding, quiet
from repertory.replay import ports


class _StopEvent:
    """Stands for Launchpad's worker manager, which only works in the main thread."""

    def __init__(self):
        self._event = threading.Event()

    def stop_event(self) -> threading.Event:
        return self._event

    def wait_for_stop(self, timeout_secs: float | None = None) -> bool:
        return self._event.wait(timeout_secs)


class _ThreadNode:
    """A node in a thread; it cannot be killed, only asked to stop."""

    pid: int | None = None

    def __init__(
        self,
        name: str,
        roles: Sequence[str],
        function: Callable,
        log_path: pathlib.Path,
    ):
        self.name = name
        self.roles = roles
        self._function = function
        self._log_path = log_path
        self._manager = _StopEvent()
        self._outcome: str | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        worker_manager._WORKER_MANAGERS.manager = self._manager
        outcome = ''
        try:
            with quiet.native_errors_to(self._log_path.with_name('nodes.log')):
                self._function()
        except BaseException:
            text = traceback.format_exc().strip()
            outcome = f'raised an exception.\n{text}'
            with open(self._log_path, 'a') as log:
                log.write(text + '\n')
        self._outcome = outcome

    def poll(self) -> str | None:
        return self._outcome

    def terminate(self) -> None:
        self._manager.stop_event().set()

    def kill(self) -> bool:
        return not self._thread.is_alive()


def make_nodes(
    program: lp.Program, log_dir: pathlib.Path, stop: Callable[..., None]
) -> list[binding.Node]:
    """Returns the nodes of `program`, ready to start; `stop` is what `lp.stop` calls.

    A node's log holds its exception, if there was one: output is this process's, but
    for what compiled libraries write to stderr, which `nodes.log` has.

    Raises:
        ValueError: if a node needs a process of its own.
    """
    for name, _, node in binding.named_nodes(program):
        if getattr(node, 'own_process', False):
            raise ValueError(
                f'mode must not be threads for {name}, which needs a process of its '
                'own; launch processes.'
            )
    binding.prepare(program, lp.LaunchType.LOCAL_MULTI_THREADING, stop)
    for node in program.get_all_nodes():
        ports.keep_local_soon(addresses.ports_of(node.addresses))
    return [
        _ThreadNode(
            name,
            binding.roles_of(name, node),
            node.function,
            log_dir / f'{name}.log',
        )
        for name, _, node in binding.named_nodes(program)
    ]
