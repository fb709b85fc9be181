"""Connects the launching process to a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import ray

from repertory.launch import placement


def connect(config: placement.RayConfig, groups: Sequence[str]) -> None:
    """Connects this process to the cluster that `config` names, or starts one here.

    Args:
        config: the cluster, and what each group needs of it.
        groups: of each node, by which the size of a cluster of this machine is chosen.

    Raises:
        ValueError: if the process is connected to another cluster already.
    """
    if ray.is_initialized():
        _check_connected(config)
        return
    runtime = {'working_dir': config.working_dir} if config.working_dir else {}
    quiet: dict[str, Any] = {'log_to_driver': False, 'runtime_env': runtime}
    if config.address is not None:
        ray.init(config.address, **quiet)
        return
    needed = sum(config.of_group(group)['CPU'] for group in groups)
    ray.init(
        'local',  # Not one that happens to run here.
        num_cpus=max(os.cpu_count() or 1, int(needed) + 1),
        include_dashboard=False,
        _node_ip_address='127.0.0.1',
        _system_config={'worker_niceness': 0},  # As the other launches; Ray's is 15.
        **quiet,
    )


def _check_connected(config: placement.RayConfig) -> None:
    """Refuses what cannot be had where this process has been connected before."""
    here = ray.get_runtime_context().gcs_address
    host, _, port = (config.address or 'auto').rpartition(':')
    host = {'localhost': '127.0.0.1'}.get(host, host)
    if config.address not in (None, 'auto') and f'{host}:{port}' != here:
        raise ValueError(
            f'ray.address must be {here}, the cluster that this process is connected '
            f'to, got {config.address}; leave it out, or call ray.shutdown() before.'
        )
    if config.working_dir is not None:
        raise ValueError(
            'ray.working_dir must be None where this process is connected to a '
            f'cluster, got {config.working_dir}; give it to ray.init as '
            'runtime_env, or call ray.shutdown() before.'
        )
