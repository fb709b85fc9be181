"""Our side of a learner's benchmarks: an actor fills a table, then it is learned from.

`learn` runs the learner, `sample` takes its batches alone, `fill` reports the memory;
each prints one line of JSON. The table is in this process, or at `--address`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses

import psutil
import tensorflow as tf

from benchmarks import timing
from benchmarks.own import configs, parts
from repertory.components import core, specs
from repertory.replay import prefetching, server


class _Learning:
    """A filled table, and what learns from it."""

    def __init__(self, args: argparse.Namespace, stack: contextlib.ExitStack):
        if not args.frames:  # As a learner's process is set up.
            tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.random.set_seed(args.seed)
        config = dataclasses.replace(
            configs.make_config(args), updates_per_call=args.updates_per_call
        )
        self.builder = config.make_builder()
        self.spec = specs.make_environment_spec(configs.make_environment(args, 0))
        self.networks = self.builder.make_networks(self.spec)
        policy = self.builder.make_policy(self.networks, self.spec, core.Role())
        self.address = args.address
        if self.address is None:
            tables = self.builder.make_table_specs(self.spec, policy, args.lanes)
            replay = server.ReplayServer(map(parts.uniform, tables))
            self.address = stack.enter_context(replay).address
        acting = parts.Acting(args, self.builder, self.address)
        self.filled = []  # Items, and resident bytes with them.
        for num_items in (args.items // 4, args.items):
            while acting.adder.num_items < num_items:
                acting.loop.step()
            acting.adder.flush()
            resident = psutil.Process().memory_info().rss
            self.filled.append((acting.adder.num_items, resident))
        acting.adder.close()
        self.dataset = self.builder.make_dataset(
            [self.address], self.spec, policy, args.lanes, prefetch=True
        )


def learn(args: argparse.Namespace) -> None:
    """Reports the learner steps."""
    with contextlib.ExitStack() as stack:
        it = _Learning(args, stack)
        dataset, addresses = it.dataset, [it.address]
        if args.data == 'memory':
            addresses = []  # No priorities are written back.
            sample = next(iter(dataset))
            dataset = tf.data.Dataset.from_tensors(sample).repeat().prefetch(1)
        target = it.builder.make_networks(it.spec)
        # As a learner's process takes them.
        samples = stack.enter_context(prefetching.Prefetcher(dataset, parts.wait))
        learner = it.builder.make_learner(
            it.networks, target, it.spec, samples, addresses
        )
        stack.enter_context(contextlib.closing(learner))

        def step() -> int:
            before = learner.steps
            learner.step()
            return learner.steps - before

        timing.report(timing.measure(args, step))


def sample(args: argparse.Namespace) -> None:
    """Reports the batches that are sampled, decoded."""
    with contextlib.ExitStack() as stack:
        it = _Learning(args, stack)
        num_batches = it.dataset.element_spec.info.key.shape[0]
        samples = stack.enter_context(prefetching.Prefetcher(it.dataset, parts.wait))

        def step() -> int:
            next(samples)
            return num_batches

        timing.report(timing.measure(args, step))


def fill(args: argparse.Namespace) -> None:
    """Reports the memory that the items take in this process."""
    with contextlib.ExitStack() as stack:
        it = _Learning(args, stack)
        (some, first_bytes), (items, resident_bytes) = it.filled
        timing.report(
            {
                'items': items,
                # But for what is there once, such as threads and their buffers.
                'bytes_per_item': (resident_bytes - first_bytes) / (items - some),
            }
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    configs.add_arguments(parser)
    parser.add_argument('--data', choices=('memory', 'replay'), default='memory')
    parser.add_argument('--items', type=int, default=2_000)
    parser.add_argument('--updates-per-call', type=int, default=4)
    commands = parser.add_subparsers(required=True)
    for name, run in (('learn', learn), ('sample', sample), ('fill', fill)):
        command = commands.add_parser(name)
        command.set_defaults(run=run)
        command.add_argument('--address')
        timing.add_arguments(command)
    args = parser.parse_args()
    args.run(args)


if __name__ == '__main__':
    main()
