"""Batches sampled per second, decoded, without a learner, beside dm-acme 0.4.0's.

The table is in the sampling process, or, `remote`, in another one.
"""

from __future__ import annotations

import argparse

from benchmarks import harness, learner


def run(args: argparse.Namespace) -> list[dict]:
    """Compares each agent's dataset with the peer's."""
    rows = []
    for agent in args.agent:
        sides = learner.make_sides(args, agent, 'replay')
        flags = harness.agent_flags(args, agent)
        servers = {
            sides[0].name: harness.own_side('actor', flags),
            sides[1].name: harness.peer_side(args, 'acme', 'actor', flags),
        }

        def local(side: harness.Side, pair: int) -> dict:
            return side.run('sample', harness.timing_flags(args, pair), args.seconds)

        def remote(side: harness.Side, pair: int, servers=servers) -> dict:
            with servers[side.name].serve() as server:
                options = harness.timing_flags(args, pair)
                options += ['--address', server['address']]
                return side.run('sample', options, args.seconds)

        name = f'sampler_{harness.agent_name(args, agent)}'
        other = harness.variant(args, 'items', 'updates_per_call', 'peer_allocator')
        for place, measure in (('local', local), ('remote', remote)):
            name_of_place = f'{name}_{place}{other}'
            rows.append(
                harness.compare(args, name_of_place, 'batches/s', sides, measure)
            )
    return rows
