"""Learner steps per second of R2D2 on given batches, beside dm-acme 0.4.0's learner.

Both train the same network (a layer, an LSTM, dueling streams of as many units) on
batches of 32 sequences with the shapes of Catch, from a tf.data iterator over one batch
in memory. The two run in turn.

    python -m benchmarks.r2d2_learner --pairs 5 --seconds 10
    python -m benchmarks.r2d2_learner --burn-in 40 --trace 80 --units 256
"""

from __future__ import annotations

import argparse

from benchmarks import harness


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--pairs', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=10.0)
    parser.add_argument('--burn-in', type=int, default=8)
    parser.add_argument('--trace', type=int, default=16)
    parser.add_argument('--units', type=int, default=64)
    parser.add_argument('--seed', type=int, default=0)
    args = parser.parse_args()
    sizes = {'burn-in': args.burn_in, 'trace': args.trace, 'units': args.units}
    flags = [f'--{name}={value}' for name, value in sizes.items()]
    own = harness.Side(
        name='repertory',
        command=[harness.OWN_PYTHON, '-m', 'benchmarks.own.r2d2_learner', *flags],
    )
    peer = harness.Side(
        name='dm-acme 0.4.0',
        command=[
            harness.peer_python('acme'),
            'benchmarks/peers/acme/r2d2_learner.py',
            *flags,
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
        'unit': 'learner steps per second, batches of 32 sequences',
        **sizes,
        'first': own.name,
        'second': peer.name,
        'pairs': pairs,
        **harness.summary(rates),
    }
    name = f'r2d2_learner_{args.burn_in}_{args.trace}_{args.units}'
    path = harness.write(name, args.seed, values)
    print(f'{values["median_ratio"]:.2f} times the peer; written to {path}')


if __name__ == '__main__':
    main()
