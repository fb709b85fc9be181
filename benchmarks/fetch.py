"""Microseconds that an actor waits for 2.3 MB of parameters, after each of its steps.

Ours and dm-acme 0.4.0's client are called every millisecond, and ask at each 100th call
one and the same server in another process, which has new parameters each time
(`changing`) or never (`same`). A call is one vector step of ours, of all lanes.
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
            harness.peer_side(args, 'acme', 'fetch', []),
        )

        def measure(side: harness.Side, pair: int, server=sides[0]) -> dict:
            with server.serve() as served:
                options = ['--address', served['address']]
                options += harness.timing_flags(args, pair)
                result = side.run('fetch', options, args.seconds)
            return {**result, 'asked': served['asked']}

        unit, key = 'microseconds/call', 'microseconds_per_call'
        name = f'fetch_{name}' + harness.variant(args, 'peer_allocator')
        rows.append(harness.compare(args, name, unit, sides, measure, key))
    return rows
