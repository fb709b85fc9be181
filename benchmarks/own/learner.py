"""Our side of benchmarks/learner.py: an actor fills a table, then a learner learns.

Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import time

import tensorflow as tf

from benchmarks.own import parts
from repertory.components import core, specs
from repertory.replay import limits, server


def _uniform(table):
    """Returns a queue's table as one that can be read again and again."""
    if not table.is_queue:
        return table
    return dataclasses.replace(
        table,
        sampler='uniform',
        max_times_sampled=0,
        rate_limit=limits.RateLimit(min_size=1),
    )


def act(args: argparse.Namespace) -> None:
    """Learns for `seconds` after a warm-up, and prints the learner steps."""
    if not args.frames:  # As a learner's process is set up.
        tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.random.set_seed(args.seed)
    config = dataclasses.replace(
        parts.make_config(args), updates_per_call=args.updates_per_call
    )
    builder = config.make_builder()
    spec = specs.make_environment_spec(parts.make_environment(args, 0))
    networks = builder.make_networks(spec)
    policy = builder.make_policy(networks, spec, core.Role())
    tables = builder.make_table_specs(spec, policy, args.lanes)
    with contextlib.ExitStack() as stack:
        replay = stack.enter_context(server.ReplayServer([_uniform(t) for t in tables]))
        acting = parts.Acting(args, builder, replay.address)
        while acting.adder.num_items < args.items:
            acting.loop.step()
        acting.adder.flush()
        acting.adder.close()
        dataset = builder.make_dataset(
            [replay.address], spec, policy, args.lanes, prefetch=True
        )
        addresses = [replay.address]
        if args.data == 'memory':
            addresses = []  # No priorities are written back.
            sample = next(iter(dataset))
            dataset = tf.data.Dataset.from_tensors(sample).repeat().prefetch(1)
        learner = stack.enter_context(
            contextlib.closing(
                builder.make_learner(
                    networks,
                    builder.make_networks(spec),
                    spec,
                    iter(dataset),
                    addresses,
                )
            )
        )

        def run(seconds: float) -> tuple[int, float]:
            steps, start = learner.steps, time.perf_counter()
            while time.perf_counter() - start < seconds:
                learner.step()
            return learner.steps - steps, time.perf_counter() - start

        _, trace_seconds = run(0.01)
        run(args.warm_up_seconds)
        steps, seconds = run(args.seconds)
    result = {'steps': steps, 'seconds': seconds, 'trace_seconds': trace_seconds}
    print(json.dumps(result), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts.add_arguments(parser)
    parser.add_argument('--data', choices=('memory', 'replay'), default='memory')
    parser.add_argument('--items', type=int, default=2_000)
    parser.add_argument('--updates-per-call', type=int, default=4)
    acting = parser.add_subparsers(required=True).add_parser('act')
    acting.add_argument('--seed', type=int, default=0)
    acting.add_argument('--seconds', type=float, default=10.0)
    acting.add_argument('--warm-up-seconds', type=float, default=2.0)
    act(parser.parse_args())


if __name__ == '__main__':
    main()
