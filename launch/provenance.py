"""How a run was started: when, by which command, versions and commit, and where."""

from __future__ import annotations

import datetime
import os
import pathlib
import platform
import shlex
import subprocess
import sys
from importlib import metadata
from typing import Any

_PACKAGES = (
    'repertory',
    'tensorflow',
    'dm-reverb',
    'dm-launchpad',
    'dm-sonnet',
    'dm-env',
    'numpy',
)


def describe_start(one_thread: bool) -> dict[str, Any]:
    """Returns what JSON can hold; `one_thread` says whether no program runs it."""
    now = datetime.datetime.now(datetime.timezone.utc)
    versions = {'python': platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = 'not installed'
    return {
        'time': now.isoformat(timespec='seconds'),
        'command': shlex.join([sys.executable, *sys.argv]),
        'one_thread': one_thread,
        'versions': versions,
        **describe_source(),
    }


def describe_source(but_for: pathlib.Path | None = None) -> dict[str, Any]:
    """Returns the commit, whether tracked files differ from it, and the machine.

    Args:
        but_for: a folder in which files may differ.
    """
    return {
        'git': _git(but_for),
        'host': {
            'system': platform.platform(),
            'cpu': _cpu_model(),
            'cores': len(os.sched_getaffinity(0)),
            'memory_gib': round(
                os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30, 1
            ),
        },
    }


def resident_gib() -> float:
    """Returns the memory that this process holds, in GiB."""
    pages = int(pathlib.Path('/proc/self/statm').read_text().split()[1])
    return pages * os.sysconf('SC_PAGE_SIZE') / 2**30


def _git(but_for: pathlib.Path | None) -> dict[str, Any] | None:
    """Returns the commit of the working directory; None where there is none."""
    others = ['--', ':/', f':(exclude){but_for}'] if but_for else []
    try:
        commit = _run('git', 'rev-parse', 'HEAD')
        changed = _run('git', 'status', '--porcelain', '--untracked-files=no', *others)
    except (OSError, subprocess.SubprocessError):
        return None
    return {'commit': commit, 'changed': bool(changed)}


def _run(*command: str) -> str:
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=10
    ).stdout.strip()


def _cpu_model() -> str:
    try:
        lines = pathlib.Path('/proc/cpuinfo').read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(':', 1)[1].strip() for line in lines if 'model name' in line]
    return names[0] if names else platform.machine()
