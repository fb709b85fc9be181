"""Microseconds that an environment step waits for parameters, 2.3 MB every 100 steps.

Ours, of 16 lanes, and dm-acme 0.4.0's client ask one and the same server in another
process, which has new parameters each time (`changing`) or never (`same`).
"""

from __future__ import annotations

import argparse

from benchmarks import harness


def run(args: argparse.Namespace) -> list[dict]:
    """Compares the variable clients."""
    rows = []
    for name, flags in (('changing', ['--changing']), ('same', [])):
        sides = (
            harness.own_side('fetch', flags),
            harness.peer_side('acme', 'fetch', []),
        )

        def measure(side: harness.Side, pair: int, server=sides[0]) -> dict:
            with server.serve() as served:
                options = ['--address', served['address']]
                options += harness.timing_flags(args, pair)
                return side.run('fetch', options, args.seconds)

        unit, key = 'microseconds/environment step', 'microseconds_per_step'
        rows.append(harness.compare(args, f'fetch_{name}', unit, sides, measure, key))
    return rows
