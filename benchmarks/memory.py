"""Bytes of replay that an item takes, and the megabytes of an actor's process.

An actor's process is measured twice: in a run on one machine, where it is forked from a
server that has imported TensorFlow, and as a fresh interpreter, as it is on Ray.

Bytes are those by which the process with the table grows while it is filled from a
quarter of its items on, so they have in them what Reverb keeps beside the data and what
its compression saves. The frames are random: compression saves nothing of them. An item
adds one row of its own, of 7,069 bytes for frames.
"""

from __future__ import annotations

import argparse

from benchmarks import growth, harness

_UNIT = 'MB resident'
# Agent, options, items.
_TABLES = {
    'apex_dqn': (['--agent', 'apex_dqn'], 100_000),
    'd4pg': (['--agent', 'd4pg'], 50_000),
    'apex_dqn_frames': (['--agent', 'apex_dqn', '--frames'], 10_000),
}


def run(args: argparse.Namespace) -> list[dict]:
    """Measures our side alone."""
    rows = []
    for name, (flags, items) in _TABLES.items():
        items = items // 5 if args.quick else items
        side = harness.own_side('learner', [*flags, '--items', str(items)])

        def fill(pair: int, side=side) -> float:
            options = harness.timing_flags(args, pair)
            return side.run('fill', options, 300.0)['bytes_per_item']

        rows.append(growth.measure(args, f'memory_item_{name}', 'bytes', fill))
    for agent in args.agent:
        side = harness.own_side('actor', harness.agent_flags(args, agent))

        def act(pair: int, side=side) -> float:
            with side.serve() as server:
                options = ['--address', server['address']]
                options += harness.timing_flags(args, pair)
                return side.run('act', options, args.seconds)['peak_megabytes']

        name = harness.agent_name(args, agent)
        rows.append(growth.measure(args, f'memory_actor_{name}', _UNIT, act))
        if not args.frames:
            rows.append(_forked_actor(args, agent, name))
    return rows


def _forked_actor(args: argparse.Namespace, agent: str, name: str) -> dict:
    side = harness.own_side('memory', harness.agent_flags(args, agent))

    def remember(pair: int) -> float:
        options = ['--seconds', str(args.seconds), '--seed', str(args.seed + pair)]
        return side.run('remember', options, args.seconds)['resident_megabytes']

    return growth.measure(args, f'memory_actor_forked_{name}', _UNIT, remember)
