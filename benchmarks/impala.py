"""Environment steps per second of IMPALA on Catch, acting and learning in one process.

In one thread, and as a program of threads. Start and compilation are left out.
"""

from __future__ import annotations

import argparse

from benchmarks import growth, harness

_START_SECONDS = 20.0


def run(args: argparse.Namespace) -> list[dict]:
    """Measures our side alone."""
    rows = []
    for launch in ('sync', 'threads'):
        flags = ['--agent', 'impala', '--lanes', str(args.lanes), '--launch', launch]
        side = harness.own_side('whole', flags)

        def act(pair: int, side=side) -> float:
            seconds = args.seconds + _START_SECONDS
            options = ['--task', 'catch', '--seconds', str(seconds)]
            options += ['--seed', str(args.seed + pair), '--period-seconds', '1e6']
            result = side.run('learn', options, seconds)
            return result['environment_steps_per_second']

        name, unit = f'impala_catch_{launch}', 'environment steps/s'
        rows.append(growth.measure(args, name, unit, act))
    return rows
