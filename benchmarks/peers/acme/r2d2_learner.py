"""The peer's side of benchmarks/r2d2_learner.py: dm-acme's R2D2 learner.

Runs under the environment that setup_peer.sh makes; prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import reverb
import sonnet as snt
import tensorflow as tf
from acme import specs
from acme.adders.reverb import base
from acme.agents.tf.r2d2 import learning
from acme.tf import networks, utils
from acme.utils import loggers

_BATCH_SIZE = 32
SPEC = specs.EnvironmentSpec(
    observations=specs.Array((10, 5), np.float32),
    actions=specs.DiscreteArray(3),
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0, 1),
)


def make_network(units: int) -> snt.RNNCore:
    """Returns the network of our side, made of the peer's parts."""
    network = snt.DeepRNN(
        [
            snt.Flatten(),
            snt.nets.MLP([units], activate_final=True),
            snt.LSTM(units),
            networks.DuellingMLP(SPEC.actions.num_values, [units]),
        ]
    )
    utils.create_variables(network, [SPEC.observations])
    return network


def make_dataset(length: int, state, seed: int) -> tf.data.Dataset:
    """Returns one sample [32, length, ...], repeated."""
    random = np.random.default_rng(seed)
    lead = (_BATCH_SIZE, length)
    data = base.Step(
        observation=random.normal(size=(*lead, 10, 5)).astype(np.float32),
        action=random.integers(0, 3, lead).astype(np.int32),
        reward=random.uniform(size=lead).astype(np.float32),
        discount=np.ones(lead, np.float32),
        start_of_episode=np.zeros(lead, bool),
        extras={
            'core_state': tf.nest.map_structure(
                lambda x: tf.repeat(x[:, tf.newaxis], length, axis=1), state
            )
        },
    )
    info = reverb.SampleInfo(
        *(
            np.ones(_BATCH_SIZE, dtype.as_numpy_dtype)
            for dtype in reverb.SampleInfo.tf_dtypes()
        )
    )
    sample = reverb.ReplaySample(info=info, data=data)
    return tf.data.Dataset.from_tensors(sample).repeat().prefetch(1)


def act(args: argparse.Namespace) -> None:
    """Learns for `seconds` after a warm-up, and prints the learner steps."""
    tf.random.set_seed(args.seed)
    network, target = make_network(args.units), make_network(args.units)
    learner = learning.R2D2Learner(
        environment_spec=SPEC,
        network=network,
        target_network=target,
        burn_in_length=args.burn_in,
        sequence_length=args.trace + 1,
        dataset=make_dataset(
            args.burn_in + args.trace + 1,
            network.initial_state(_BATCH_SIZE),
            args.seed,
        ),
        target_update_period=100,
        clip_grad_norm=40.0,
        logger=loggers.NoOpLogger(),
    )

    def run(seconds: float) -> tuple[int, float]:
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            learner.step()
            steps += 1
        return steps, time.perf_counter() - start

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
    acting = parser.add_subparsers(required=True).add_parser('act')
    acting.add_argument('--seed', type=int, default=0)
    acting.add_argument('--seconds', type=float, default=10.0)
    acting.add_argument('--warm-up-seconds', type=float, default=2.0)
    act(parser.parse_args())


if __name__ == '__main__':
    main()
