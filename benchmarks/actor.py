"""Environment steps per second of an actor that writes to replay, no learner running.

Ours drives many lanes of Catch, the peer (dm-acme 0.4.0's DQN actor) one, as each is
made to. Both build 5-step transitions and write them to a prioritized Reverb table in
another process; both networks have two hidden layers of 50 units, ours the two dueling
streams besides; both run in one thread of TensorFlow. The two run in turn. R2D2's
actors have a layer, an LSTM and dueling streams of 64 units on both sides, and write
sequences of 25 steps every 8.

    python -m benchmarks.actor --pairs 5 --seconds 10
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
    parser.add_argument(
        '--agent', choices=('apex_dqn', 'd4pg', 'r2d2'), default='apex_dqn'
    )
    parser.add_argument('--pairs', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=10.0)
    parser.add_argument('--lanes', type=int, default=16)
    parser.add_argument('--seed', type=int, default=0)
    args = parser.parse_args()
    own = harness.Side(
        name='repertory',
        command=[
            harness.OWN_PYTHON,
            *('-m', 'benchmarks.own.actor', '--agent', args.agent),
            *('--lanes', str(args.lanes)),
        ],
    )
    peer = harness.Side(
        name='dm-acme 0.4.0',
        command=[
            harness.peer_python('acme'),
            *('benchmarks/peers/acme/actor.py', '--agent', args.agent),
        ],
    )

    def run(side: harness.Side, pair: int) -> dict:
        options = ['--seconds', str(args.seconds), '--seed', str(args.seed + pair)]
        result = measure(side, options, args.seconds)
        print(f'{side.name}: {result["steps_per_second"]:.0f} environment steps/s')
        return result

    pairs = harness.run_pairs(
        args.pairs, lambda pair: run(own, pair), lambda pair: run(peer, pair)
    )
    rates = [(a['steps_per_second'], b['steps_per_second']) for a, b in pairs]
    values = {
        'unit': 'environment steps per second',
        'lanes': args.lanes,
        'first': own.name,
        'second': peer.name,
        'pairs': pairs,
        **harness.summary(rates),
    }
    name = 'actor' if args.agent == 'apex_dqn' else f'actor_{args.agent}'
    path = harness.write(name, args.seed, values)
    print(f'{values["median_ratio"]:.1f} times the peer; written to {path}')


if __name__ == '__main__':
    main()
