"""What Launchpad does to a program before it starts its nodes, and what we start."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import launchpad as lp

from repertory.launch import addresses


class Node(Protocol):
    """A started node of a program, as a process or as a thread."""

    name: str
    roles: Sequence[str]  # As the coordinator knows them.

    @property
    def pid(self) -> int | None:
        """Of the process, if it is one that was started."""

    def start(self) -> None: ...

    def poll(self) -> str | None:
        """Returns None while it runs, '' once it ended well, else what went wrong."""

    def terminate(self) -> None:
        """Asks it to stop; does not wait."""

    def kill(self) -> bool:
        """Ends it if that can be done; returns whether it could."""


class Watcher(Protocol):
    """Who is told of the nodes, and says what becomes of them: a `running.Run`."""

    def take_event(self, event: dict) -> None:
        """Takes a node's news."""

    def keep(self, group: str, node: Node) -> Node:
        """Returns what stands for a node of a group."""


def named_nodes(program: lp.Program) -> Iterator[tuple[str, str, Any]]:
    """Yields name, group and node: a name is the node's `role`, or group and index."""
    for group, nodes in program.groups.items():
        for index, node in enumerate(nodes):
            yield getattr(node, 'role', f'{group}_{index}'), group, node


def roles_of(name: str, node: Any) -> Sequence[str]:
    """Returns what the coordinator is to know of `node`: its `roles`, or its name."""
    return getattr(node, 'roles', [name])


def prepare(
    program: lp.Program,
    launch_type: lp.LaunchType,
    stopper: Callable[..., None],
    bind: Callable[[list[lp.Address]], None] = addresses.bind_local,
) -> None:
    """Does what `lp.launch` does before it starts anything, with our own stopper."""
    for _, _, node in named_nodes(program):
        node.launch_context.initialize(launch_type, None, stopper)
    for _, group, node in named_nodes(program):
        for handle in node.input_handles:
            handle.connect(node, group)
    for node in program.get_all_nodes():
        bind(node.addresses)


def bypass_proxy() -> None:
    """Keeps gRPC from sending calls within this machine through a proxy."""
    if any(name in os.environ for name in ('http_proxy', 'https_proxy', 'grpc_proxy')):
        hosts = os.environ.get('no_grpc_proxy', os.environ.get('no_proxy', ''))
        names = [*filter(None, hosts.split(',')), 'localhost', '127.0.0.1', '::1']
        os.environ['no_grpc_proxy'] = ','.join(dict.fromkeys(names))
