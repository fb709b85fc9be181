"""Launches a Launchpad program."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Literal

import launchpad as lp

from repertory.launch import binding, placement, processes, running, threads
from repertory.launch import restarts as restarts_lib

COORDINATOR = running.COORDINATOR
Result = running.Result


def launch(
    program: lp.Program,
    mode: Literal['processes', 'threads', 'ray'],
    run_dir: str | os.PathLike,
    environments: Mapping[str, Mapping[str, str]] | None = None,
    restarts: Mapping[str, restarts_lib.RestartPolicy] | None = None,
    ray: placement.RayConfig | None = None,
) -> running.Run:
    """Starts all nodes of `program`, and returns at once.

    May be called in any thread, and again for another program. Processes are killed
    when this one ends: call `wait`.

    Args:
        program: nodes of any kind that Launchpad can run on one machine. With
            `processes` one whose attribute `forked` is True is forked from a process
            that has imported TensorFlow, unless its group has other variables than most
            of those that are read before, as `LD_PRELOAD` and most `TF_...` are, or
            one that gives NumPy threads, as `OPENBLAS_NUM_THREADS`.
        mode: a process a node, a thread a node, or a process a node on a Ray cluster.
        run_dir: its folder `logs` takes a log a node.
        environments: environment variables for the processes of a group, by group.
            Theirs is jemalloc, where the machine that starts them has it, unless the
            group or the user has set `LD_PRELOAD`.
        restarts: how often the nodes of a group are started again, by group; the
            failure of a node of any other group ends the program.
        ray: the cluster; None starts one on this machine.

    Raises:
        TypeError: if a node cannot be copied to another process.
        ValueError: if threads are to be restarted, or one of several learners alone.
        TimeoutError: if the cluster has no room for a node.
    """
    restarts = restarts or {}
    environments = environments or {}
    sizes = {group: len(nodes) for group, nodes in program.groups.items()}
    restarts_lib.check(restarts, mode, sizes)
    binding.bypass_proxy()
    log_dir = pathlib.Path(run_dir) / 'logs'
    log_dir.mkdir(parents=True, exist_ok=True)
    run = running.Run(log_dir, restarts)
    if mode == 'threads':
        nodes = threads.make_nodes(program, log_dir, lambda *_, **__: run.stop())
    elif mode == 'ray':
        from repertory.launch import ray as ray_lib  # An extra.

        nodes = ray_lib.make_nodes(
            program, log_dir, environments, run, ray or placement.RayConfig()
        )
    else:
        nodes = processes.make_nodes(program, log_dir, environments, run, run.forks)
    coordinators = program.groups.get(running.COORDINATOR, [])
    run.start(nodes, coordinators[0] if coordinators else None)
    return run
