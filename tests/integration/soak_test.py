"""A run in which one process after the other is killed, and its memory.

It prints the restarts and, of each process that lived for three minutes, the slope of
its resident memory: `SOAK_MINUTES=30 pytest -s -m slow tests/integration/soak_test.py`.
"""

import collections
import os
import pathlib
import random
import signal
import time

import numpy as np
import pytest

from repertory.launch import launcher
from tests.integration import fault_runs

_MINUTES = float(os.environ.get('SOAK_MINUTES', '5'))
_WARM_UP_SECONDS = 120.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60 * _MINUTES + 300)]


def resident_mib(pid):
    try:
        pages = int(pathlib.Path(f'/proc/{pid}/statm').read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf('SC_PAGE_SIZE') / 2**20


def slopes(samples):
    """Yields (name, pid) and MiB a minute after the warm-up."""
    for key, points in samples.items():
        times, sizes = np.array(points).T
        warm = times > times[0] + _WARM_UP_SECONDS
        if warm.any() and np.ptp(times[warm]) > 60:
            yield key, 60 * np.polyfit(times[warm], sizes[warm], 1)[0]


def test_a_run_outlives_random_kills_and_learns(tmp_path):
    chance = random.Random(0)
    run = fault_runs.Run(tmp_path)
    run.launch(
        checkpoint_seconds=10.0,
        shards=2,
        max_restarts=1000,
        max_replay_size=5_000,  # Full before the warm-up is over.
    )
    samples, kills = collections.defaultdict(list), collections.Counter()
    owners = {}
    end = time.monotonic() + 60 * _MINUTES
    kill_at, last = time.monotonic() + 30, run.counts()
    while time.monotonic() < end:
        time.sleep(2)
        assert run.run.alive, run.run.wait().failure
        counts = run.counts()
        assert all(counts[name] >= last[name] for name in last)
        last = counts
        for name, pid in run.pids().items():
            size, incarnation = resident_mib(pid), run.incarnation(name)
            # One that still starts has not reported: it is known by the one before.
            owner = owners.setdefault((name, incarnation), pid)
            if size and (owner == pid or not incarnation):
                samples[name, pid].append((time.monotonic(), size))
        if time.monotonic() > kill_at:
            victim = chance.choice(sorted(run.pids()))
            try:
                os.kill(run.pids()[victim], signal.SIGKILL)
                kills[victim] += 1
            except ProcessLookupError:
                pass  # It was about to start again.
            kill_at = time.monotonic() + chance.uniform(20, 40)
    time.sleep(30)  # Nobody is killed, and the evaluator is up.
    run.wait_for(
        lambda: 'episode_return' in run.status()['nodes']['evaluator']['metrics']
    )
    run.wait_for(
        lambda: run.status()['nodes']['evaluator']['metrics']['episode_return'] >= 0.9,
        120,
    )
    print(f'\nkilled: {dict(kills)}; counts: {run.counts()}')
    for (name, pid), slope in slopes(samples):
        size = samples[name, pid][-1][1]
        print(f'{name}: {size:.0f} MiB, {slope:+.2f} MiB/min')
    run.check_ratio()
    assert run.stop() == launcher.Result(0)
    assert sum(kills.values()) >= _MINUTES
