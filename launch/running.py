"""A program that runs: its nodes are supervised, and seen through to their end."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from repertory.launch import binding, forkserver, keeping, remote, restarts, signals

COORDINATOR = 'coordinator'

_FAILURE_SECONDS = 12.0  # For the others to end, and the learner to save.
_ENDING_SECONDS = 15.0  # For the others once the coordinator has ended.
_NOTICE_SECONDS = 4.0  # From asking a node to stop to killing it.

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Result:
    """How a program ended.

    Attributes:
        exit_code: 0; 1 after a failure; 128 + the signal's number if it was stopped
            by one.
        failed_node: the first node that failed; '' if none did.
        failure: what went wrong with it, its traceback included.
    """

    exit_code: int
    failed_node: str = ''
    failure: str = ''

    def check(self) -> None:
        """Raises what went wrong, if anything did.

        Raises:
            RuntimeError: naming the node, with its traceback.
        """
        if self.failed_node:
            raise RuntimeError(f'{self.failed_node} {self.failure}')


class Run:
    """A program that runs. Its nodes are gone when `wait` returns.

    Attributes:
        log_dir: folder of the nodes' logs.
        forks: what forks its processes.
        at_once: whether a second signal ended it: what was not yet saved is lost.
        left: nodes that could not be ended, as they are threads of this process.
    """

    def __init__(
        self,
        log_dir: pathlib.Path,
        restarts: Mapping[str, restarts.RestartPolicy],
    ):
        self.log_dir = log_dir
        self.forks = forkserver.ForkServer(log_dir / 'forkserver.log')
        self._restarts = restarts
        self._nodes: list[binding.Node] = []
        self._kept: dict[str, list[keeping.KeptNode]] = {}
        self._ended: dict[str, str] = {}
        self._coordinator: remote.RemoteCoordinator | None = None
        self._lock = threading.Lock()
        self._requests: list[str] = []
        self._killed = self._forced = self._finishing = False
        self._signal = 0
        self._starting: set[str] = set()  # Roles, as the run was asked to stop.
        self.at_once = False
        self.left: list[str] = []
        self._terminate_at = self._kill_at = float('inf')
        self._failed_node = self._failure = ''
        self._over = threading.Event()
        # One thread starts the nodes and stays to their end: the kernel kills a
        # child when the thread that started it is gone.
        self._thread = threading.Thread(
            target=self._supervise, name='supervisor', daemon=True
        )

    def start(self, nodes: list[binding.Node], coordinator: Any) -> None:
        """Starts `nodes`; `coordinator` is that node of the program, or None."""
        self._nodes = nodes
        if coordinator is not None:
            self._coordinator = remote.RemoteCoordinator(coordinator)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether any node may still run."""
        return not self._over.is_set()

    @property
    def nodes(self) -> list[binding.Node]:
        """The nodes; those that ended included."""
        return list(self._nodes)

    def wait(self, timeout: float | None = None) -> Result:
        """Returns how the program ended, once all its nodes are gone.

        In the main thread, Ctrl-C and SIGTERM meanwhile stop the program cleanly, and
        at once when they come again.

        Raises:
            TimeoutError: if it still runs after `timeout` seconds.
        """
        with signals.handled(self._take_signal):
            if not self._over.wait(timeout):
                running = [n.name for n in self._nodes if n.name not in self._ended]
                raise TimeoutError(
                    f'{", ".join(running)} still run after {timeout:g} s; '
                    'call stop() or kill() to end them.'
                )
        code = 1 if self._failed_node else 128 + self._signal if self._signal else 0
        return Result(code, self._failed_node, self._failure)

    def stop(self, reason: str = 'stop was called') -> None:
        """Asks for a clean stop, with a checkpoint; returns at once."""
        with self._lock:
            self._requests.append(reason)

    def kill(self) -> None:
        """Ends all nodes without ado; returns at once."""
        self._forced = self._killed = True

    def take_event(self, event: dict) -> None:
        """Takes a node's news."""
        if 'stop' in event:
            self.stop(event['stop'])
        self._finishing = self._finishing or 'over' in event

    def keep(self, group: str, node: binding.Node) -> binding.Node:
        """Returns what stands for `node`: itself, or what starts it again."""
        if group not in self._restarts:
            return node
        policy, others = self._restarts[group], self._kept.setdefault(group, [])
        return keeping.KeptNode(
            node, policy, self.is_over, self.report, others=others, ends=self.ends
        )

    def is_over(self) -> bool:
        """Whether what fails now is not to be started again."""
        return self._finishing or self._forced or COORDINATOR in self._ended

    def ends(self) -> bool:
        """Whether the coordinator says that the program ends."""
        status = self._call('status')
        return bool(status) and status['phase'] != 'run'

    def report(self, name: str, outcome: str, consequence: str) -> None:
        """Tells the user of a failure that need not end the program."""
        text = f'{name} {outcome}\n{name} {consequence}.'
        _logger.info('%s', text)
        print(text, file=sys.stderr, flush=True)

    def _take_signal(self, number: int) -> None:
        if self._signal:
            self.at_once = True
            self.kill()
        self._signal = self._signal or number
        self.stop(f'interrupted by {signal.Signals(number).name}')

    # The supervising thread.

    def _supervise(self) -> None:
        try:
            for node in self._nodes:
                if self._killed:
                    self._ended[node.name] = ''
                else:
                    node.start()
            while len(self._ended) < len(self._nodes):
                self._look_at_nodes()
                self._obey_requests()
                self._end_the_late()
                time.sleep(0.05)
        except Exception as error:  # Nobody would see it in this thread.
            _logger.exception('The supervisor failed.')
            self._failed_node = self._failed_node or 'supervisor'
            self._failure = self._failure or repr(error)
        finally:
            for node in self._nodes:
                node.kill()
            self.forks.close()
            self._over.set()

    def _look_at_nodes(self) -> None:
        for node in self._nodes:
            if node.name in self._ended:
                continue
            outcome = node.poll()
            if outcome is None:
                continue
            self._ended[node.name] = outcome
            if outcome and not self._forced and not self._failed_node:
                self._failed_node, self._failure = node.name, outcome
                self._stop_after_failure(node, outcome)
            if node.name == COORDINATOR:
                # The others end by themselves, but for who knows no coordinator.
                for other in self._nodes:
                    # Who has not begun has nothing to close, and may wait long for
                    # others that have gone.
                    begins = other.roles and self._starting.issuperset(other.roles)
                    if not (begins and other.kill()):
                        other.terminate()
                hurry = outcome or self._signal
                self._give(_NOTICE_SECONDS if hurry else _ENDING_SECONDS)

    def _stop_after_failure(self, node: binding.Node, outcome: str) -> None:
        headline = outcome.splitlines()[0]
        answers = [self._call('lose', role, headline) for role in node.roles]
        patience = _FAILURE_SECONDS if all(answers) else 0.0
        self._terminate_at = time.monotonic() + patience

    def _obey_requests(self) -> None:
        with self._lock:
            requests, self._requests = self._requests, []
        if requests and self._terminate_at == float('inf'):
            status = self._call('status')
            self._starting = set(status['starting']) if status else set()
            if not (status and self._call('request_stop', requests[0])):
                self._terminate_at = time.monotonic()

    def _call(self, method: str, *arguments: str) -> Any:
        """Returns what `RemoteCoordinator.ask` does; False if there is none."""
        asked = None if COORDINATOR in self._ended else self._coordinator
        return asked is not None and asked.ask(method, *arguments)

    def _give(self, seconds: float) -> None:
        self._kill_at = min(self._kill_at, time.monotonic() + seconds)

    def _end_the_late(self) -> None:
        now = time.monotonic()
        if now >= self._terminate_at:
            self._terminate_at = float('inf')
            self._forced = True  # What now fails does so because of us.
            for node in self._nodes:
                node.terminate()
            self._give(_NOTICE_SECONDS)
        if now >= self._kill_at or self._killed:
            self._kill_at, self._killed = float('inf'), False
            late = [node for node in self._nodes if node.name not in self._ended]
            if names := ', '.join(node.name for node in late):
                _logger.warning('%s did not stop when asked to.', names)
            for node in late:
                if not node.kill():
                    self._ended[node.name] = 'did not stop.'
                    self.left.append(node.name)
                    if self.at_once:  # It had no time to.
                        continue
                    self._failed_node = self._failed_node or node.name
                    self._failure = self._failure or 'is a thread that did not stop.'
