"""`repertory doctor`."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated

import tyro

from repertory.components import allocator
from repertory.launch.cli import calling, versions

# What is built against each other: name -> the version that the others need.
_GOOD = {
    'tensorflow': '2.8.4',
    'dm-reverb': '0.7.2',
    'dm-launchpad': '0.5.2',
}
_MEMORY_GIB = 4.0  # Of a small run: five processes of half a GiB, and a replay.
_SHARED_MIB = 64.0
_FILES = 1024


def doctor(verbose: Annotated[bool, tyro.conf.arg(aliases=['-v'])] = False) -> int:
    """Checks Python, versions, memory, allocator, ports and GPU, and says what to do.

    Args:
        verbose: also show what was found to be right.
    """
    problems = versions.problems(_GOOD)
    advice: list[str] = []
    found = [versions.describe(_GOOD)]
    for check in (_memory, _shared_memory, _allocator, _open_files, _ports, _gpu):
        fits, text = check()
        (found if fits else advice).append(text)
    if verbose:
        print('\n'.join(f'ok:      {text}' for text in found))
    else:
        print(found[0])
    for text in advice:
        print(f'advice:  {text}')
    for text in problems:
        print(f'problem: {text}')
    if problems:
        print('Not ready: mend the above (`make setup` installs what fits).')
    else:
        print('Ready to train.')
    return 1 if problems else 0


def _memory() -> tuple[bool, str]:
    with open('/proc/meminfo') as file:
        lines = dict(line.split(':', 1) for line in file)
    available = int(lines['MemAvailable'].split()[0]) / 2**20
    text = f'{available:.1f} GiB of memory available'
    if available >= _MEMORY_GIB:
        return True, text
    return False, (
        f'{text}; a run of several processes takes about {_MEMORY_GIB:g}: use fewer '
        'actors or --launch sync, and a smaller --max-replay-size.'
    )


def _shared_memory() -> tuple[bool, str]:
    try:
        free = shutil.disk_usage('/dev/shm').free / 2**20
    except OSError:
        free = 0.0
    text = f'{free:.0f} MiB of shared memory free in /dev/shm'
    if free >= _SHARED_MIB:
        return True, text
    return False, (
        f'{text}; --environments processes needs it: start a container with '
        '--shm-size 1g.'
    )


def _allocator() -> tuple[bool, str]:
    own = os.environ.get(allocator.VARIABLE)
    path = allocator.find()
    if own and path is not None and not allocator.is_one(own):
        return False, (
            f'{allocator.VARIABLE} is set, to {own!r}, so that runs have no jemalloc: '
            f'add {path} to it.'
        )
    if own is not None:
        meant = "glibc's" if not own else 'what it names'
        text = (
            f'{allocator.VARIABLE} stays as it is set: {own!r}, and the allocator is '
        )
        return True, text + meant
    if path is not None:
        return True, f'runs have the allocator jemalloc: {path}'
    return False, (
        'no allocator jemalloc is found that can be loaded; with it small learners '
        'that sample are up to 1.4 times as fast: apt install libjemalloc2, or pip '
        "install 'repertory[ray]'."
    )


def _open_files() -> tuple[bool, str]:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f'up to {limit} open files a process'
    if limit >= _FILES or limit == resource.RLIM_INFINITY:
        return True, text
    return False, f'{text}; many actors need more: ulimit -n 4096.'


def _ports() -> tuple[bool, str]:
    try:
        with socket.socket() as server, socket.socket() as client:
            server.bind(('localhost', 0))
            server.listen()
            client.settimeout(2)
            client.connect(server.getsockname())
    except OSError as error:
        return False, (
            f'localhost takes no connection ({error}); nodes cannot reach each other: '
            'see to /etc/hosts and the loopback interface, or use --launch sync.'
        )
    return True, 'ports of localhost can be reached'


def _gpu() -> tuple[bool, str]:
    if shutil.which('nvidia-smi') is None:
        return True, 'no NVIDIA GPU here: everything runs on the CPU'
    code = 'import tensorflow as tf; print(len(tf.config.list_physical_devices("GPU")))'
    done = subprocess.run(
        [sys.executable, '-c', code],
        capture_output=True,
        text=True,
        env={**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '3'},
    )
    number = done.stdout.strip().splitlines()[-1:] or ['0']
    if number != ['0']:
        return True, f'TensorFlow sees {number[0]} GPU'
    return False, (
        'there is an NVIDIA driver, and TensorFlow sees no GPU; install the CUDA '
        "libraries by pip install 'repertory[gpu]', and let LD_LIBRARY_PATH name "
        'their folders.'
    )


def main(arguments: Sequence[str]) -> int:
    return calling.call(doctor, 'repertory doctor', arguments)
