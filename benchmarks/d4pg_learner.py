"""Learner steps per second of D4PG on given batches, beside dm-acme 0.4.0's learner.

Both train the same networks, dm-acme's defaults (policy 256-256-256, critic
512-512-256, 51 atoms), on batches of 256 with the shapes of cartpole:swingup, from a
tf.data iterator over one batch in memory. The two run in turn.

    python -m benchmarks.d4pg_learner --pairs 5 --seconds 10
"""

from __future__ import annotations

import argparse

from benchmarks import harness


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--pairs', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=10.0)
    parser.add_argument('--updates-per-call', type=int, default=1)
    parser.add_argument('--seed', type=int, default=0)
    args = parser.parse_args()
    updates = ['--updates-per-call', str(args.updates_per_call)]
    own = harness.Side(
        name='repertory',
        command=[harness.OWN_PYTHON, '-m', 'benchmarks.own.d4pg_learner', *updates],
    )
    peer = harness.Side(
        name='dm-acme 0.4.0',
        command=[
            harness.peer_python('acme'),
            'benchmarks/peers/acme/d4pg_learner.py',
        ],
    )

    def run(side: harness.Side, pair: int) -> dict:
        options = ['--seconds', str(args.seconds), '--seed', str(args.seed + pair)]
        result = side.act(options, args.seconds)
        result['steps_per_second'] = result['steps'] / result['seconds']
        print(f'{side.name}: {result["steps_per_second"]:.1f} learner steps/s')
        return result

    pairs = harness.run_pairs(
        args.pairs, lambda pair: run(own, pair), lambda pair: run(peer, pair)
    )
    rates = [(a['steps_per_second'], b['steps_per_second']) for a, b in pairs]
    values = {
        'unit': 'learner steps per second, batches of 256',
        'updates_per_call': args.updates_per_call,
        'first': own.name,
        'second': peer.name,
        'pairs': pairs,
        **harness.summary(rates),
    }
    path = harness.write('d4pg_learner', args.seed, values)
    print(f'{values["median_ratio"]:.2f} times the peer; written to {path}')


if __name__ == '__main__':
    main()
