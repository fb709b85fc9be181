"""Learner steps per second, beside dm-acme 0.4.0's learners.

Both sides train networks of the same sizes on batches of the same size, after an actor
has filled a table of the same process. With `--data memory` they learn one batch of it
again and again, which leaves sampling and priorities out; with `--data replay` they
sample. The two
run in turn. Batches are 256 transitions (Ape-X DQN on Catch, D4PG on cartpole:swingup),
32 sequences of 4 + 16 steps (R2D2 on Catch) and 16 unrolls of 20 (IMPALA on Catch);
with `--frames`, of Atari's shapes, 32, 8 and 16. The peer's R2D2 learner leaves the
priorities as they are: its update of them fails with dm-reverb 0.7.2.

    python -m benchmarks.learner --agent r2d2
    python -m benchmarks.learner --agent d4pg --data replay
"""

from __future__ import annotations

import argparse

from benchmarks import harness


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    harness.add_arguments(parser)
    parser.add_argument('--data', choices=('memory', 'replay'), default='memory')
    parser.add_argument('--updates-per-call', type=int, default=4, help='of ours')
    args = parser.parse_args()
    flags = [*harness.agent_flags(args), '--data', args.data]
    updates = ['--updates-per-call', str(args.updates_per_call)]
    own = harness.own_side('learner', [*flags, *updates])
    peer = harness.peer_side('acme', 'learner', flags)

    def run(side: harness.Side, pair: int) -> dict:
        options = ['--seconds', str(args.seconds), '--seed', str(args.seed + pair)]
        result = side.act(options, args.seconds)
        result['steps_per_second'] = result['steps'] / result['seconds']
        print(f'{side.name}: {result["steps_per_second"]:.1f} learner steps/s')
        return result

    harness.compare(args, 'learner steps per second', own, peer, run, f'_{args.data}')


if __name__ == '__main__':
    main()
