"""The peer's side of benchmarks/fetch.py: dm-acme's variable client."""

from __future__ import annotations

import argparse

import courier
import tensorflow as tf
from acme.tf import variable_utils

from benchmarks import timing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    command = parser.add_subparsers(required=True).add_parser('fetch')
    command.add_argument('--address', required=True)
    timing.add_arguments(command)
    args = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    source = courier.Client(args.address)

    class Source:
        """Asks the server of our side, which the peer's own would take as long as."""

        def get_variables(self, names):
            del names
            return [source.get_variables(-1)[1]]  # It asks for all, each time.

    values = [tf.Variable(x) for x in timing.parameters()]
    client = variable_utils.VariableClient(
        Source(), {'policy': values}, timing.UPDATE_PERIOD
    )
    client.update_and_wait()
    timing.report(timing.measure_waits(args, client.update))


if __name__ == '__main__':
    main()
