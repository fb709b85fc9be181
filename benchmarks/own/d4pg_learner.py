"""Our side of benchmarks/d4pg_learner.py; prints one line of JSON."""

from __future__ import annotations

import argparse
import json
import time

import dm_env.specs
import numpy as np
import tensorflow as tf

from repertory.agents import d4pg
from repertory.components import specs, types


def make_samples(batch_size: int, updates_per_call: int, seed: int):
    """Returns an iterator over one sample [updates_per_call, batch_size, ...]."""
    random = np.random.default_rng(seed)
    lead = (updates_per_call, batch_size)
    sample = types.Sample(
        types.SampleInfo(
            key=np.zeros(lead, np.uint64),
            probability=np.ones(lead),
            table_size=np.ones(lead, np.int64),
            priority=np.ones(lead),
        ),
        types.Transition(
            observation=random.normal(size=(*lead, 5)).astype(np.float32),
            action=random.uniform(-1, 1, (*lead, 1)).astype(np.float32),
            reward=random.uniform(size=lead).astype(np.float32),
            discount=np.full(lead, 0.99**5, np.float32),
            next_observation=random.normal(size=(*lead, 5)).astype(np.float32),
            extras={},
        ),
    )
    return iter(tf.data.Dataset.from_tensors(sample).repeat().prefetch(1))


def act(args: argparse.Namespace) -> None:
    """Learns for `seconds` after a warm-up, and prints the learner steps."""
    tf.random.set_seed(args.seed)
    config = d4pg.Config(
        policy_sizes=(256, 256, 256),
        critic_sizes=(512, 512, 256),
        updates_per_call=args.updates_per_call,
    )
    spec = specs.EnvironmentSpec(
        observations=dm_env.specs.Array((5,), np.float32),
        actions=dm_env.specs.BoundedArray((1,), np.float32, -1, 1),
        rewards=dm_env.specs.Array((), np.float32),
        discounts=dm_env.specs.BoundedArray((), np.float32, 0, 1),
    )
    builder = config.make_builder()
    learner = builder.make_learner(
        builder.make_networks(spec),
        builder.make_networks(spec),
        spec,
        make_samples(config.batch_size, args.updates_per_call, args.seed),
        [],
    )

    def run(seconds: float) -> tuple[int, float]:
        steps, start = learner.steps, time.perf_counter()
        while time.perf_counter() - start < seconds:
            learner.step()
        return learner.steps - steps, time.perf_counter() - start

    learner.step()  # Traces.
    run(args.warm_up_seconds)
    steps, seconds = run(args.seconds)
    print(json.dumps({'steps': steps, 'seconds': seconds}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--updates-per-call', type=int, default=1)
    acting = parser.add_subparsers(required=True).add_parser('act')
    acting.add_argument('--seed', type=int, default=0)
    acting.add_argument('--seconds', type=float, default=10.0)
    acting.add_argument('--warm-up-seconds', type=float, default=2.0)
    act(parser.parse_args())


if __name__ == '__main__':
    main()
