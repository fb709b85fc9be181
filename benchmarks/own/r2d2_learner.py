"""Our side of benchmarks/r2d2_learner.py; prints one line of JSON."""

from __future__ import annotations

import argparse
import json
import time

import dm_env.specs
import numpy as np
import tensorflow as tf
import tree

from repertory.agents import r2d2
from repertory.components import specs, types

SPEC = specs.EnvironmentSpec(
    observations=dm_env.specs.Array((10, 5), np.float32),
    actions=dm_env.specs.DiscreteArray(3),
    rewards=dm_env.specs.Array((), np.float32),
    discounts=dm_env.specs.BoundedArray((), np.float32, 0, 1),
)


def make_samples(config: r2d2.Config, state: types.Nest, seed: int):
    """Returns an iterator over one sample [updates per call, B, T, ...]."""
    random = np.random.default_rng(seed)
    lead = (config.updates_per_call, config.batch_size, config.sequence_length)
    row = types.Row(
        observation=random.normal(size=(*lead, 10, 5)).astype(np.float32),
        action=random.integers(0, 3, lead).astype(np.int32),
        reward=random.uniform(size=lead).astype(np.float32),
        discount=np.ones(lead, np.float32),
        step_type=np.ones(lead, np.uint8),
        extras={},
    )
    info = types.SampleInfo(
        key=np.zeros(lead[:2], np.uint64),
        probability=np.ones(lead[:2]),
        table_size=np.ones(lead[:2], np.int64),
        priority=np.ones(lead[:2]),
    )
    state = tree.map_structure(lambda x: tf.stack([x] * lead[0]), state)
    sample = types.Sample(info, types.Trajectory(row, state))
    return iter(tf.data.Dataset.from_tensors(sample).repeat().prefetch(1))


def act(args: argparse.Namespace) -> None:
    """Learns for `seconds` after a warm-up, and prints the learner steps."""
    tf.random.set_seed(args.seed)
    config = r2d2.Config(
        burn_in_length=args.burn_in,
        trace_length=args.trace,
        sequence_period=args.trace,
        hidden_sizes=(args.units,),
        lstm_size=args.units,
        dueling_size=args.units,
        action_reward=False,
        updates_per_call=args.updates_per_call,
    )
    builder = config.make_builder()
    networks = builder.make_networks(SPEC)
    state = networks.q.initial_state(config.batch_size)
    learner = builder.make_learner(
        networks,
        builder.make_networks(SPEC),
        SPEC,
        make_samples(config, state, args.seed),
        [],
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
    parser.add_argument('--burn-in', type=int, default=8)
    parser.add_argument('--trace', type=int, default=16)
    parser.add_argument('--units', type=int, default=64)
    parser.add_argument('--updates-per-call', type=int, default=1)
    acting = parser.add_subparsers(required=True).add_parser('act')
    acting.add_argument('--seed', type=int, default=0)
    acting.add_argument('--seconds', type=float, default=10.0)
    acting.add_argument('--warm-up-seconds', type=float, default=2.0)
    act(parser.parse_args())


if __name__ == '__main__':
    main()
