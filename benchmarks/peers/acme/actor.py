"""The peer's side of an actor's benchmarks: dm-acme's actors and adders.

Runs under the environment that setup_peer.sh makes. `serve` holds the table in one
process, `act` runs the actor in another, `add` the adder alone, on recorded episodes;
each prints one line of JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys

import reverb
import tensorflow as tf

from benchmarks import timing
from benchmarks.peers.acme import parts

_EPISODES = {'d4pg': 1}  # Of 1,000 steps; those of Catch have 9.


def serve(args: argparse.Namespace) -> None:
    """Holds the table until standard input is closed."""
    table = parts.make_table(args, parts.make_spec(args))
    server = reverb.Server([table])
    print(json.dumps({'address': f'localhost:{server.port}'}), flush=True)
    sys.stdin.read()
    timing.report({'items': table.info.current_size})
    server.stop()


def act(args: argparse.Namespace) -> None:
    """Reports the environment steps of an actor."""
    environment, actor = _make_actor(args)
    timing.report(timing.measure(args, lambda: parts.run_episode(environment, actor)))


def add(args: argparse.Namespace) -> None:
    """Reports the environment steps that an adder takes, again and again the same."""
    environment, actor = _make_actor(args)
    adder, calls = actor._adder, []
    first, later = adder.add_first, adder.add
    adder.add_first = lambda *args, **kwargs: calls.append((first, args, kwargs))
    adder.add = lambda *args, **kwargs: calls.append((later, args, kwargs))
    for _ in range(_EPISODES.get(args.agent, 20)):
        parts.run_episode(environment, actor)
    recorded = itertools.cycle(calls)

    def step() -> int:
        method, positional, named = next(recorded)
        method(*positional, **named)
        return int(method is not first)

    timing.report(timing.measure(args, step))


def _make_actor(args: argparse.Namespace):
    # As on our side; here it is also the faster choice.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.random.set_seed(args.seed)
    environment, spec = parts.make_environment(args, args.seed), parts.make_spec(args)
    networks = parts.make_networks(args, spec)
    return environment, parts.make_actor(args, spec, networks, args.address)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts.add_arguments(parser)
    commands = parser.add_subparsers(required=True)
    commands.add_parser('serve').set_defaults(run=serve)
    for name, run in (('act', act), ('add', add)):
        command = commands.add_parser(name)
        command.set_defaults(run=run)
        command.add_argument('--address', required=True)
        timing.add_arguments(command)
    args = parser.parse_args()
    args.run(args)


if __name__ == '__main__':
    main()
