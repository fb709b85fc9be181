"""The peer's side of benchmarks/actor.py: dm-acme's actors.

Runs under the environment that setup_peer.sh makes. `serve` holds the table in one
process, `act` runs the actor in another; each prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import reverb
import tensorflow as tf

from benchmarks.peers.acme import parts


def serve(args: argparse.Namespace) -> None:
    """Holds the table until standard input is closed."""
    table = parts.make_table(args, parts.make_spec(args))
    server = reverb.Server([table])
    print(json.dumps({'address': f'localhost:{server.port}'}), flush=True)
    sys.stdin.read()
    print(json.dumps({'items': table.info.current_size}), flush=True)
    server.stop()


def act(args: argparse.Namespace) -> None:
    """Acts for `seconds` after a warm-up, and prints the environment steps."""
    # As on our side; here it is also the faster choice.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.random.set_seed(args.seed)
    environment, spec = parts.make_environment(args, args.seed), parts.make_spec(args)
    actor = parts.make_actor(args, spec, parts.make_networks(args, spec), args.address)

    def run(seconds: float) -> tuple[int, float]:
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            steps += parts.run_episode(environment, actor)
        return steps, time.perf_counter() - start

    run(args.warm_up_seconds)
    steps, seconds = run(args.seconds)
    print(json.dumps({'steps': int(steps), 'seconds': seconds}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts.add_arguments(parser)
    commands = parser.add_subparsers(required=True)
    commands.add_parser('serve').set_defaults(run=serve)
    acting = commands.add_parser('act')
    acting.set_defaults(run=act)
    acting.add_argument('--address', required=True)
    acting.add_argument('--seed', type=int, default=0)
    acting.add_argument('--seconds', type=float, default=10.0)
    acting.add_argument('--warm-up-seconds', type=float, default=2.0)
    args = parser.parse_args()
    args.run(args)


if __name__ == '__main__':
    main()
