"""Our side of benchmarks/actor.py: an agent's actor; no learner.

`serve` holds the table in one process, `act` runs the actor in another; each prints
one line of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time

import tensorflow as tf

from benchmarks.own import parts
from repertory.components import core, specs
from repertory.replay import server


def serve(args: argparse.Namespace) -> None:
    """Holds the table until standard input is closed."""
    builder = parts.make_config(args).make_builder()
    spec = specs.make_environment_spec(parts.make_environment(args, 0))
    policy = builder.make_policy(builder.make_networks(spec), spec, core.Role())
    tables = builder.make_table_specs(spec, policy, args.lanes)
    with server.ReplayServer(tables) as replay:
        print(json.dumps({'address': replay.address}), flush=True)
        sys.stdin.read()
        items = sum(table.size for table in replay.statistics())
        print(json.dumps({'items': items}), flush=True)


def act(args: argparse.Namespace) -> None:
    """Acts for `seconds` after a warm-up, and prints the environment steps.

    The time ends when all items are in the table.
    """
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.random.set_seed(args.seed)
    acting = parts.Acting(args, parts.make_config(args).make_builder(), args.address)
    with contextlib.closing(acting.adder) as adder:

        def run(seconds: float) -> tuple[int, float]:
            steps, start = 0, time.perf_counter()
            while time.perf_counter() - start < seconds:
                steps += acting.loop.step()
            adder.flush()
            return steps, time.perf_counter() - start

        run(args.warm_up_seconds)
        steps, seconds = run(args.seconds)
    print(json.dumps({'steps': steps, 'seconds': seconds}), flush=True)


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
