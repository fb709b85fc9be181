"""Environment steps per second of an actor that writes to replay, no learner running.

Ours drives many lanes, the peer (dm-acme 0.4.0) one, as each is made to. Both write to
a Reverb table in another process, with networks of the same sizes, in one thread of
TensorFlow: Ape-X DQN 5-step transitions of Catch to a prioritized table, D4PG those of
cartpole:swingup, R2D2 sequences of 21 steps every 8, IMPALA unrolls of 20 steps. With
`--frames` the observations are of Atari's shapes. `adder.py` has the
writing alone.
"""

from __future__ import annotations

import argparse

from benchmarks import harness


def run(args: argparse.Namespace, subcommand: str = 'act') -> list[dict]:
    """Compares each agent's actor with the peer's."""
    rows = []
    for agent in args.agent:
        flags = harness.agent_flags(args, agent)
        sides = (
            harness.own_side('actor', [*flags, '--lanes', str(args.lanes)]),
            harness.peer_side(args, 'acme', 'actor', flags),
        )

        def measure(side: harness.Side, pair: int) -> dict:
            with side.serve() as server:
                options = ['--address', server['address']]
                options += harness.timing_flags(args, pair)
                result = side.run(subcommand, options, args.seconds)
            return {**result, 'items_in_table': server['items']}

        part = {'act': 'actor', 'add': 'adder'}[subcommand]
        name = f'{part}_{harness.agent_name(args, agent)}'
        name += harness.variant(args, 'lanes', 'peer_allocator')
        unit = 'environment steps/s'
        rows.append(harness.compare(args, name, unit, sides, measure))
    return rows
