"""Seconds from a command to a mark, beside dm-acme 0.4.0's and SB3's DQN.

Ours are Ape-X DQN's, in processes with the replay in the learner's, but for `--replay
separate`. The greedy policy plays 10 episodes, `--period-seconds` after it did so the
last time; the time, which is as coarse as that, is from the start of the command to the
end of the first evaluation whose mean return is the mark, 0.9 of Catch and 475 of
CartPole-v1: start, imports and compilation are in it. In our programs an evaluator
plays them beside the training; in one thread, and in the peers, training waits.

A run that does not get there within `--limit-seconds` counts as having taken those; the
table shows it as `>180`, and a ratio with it as the bound that it is.
"""

from __future__ import annotations

import argparse
import time

from benchmarks import harness, records

_MARKS = {'catch': 0.9, 'cartpole': 475.0}


def run(args: argparse.Namespace) -> list[dict]:
    """Compares our Ape-X DQN, launched in each way, with the peers' DQN."""
    return [row for task in args.task for row in _run_task(args, task)]


def _run_task(args: argparse.Namespace, task: str) -> list[dict]:
    own = {
        f'whole_{task}_{launch}': harness.own_side(
            'whole', ['--replay', args.replay, '--launch', launch]
        )
        for launch in args.launch
    }
    peers = {'acme': harness.peer_side(args, 'acme', 'whole', [])}
    if task == 'cartpole':
        peers['sb3'] = harness.peer_side(args, 'sb3', 'whole', [])
    sides = [*own.items(), *peers.items()]
    rounds = []
    for index in range(args.pairs):
        results = {}
        # Who begins changes; a peer's run stands beside each of ours.
        for name, side in sides if index % 2 == 0 else sides[::-1]:
            results[name] = run_to_mark(
                side, task, args.seed + index, args.limit_seconds, args.period_seconds
            )
            shown = records.bounded(results[name]['seconds'], args.limit_seconds)
            print(f'whole_{task}: {name}: {shown} s', flush=True)
        rounds.append(results)
    return [
        harness.summarize(
            args,
            f'{name}_{peer}'
            + harness.variant(args, 'period_seconds', 'peer_allocator'),
            'seconds to the mark',
            (side, peers[peer]),
            [(results[name], results[peer]) for results in rounds],
            key='seconds',
            limit=args.limit_seconds,
        )
        for name, side in own.items()
        for peer in peers
    ]


def run_to_mark(
    side: harness.Side,
    task: str,
    seed: int,
    limit_seconds: float,
    period_seconds: float,
) -> dict:
    """Returns what a run measured, and the `seconds` since its command."""
    options = ['--task', task, '--mark', str(_MARKS[task]), '--seed', str(seed)]
    options += ['--seconds', str(limit_seconds)]
    options += ['--period-seconds', str(period_seconds)]
    begin = time.time()
    result = side.run('learn', options, limit_seconds)
    ended = time.time()
    reached = result.pop('reached_at')
    seconds = limit_seconds if reached is None else reached - begin
    return {
        **result,
        # The limit of its own begins when it has started.
        'reached': seconds < limit_seconds,
        'seconds': min(seconds, limit_seconds),
        'seconds_until_its_process_ended': ended - begin,
    }
