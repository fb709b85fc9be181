"""Runs a Launchpad program on this machine, one process a node."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import launchpad as lp

from repertory.components import allocator
from repertory.launch import addresses, binding, entry, forkserver, supervisor


def make_nodes(
    program: lp.Program,
    log_dir: pathlib.Path,
    environments: Mapping[str, Mapping[str, str]],
    watcher: binding.Watcher,
    forks: forkserver.ForkServer,
) -> list[binding.Node]:
    """Returns the nodes of `program`, ready to start.

    Args:
        program: its addresses are bound to free ports of this machine, which what
            other machines send does not reach.
        log_dir: takes a log a node, `<name>.log`.
        environments: variables for the processes of a group, by group; what they say
            of the allocator counts.
        watcher: is told the nodes' news, and says what stands for each.
        forks: starts the nodes that are `forked`, unless those of their group's
            variables that do not work late are others than most groups'.

    Raises:
        TypeError: if a node cannot be copied to another process.
    """
    binding.prepare(program, lp.LaunchType.LOCAL_MULTI_PROCESSING, entry.Stopper())
    children: list[binding.Node] = []
    preloaded = allocator.variables()  # In all of them, that they can be forked.
    wanted = {
        group: {**preloaded, **environments.get(group, {})} for group in program.groups
    }
    forks.variables = forkserver.most_wanted(
        wanted[group]
        for group, nodes in program.groups.items()
        for node in nodes
        if getattr(node, 'forked', False)
    )
    for name, group, node in binding.named_nodes(program):
        local = entry.keep_local(addresses.ports_of(node.addresses))
        own = wanted[group]
        forked = getattr(node, 'forked', False) and (
            forkserver.early(own) == forks.variables
        )
        child = supervisor.ChildProcess(
            name,
            binding.roles_of(name, node),
            entry.make_job(node.function, name),
            log_dir / f'{name}.log',
            {**entry.VARIABLES, **local, **own},
            watcher.take_event,
            forks if forked else None,
        )
        children.append(watcher.keep(group, child))
    return children
