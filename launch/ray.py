"""Runs a Launchpad program on a Ray cluster, which places and replaces its nodes.

Data stay on Courier and Reverb, at the addresses of the machines.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import launchpad as lp
import ray
from ray.util import scheduling_strategies

from repertory.launch import addresses, binding, cluster, entry, host, placement

_POLL_SECONDS = 0.3
_KILL_SECONDS = 3.0


def make_nodes(
    program: lp.Program,
    log_dir: pathlib.Path,
    environments: Mapping[str, Mapping[str, str]],
    watcher: binding.Watcher,
    config: placement.RayConfig,
) -> list[binding.Node]:
    """Returns the nodes of `program`, placed and ready to start.

    Args:
        program: its addresses are bound to those of the machines.
        log_dir: takes a log a node, `<name>.log`.
        environments: variables for the processes of a group, by group.
        watcher: is told the nodes' news, and says what stands for each.
        config: the cluster, and what each group needs.

    Raises:
        TimeoutError: if a group cannot be placed, naming it and what it needs.
        ValueError: if this process is connected to another cluster.
    """
    binding.prepare(
        program,
        lp.LaunchType.LOCAL_MULTI_PROCESSING,
        entry.Stopper(),
        bind=lambda unused: None,
    )
    named = list(binding.named_nodes(program))
    cluster.connect(config, [group for _, group, _ in named])
    nodes: list[RayNode] = []
    for name, group, node in named:
        nodes.append(
            RayNode(
                name,
                node,
                config.of_group(group),
                log_dir / f'{name}.log',
                environments.get(group, {}),
                watcher.take_event,
                nodes,
                # The launcher reads what the coordinator writes.
                _this_machine() if group == 'coordinator' else None,
            )
        )
    _place(nodes, config.place_seconds)
    groups = [group for _, group, _ in named]
    return [watcher.keep(*each) for each in zip(groups, nodes, strict=True)]


def _this_machine() -> str:
    return ray.get_runtime_context().get_node_id()


def _place(nodes: Sequence[RayNode], seconds: float) -> None:
    end = time.monotonic() + seconds
    while unplaced := [node for node in nodes if not node.place()]:
        if time.monotonic() > end:
            wanted = ', '.join(f'{node.name} ({node.state})' for node in unplaced)
            for node in nodes:
                node.release()
            raise TimeoutError(
                f'the cluster must have room for every node, got none for {wanted} '
                f'within {seconds:g} s; `ray status` shows what there is.'
            )
        time.sleep(0.1)


class _Address(addresses.FixedAddress):
    """An address whose owner is noted when it is pickled for another node."""

    seen: set[str] = set()

    def __init__(self, address: str, owner: str):
        super().__init__(address)
        self._owner = owner

    def __reduce__(self):
        self.seen.add(self._owner)
        return addresses.FixedAddress, (self.build(),)


class RayNode:
    """A node whose process runs on some machine of the cluster; see `binding.Node`."""

    def __init__(
        self,
        name: str,
        node: Any,
        resources: Mapping[str, float],
        log_path: pathlib.Path,
        environment: Mapping[str, str],
        on_event: Callable[[dict], None],
        others: Sequence[RayNode],
        machine: str | None,
    ):
        """Asks Ray for a place; `others` are told if this node's address changes."""
        self.name = name
        self.roles = binding.roles_of(name, node)
        self.pid: int | None = None
        self._node = node
        self._resources = dict(resources)
        self._log_path = log_path
        self._environment = environment
        self._on_event = on_event
        self._others = others
        self._machine, self._pinned = machine, machine is not None
        self._ip, self._ports = '', list[int]()
        self._owners: set[str] = set()  # Of the addresses that the process was given.
        self._starting = False
        self._attempts = 0
        self._outcome: str | None = ''
        self._reason = ''
        self._asked = False
        self._killed_at = float('inf')
        self._next_poll = 0.0
        self._polling: Any = None
        self._ask_for_host()

    @property
    def state(self) -> str:
        """What it needs of a machine, and how its last host was lost, in words."""
        needs = ', '.join(
            f'{name}={value:g}' for name, value in self._resources.items()
        )
        return f'{needs}; its host {self._outcome}' if self._outcome else needs

    def _ask_for_host(self) -> None:
        strategy: Any = 'DEFAULT'
        if self._machine is not None:
            strategy = scheduling_strategies.NodeAffinitySchedulingStrategy(
                self._machine, soft=not self._pinned
            )
        rest = {k: v for k, v in self._resources.items() if k not in ('CPU', 'GPU')}
        self._host: Any = (
            ray.remote(host.Host)
            .options(
                num_cpus=self._resources['CPU'],
                num_gpus=self._resources.get('GPU', 0),
                resources=rest,
                scheduling_strategy=strategy,
                max_restarts=0,
            )
            .remote(self.name)
        )
        number = len(self._node.addresses)
        self._placing = self._host.prepare.remote(number, self._ports)

    def place(self) -> bool:
        """Returns whether it has its place, and its addresses are bound to it."""
        if self._host is None:  # It died before it answered, or was given back.
            self._ask_for_host()
        if self._placing is not None:
            found = self._answer(self._placing)
            if found is None:
                return False
            self._placing = None
            moved = (found['ip'], found['ports']) != (self._ip, self._ports)
            is_first = not self._ip
            self._ip, self._ports = found['ip'], found['ports']
            self._machine = found['machine']
            for address, port in zip(self._node.addresses, self._ports, strict=True):
                address.bind(_Address(f'{self._ip}:{port}', self.name))
            if moved and not is_first:
                for other in self._others:
                    other.follow(self.name)
        return True

    def follow(self, owner: str) -> None:
        """Has the process start again if it was told an address that has changed."""
        # A process that is about to start is told the new address anyway.
        if self._starting or self._outcome is not None:
            return
        if owner in self._owners and owner != self.name:
            self._reason = f'has to start again, since {owner} has moved.'
            if self._host is not None:
                self._host.kill.remote()

    def start(self) -> None:
        """Starts the process as soon as there is a place for it."""
        self._outcome, self._reason, self._starting = None, '', True
        self._polling, self._asked, self._killed_at = None, False, float('inf')

    def _start_process(self) -> None:
        self._starting = False
        _Address.seen.clear()
        job = entry.make_job(self._node.function, self.name)
        self._owners = set(_Address.seen)
        ips = {other._ip for other in self._others}
        is_local = all(ip.startswith('127.') for ip in ips)
        environment = {
            **entry.VARIABLES,
            'no_grpc_proxy': ','.join(sorted({'localhost', '127.0.0.1', *ips})),
            **(entry.keep_local(self._ports) if is_local else {}),
            **self._environment,
        }
        self._polling = self._host.start.remote(job, environment, self._attempts)
        self._attempts += 1

    def poll(self) -> str | None:
        if self._outcome is not None:
            return self._outcome
        if time.monotonic() > self._killed_at + _KILL_SECONDS:
            self.release()
            self._outcome = ''
        elif self._starting and self.place() and self._outcome is None:
            self._start_process()
        elif not self._starting:
            self._watch()
        return self._outcome

    def _watch(self) -> None:
        if self._polling is None:
            if time.monotonic() >= self._next_poll:
                self._polling = self._host.poll.remote()
            return
        news = self._answer(self._polling)
        if news is None:
            return
        self._polling, self._next_poll = None, time.monotonic() + _POLL_SECONDS
        self.pid = news['pid']
        if news['log']:
            with open(self._log_path, 'ab') as file:
                file.write(news['log'])
        for event in news['events']:
            self._on_event(event)
        if news['outcome'] is not None:
            self._outcome = self._reason or news['outcome']

    def _answer(self, reference: Any) -> Any:
        """Returns what the host answered; None before, and where it is gone."""
        if not ray.wait([reference], timeout=0)[0]:
            return None
        try:
            return ray.get(reference)
        except ray.exceptions.RayActorError as error:
            reason = ' '.join(str(error).split())
            self._host = self._placing = self._polling = None
            self._outcome = '' if self._asked else f'was lost: {reason}'
            return None

    def terminate(self) -> None:
        """Asks it to stop; does not wait."""
        self._asked = True
        if self._starting:
            self._outcome = ''
        elif self._host is not None:
            self._host.terminate.remote()

    def kill(self) -> bool:
        """Ends the process, and gives its place back once it is gone."""
        self._asked = True
        self._killed_at = min(self._killed_at, time.monotonic())
        if self._starting:
            self._outcome = ''
        if self._outcome is not None:
            self.release()
        elif self._host is not None:
            self._host.kill.remote()
        return True

    def release(self) -> None:
        """Gives its place back, and ends what runs there."""
        if self._host is not None:
            ray.kill(self._host)
            self._host = None
