"""Runs a Launchpad program on this machine, one process a node."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Mapping

import launchpad as lp

from repertory.launch import binding, entry, supervisor


def make_nodes(
    program: lp.Program,
    job_dir: pathlib.Path,
    log_dir: pathlib.Path,
    environments: Mapping[str, Mapping[str, str]],
    on_event: Callable[[dict], None],
    keep: Callable[[str, binding.Node], binding.Node],
) -> list[binding.Node]:
    """Returns the nodes of `program`, ready to start.

    Args:
        program: its addresses are bound to free ports of this machine.
        job_dir: takes what the processes are to run.
        log_dir: takes a log a node, `<name>.log`.
        environments: variables for the processes of a group, by group.
        on_event: takes the nodes' news.
        keep: takes a group and a node of it; returns what stands for the node.

    Raises:
        TypeError: if a node cannot be copied to another process.
    """
    binding.prepare(program, lp.LaunchType.LOCAL_MULTI_PROCESSING, entry.Stopper())
    children: list[binding.Node] = []
    for name, group, node in binding.named_nodes(program):
        job_path = job_dir / f'{name}.job'
        entry.write_job(job_path, node.function, name)
        environment = {
            'PYTHONUNBUFFERED': '1',
            'PYTHONFAULTHANDLER': '1',  # Says where a segmentation fault was.
            'TF_CPP_MIN_LOG_LEVEL': os.environ.get('TF_CPP_MIN_LOG_LEVEL', '2'),
            **environments.get(group, {}),
        }
        child = supervisor.ChildProcess(
            name,
            binding.roles_of(name, node),
            job_path,
            log_dir / f'{name}.log',
            environment,
            on_event,
        )
        children.append(keep(group, child))
    return children
