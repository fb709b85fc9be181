"""The peer's side of benchmarks/d4pg_learner.py: dm-acme's D4PG learner.

Runs under the environment that setup_peer.sh makes; prints one line of JSON. Networks
and learner are those of acme/agents/tf/d4pg, with their defaults.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import reverb
import tensorflow as tf
from acme import specs, types
from acme.agents.tf.d4pg import learning, networks
from acme.tf import utils
from acme.utils import loggers

_BATCH_SIZE = 256


def make_networks() -> tuple:
    """Returns policy and critic with their variables created."""
    observation = specs.Array((5,), np.float32)
    action = specs.BoundedArray((1,), np.float32, -1.0, 1.0)
    made = networks.make_default_networks(action)
    utils.create_variables(made['policy'], [observation])
    utils.create_variables(made['critic'], [observation, action])
    return made['policy'], made['critic'], made['observation']


def make_samples(seed: int):
    """Returns an iterator over one sample [256, ...]."""
    random = np.random.default_rng(seed)
    data = types.Transition(
        observation=random.normal(size=(_BATCH_SIZE, 5)).astype(np.float32),
        action=random.uniform(-1, 1, (_BATCH_SIZE, 1)).astype(np.float32),
        reward=random.uniform(size=_BATCH_SIZE).astype(np.float32),
        discount=np.full(_BATCH_SIZE, 0.99**4, np.float32),
        next_observation=random.normal(size=(_BATCH_SIZE, 5)).astype(np.float32),
    )
    sample = reverb.ReplaySample(info=(), data=data)
    return iter(tf.data.Dataset.from_tensors(sample).repeat().prefetch(1))


def act(args: argparse.Namespace) -> None:
    """Learns for `seconds` after a warm-up, and prints the learner steps."""
    tf.random.set_seed(args.seed)
    policy, critic, observation = make_networks()
    target_policy, target_critic, target_observation = make_networks()
    learner = learning.D4PGLearner(
        policy_network=policy,
        critic_network=critic,
        target_policy_network=target_policy,
        target_critic_network=target_critic,
        observation_network=observation,
        target_observation_network=target_observation,
        discount=0.99,
        target_update_period=100,
        dataset_iterator=make_samples(args.seed),
        logger=loggers.NoOpLogger(),
        checkpoint=False,
    )

    def run(seconds: float) -> tuple[int, float]:
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            learner.step()
            steps += 1
        return steps, time.perf_counter() - start

    learner.step()  # Traces.
    run(args.warm_up_seconds)
    steps, seconds = run(args.seconds)
    print(json.dumps({'steps': steps, 'seconds': seconds}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    acting = parser.add_subparsers(required=True).add_parser('act')
    acting.add_argument('--seed', type=int, default=0)
    acting.add_argument('--seconds', type=float, default=10.0)
    acting.add_argument('--warm-up-seconds', type=float, default=2.0)
    act(parser.parse_args())


if __name__ == '__main__':
    main()
