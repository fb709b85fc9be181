"""Our side of an actor's benchmarks: an agent's actor and its adder; no learner.

`serve` holds the table in one process, `act` runs the actor in another, `add` the adder
alone, on rows that were recorded; each prints one line of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import sys

import numpy as np
import tensorflow as tf

from benchmarks import timing
from benchmarks.own import configs, parts
from repertory.components import core, specs, types
from repertory.replay import server

_RECORDED = 200  # Vector steps: whole episodes of Catch.


def serve(args: argparse.Namespace) -> None:
    """Holds the table until standard input is closed."""
    builder = configs.make_config(args).make_builder()
    spec = specs.make_environment_spec(configs.make_environment(args, 0))
    policy = builder.make_policy(builder.make_networks(spec), spec, core.Role())
    tables = builder.make_table_specs(spec, policy, args.lanes)
    with server.ReplayServer(map(parts.uniform, tables)) as replay:
        print(json.dumps({'address': replay.address}), flush=True)
        sys.stdin.read()
        items = sum(table.size for table in replay.statistics())
        timing.report({'items': items})


def act(args: argparse.Namespace) -> None:
    """Reports the environment steps of an actor.

    The time ends when all items are in the table.
    """
    acting = _make_acting(args)
    with contextlib.closing(acting.adder) as adder:
        timing.report(timing.measure(args, acting.loop.step, adder.flush))


def add(args: argparse.Namespace) -> None:
    """Reports the environment steps that an adder takes, again and again the same."""
    acting = _make_acting(args)
    with contextlib.closing(acting.adder) as adder:
        taken: list[types.Row] = []
        original, adder.add = adder.add, taken.append  # type: ignore[method-assign]
        while len(taken) < _RECORDED:
            acting.loop.step()
        # A lane that begins anew took no environment step.
        moved = [int(np.sum(row.step_type != types.StepType.FIRST)) for row in taken]
        recorded = itertools.cycle(zip(taken, moved, strict=True))

        def step() -> int:
            row, num_steps = next(recorded)
            original(row)
            return num_steps

        timing.report(timing.measure(args, step, adder.flush))


def _make_acting(args: argparse.Namespace) -> parts.Acting:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.random.set_seed(args.seed)
    return parts.Acting(args, configs.make_config(args).make_builder(), args.address)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    configs.add_arguments(parser)
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
