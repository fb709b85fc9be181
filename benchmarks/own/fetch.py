"""What fetching parameters takes of an actor's steps: `serve` has them, `fetch` asks.

`serve` gives out new parameters each time with `--changing`, else always the same.
`fetch` calls what an actor calls after each vector step, and keeps the seconds.
"""

from __future__ import annotations

import argparse
import json
import sys

import courier
import tensorflow as tf

from benchmarks import timing
from repertory.components import variables

_LANES = 16
_PERIOD = 100  # Environment steps.


class Courier:
    """The parameters of another process."""

    def __init__(self, address: str):
        self._client = courier.Client(address)

    def get_variables(self):
        return self._client.get_variables()


def serve(args: argparse.Namespace) -> None:
    """Gives out parameters until standard input is closed."""
    values = timing.parameters()
    version = 0

    def get_variables():
        nonlocal version
        version += args.changing
        return version, values

    server = courier.Server()
    server.Bind('get_variables', get_variables)
    server.Start()
    print(json.dumps({'address': f'localhost:{server.port}'}), flush=True)
    sys.stdin.read()
    timing.report({})
    server.Stop()


def fetch(args: argparse.Namespace) -> None:
    """Reports what an environment step waits, of 16 lanes a vector step."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    client = variables.VariableClient(
        Courier(args.address), [tf.Variable(x) for x in timing.parameters()], _PERIOD
    )
    client.update(wait=True)
    timing.report(timing.measure_waits(args, lambda: client.update(_LANES), _LANES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--changing', action='store_true')
    commands = parser.add_subparsers(required=True)
    commands.add_parser('serve').set_defaults(run=serve)
    command = commands.add_parser('fetch')
    command.set_defaults(run=fetch)
    command.add_argument('--address', required=True)
    timing.add_arguments(command)
    args = parser.parse_args()
    args.run(args)


if __name__ == '__main__':
    main()
