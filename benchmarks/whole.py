"""Seconds from a command to a mark, beside dm-acme 0.4.0's and SB3's DQN.

The greedy policy plays 10 episodes, 2 s after it did so the last time; the time is that
from the start of the command to the end of the first evaluation whose mean return is
the mark, 0.9 of Catch and 475 of CartPole-v1. In our programs an evaluator plays them
beside the training; in one thread, and in the peers, training waits for them. A run
that does not get there counts as having taken the limit; `pairs` says which did.
"""

from __future__ import annotations

import argparse
import time

from benchmarks import harness

_MARKS = {'catch': 0.9, 'cartpole': 475.0}
_LIMIT_SECONDS = 180.0


def run(args: argparse.Namespace) -> list[dict]:
    """Compares our Ape-X DQN, launched in each way, with the peers' DQN."""
    rows = []
    for task in args.task:
        peers = [harness.peer_side('acme', 'whole', [])]
        if task == 'cartpole':
            peers.append(harness.peer_side('sb3', 'whole', []))
        for launch in args.launch:
            own = harness.own_side('whole', ['--launch', launch])
            for peer in peers:
                name = f'whole_{task}_{launch}_{peer.command[1].split("/")[-2]}'

                def measure(side: harness.Side, pair: int, task=task) -> dict:
                    return run_to_mark(side, task, args.seed + pair)

                unit = 'seconds to the mark'
                rows.append(
                    harness.compare(args, name, unit, (own, peer), measure, 'seconds')
                )
    return rows


def run_to_mark(side: harness.Side, task: str, seed: int) -> dict:
    """Returns what a run measured, and the `seconds` since its command."""
    options = ['--task', task, '--mark', str(_MARKS[task]), '--seed', str(seed)]
    options += ['--seconds', str(_LIMIT_SECONDS)]
    begin = time.time()
    result = side.run('learn', options, _LIMIT_SECONDS)
    reached = result.pop('reached_at')
    seconds = _LIMIT_SECONDS if reached is None else reached - begin
    return {**result, 'reached': reached is not None, 'seconds': seconds}
