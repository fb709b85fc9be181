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
            rate = result['environment_steps_per_second']
            if rate is None:
                raise RuntimeError(
                    f'--seconds must be > {args.seconds:g} on this machine now: the '
                    'run ended before it had logged twice once all was compiled.'
                )
            return rate

        name = f'impala_catch_{launch}' + harness.variant(args, 'lanes')
        unit = 'environment steps/s'
        rows.append(growth.measure(args, name, unit, act))
    return rows
