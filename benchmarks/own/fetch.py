"""What fetching parameters takes of an actor's steps: `serve` has them, `fetch` asks.

`serve` gives out new parameters each time with `--changing`, else always the same.
`fetch` calls what an actor calls after each vector step, and keeps the seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

import courier
import numpy as np
import tensorflow as tf

from benchmarks import timing
from repertory.components import core, variables
from repertory.launch import remote


class Source(core.VariableSource):
    """Has parameters, new ones each time or always the same.

    Attributes:
        asked: times.
    """

    def __init__(self, changing: bool):
        self.asked = 0
        self._changing = changing
        self._version = 0
        self._values = timing.parameters()

    def get_variables(self) -> tuple[int, Sequence[np.ndarray]]:
        self.asked += 1
        self._version += self._changing
        return self._version, self._values


def serve(args: argparse.Namespace) -> None:
    """Gives out parameters until standard input is closed."""
    server = courier.Server()
    source = Source(args.changing)
    server.Bind('get_variables', remote.versioned(source))
    server.Start()
    print(json.dumps({'address': f'localhost:{server.port}'}), flush=True)
    sys.stdin.read()
    timing.report({'asked': source.asked})
    server.Stop()


def fetch(args: argparse.Namespace) -> None:
    """Reports what a call of an actor's `update` takes."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    # Only a wait needs a control.
    source = remote.RemoteVariables(courier.Client(args.address), control=None)
    client = variables.VariableClient(
        source, [tf.Variable(x) for x in timing.parameters()], timing.UPDATE_PERIOD
    )
    client.update(wait=True)
    timing.report(timing.measure_waits(args, lambda: client.update(1)))


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
