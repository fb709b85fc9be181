"""Learner steps per second, beside dm-acme 0.4.0's learners.

Both sides train networks of the same sizes on batches of the same size, after an actor
has filled a table of the same process. With `--data memory` they learn one batch of it
again and again, which leaves sampling and priorities out; with `--data replay` they
sample. Batches are 256 transitions (Ape-X DQN on Catch, D4PG on cartpole:swingup), 32
sequences of 4 + 16 steps (R2D2 on Catch) and 16 unrolls of 20 (IMPALA on Catch); with
`--frames`, of Atari's shapes, 32, 8 and 16. The peer's R2D2 learner leaves the
priorities as they are: its update of them fails with dm-reverb 0.7.2.
"""

from __future__ import annotations

import argparse

from benchmarks import harness


def make_sides(args: argparse.Namespace, agent: str, data: str) -> tuple:
    """Returns ours and the peer's, to `learn` or to `sample`."""
    flags = [*harness.agent_flags(args, agent), '--data', data]
    flags += ['--items', str(args.items)]
    updates = ['--updates-per-call', str(args.updates_per_call)]
    return (
        harness.own_side('learner', [*flags, *updates]),
        harness.peer_side(args, 'acme', 'learner', flags),
    )


def run(args: argparse.Namespace) -> list[dict]:
    """Compares each agent's learner with the peer's."""

    def measure(side: harness.Side, pair: int) -> dict:
        return side.run('learn', harness.timing_flags(args, pair), args.seconds)

    return [
        harness.compare(
            args,
            f'learner_{harness.agent_name(args, agent)}_{data}'
            + harness.variant(args, 'items', 'updates_per_call', 'peer_allocator'),
            'learner steps/s',
            make_sides(args, agent, data),
            measure,
        )
        for data in args.data
        for agent in args.agent
    ]
