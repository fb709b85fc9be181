"""The peer's side of benchmarks/learner.py: dm-acme's learners.

Runs under the environment that setup_peer.sh makes: an actor fills a table of this
process, then the learner learns. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import time

import reverb
import tensorflow as tf
from acme import datasets
from acme.agents.tf.d4pg import learning as d4pg
from acme.agents.tf.dqn import learning as dqn
from acme.agents.tf.impala import learning as impala
from acme.agents.tf.r2d2 import learning as r2d2
from acme.utils import loggers

from benchmarks.peers.acme import parts

_BATCH_SIZES = {'apex_dqn': 256, 'd4pg': 256, 'r2d2': 32, 'impala': 16}
_FRAMES_BATCH_SIZES = {'apex_dqn': 32, 'r2d2': 8, 'impala': 16}


def make_learner(args: argparse.Namespace, spec, made, dataset, client):
    """Returns the learner; `made` are its networks."""
    target = parts.make_networks(args, spec)
    common = {'dataset': dataset, 'logger': loggers.NoOpLogger()}
    if args.agent == 'apex_dqn':
        return dqn.DQNLearner(
            network=made,
            target_network=target,
            discount=parts.DISCOUNT,
            importance_sampling_exponent=0.4,
            learning_rate=1e-3,
            target_update_period=100,
            replay_client=client,
            max_gradient_norm=40.0,
            checkpoint=False,
            **common,
        )
    if args.agent == 'r2d2':
        return r2d2.R2D2Learner(
            environment_spec=spec,
            network=made,
            target_network=target,
            burn_in_length=parts.BURN_IN,
            sequence_length=parts.TRACE + 1,
            target_update_period=100,
            clip_grad_norm=40.0,
            **common,
        )
    if args.agent == 'impala':
        return impala.IMPALALearner(
            environment_spec=spec,
            network=made,
            learning_rate=1e-3,
            max_gradient_norm=40.0,
            **common,
        )
    return d4pg.D4PGLearner(
        policy_network=made.policy_network,
        critic_network=made.critic_network,
        target_policy_network=target.policy_network,
        target_critic_network=target.critic_network,
        observation_network=made.observation_network,
        target_observation_network=target.observation_network,
        discount=parts.DISCOUNT,
        target_update_period=100,
        dataset_iterator=iter(dataset),
        logger=common['logger'],
        checkpoint=False,
    )


def act(args: argparse.Namespace) -> None:
    """Learns for `seconds` after a warm-up, and prints the learner steps."""
    tf.random.set_seed(args.seed)
    spec = parts.make_spec(args)
    table = parts.make_table(args, spec)
    server = reverb.Server([table])
    address = f'localhost:{server.port}'
    made = parts.make_networks(args, spec)
    actor = parts.make_actor(args, spec, made, address)
    environment = parts.make_environment(args, args.seed)
    while table.info.current_size < args.items:
        parts.run_episode(environment, actor)
    batch_sizes = _FRAMES_BATCH_SIZES if args.frames else _BATCH_SIZES
    dataset = datasets.make_reverb_dataset(
        server_address=address, batch_size=batch_sizes[args.agent], prefetch_size=4
    )
    client = reverb.Client(address)
    if args.data == 'memory':
        client = None  # No priorities are written back.
        sample = next(iter(dataset))
        dataset = tf.data.Dataset.from_tensors(sample).repeat().prefetch(1)
    learner = make_learner(args, spec, made, dataset, client)

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
    # Samplers of the dataset may still wait for the server.
    server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts.add_arguments(parser)
    parser.add_argument('--data', choices=('memory', 'replay'), default='memory')
    parser.add_argument('--items', type=int, default=2_000)
    acting = parser.add_subparsers(required=True).add_parser('act')
    acting.add_argument('--seed', type=int, default=0)
    acting.add_argument('--seconds', type=float, default=10.0)
    acting.add_argument('--warm-up-seconds', type=float, default=2.0)
    act(parser.parse_args())


if __name__ == '__main__':
    main()
