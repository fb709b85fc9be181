"""Environment steps per second without an agent: 16 in lockstep, or one as it is."""

from __future__ import annotations

import argparse
import dataclasses

from benchmarks import harness

_TASKS = {'catch': ('catch', 'apex_dqn'), 'cartpole': ('cartpole_swingup', 'd4pg')}


def run(args: argparse.Namespace) -> list[dict]:
    """Compares lanes in lockstep with what they are made of."""
    rows = []
    for task, agent in map(_TASKS.__getitem__, args.task):
        flags = ['--agent', agent, '--lanes', str(args.lanes)]
        lanes = harness.own_side('environment', flags)
        bare = dataclasses.replace(lanes, name='one bare environment')

        def measure(side: harness.Side, pair: int) -> dict:
            subcommand = 'bare' if side.name.startswith('one') else 'vectorized'
            return side.run(subcommand, harness.timing_flags(args, pair), args.seconds)

        name = f'environment_{task}' + harness.variant(args, 'lanes')
        unit = 'environment steps/s'
        rows.append(harness.compare(args, name, unit, (lanes, bare), measure))
    return rows
