"""Environment steps per second of an actor that writes to replay, no learner running.

Ours drives many lanes, the peer (dm-acme 0.4.0) one, as each is made to. Both write to
a Reverb table in another process, with networks of the same sizes, in one thread of
TensorFlow: Ape-X DQN 5-step transitions of Catch to a prioritized table, D4PG those of
cartpole:swingup, R2D2 sequences of 21 steps every 8, IMPALA unrolls of 20 steps. With
`--frames` the observations are of Atari's shapes. The two run in turn.

    python -m benchmarks.actor --agent r2d2
"""

from __future__ import annotations

import argparse

from benchmarks import harness


def measure(side: harness.Side, options: list[str], seconds: float) -> dict:
    """Returns environment steps, seconds, their quotient, and items in the table."""
    with side.serve() as server:
        result = side.act(['--address', server['address'], *options], seconds)
    result['steps_per_second'] = result['steps'] / result['seconds']
    return {**result, 'items_in_table': server['items']}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    harness.add_arguments(parser)
    parser.add_argument('--lanes', type=int, default=16)
    args = parser.parse_args()
    flags = harness.agent_flags(args)
    own = harness.own_side('actor', [*flags, '--lanes', str(args.lanes)])
    peer = harness.peer_side('acme', 'actor', flags)

    def run(side: harness.Side, pair: int) -> dict:
        options = ['--seconds', str(args.seconds), '--seed', str(args.seed + pair)]
        result = measure(side, options, args.seconds)
        print(f'{side.name}: {result["steps_per_second"]:.0f} environment steps/s')
        return result

    harness.compare(args, 'environment steps per second', own, peer, run)


if __name__ == '__main__':
    main()
