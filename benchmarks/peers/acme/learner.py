"""The peer's side of a learner's benchmarks: dm-acme's learners and datasets.

Runs under the environment that setup_peer.sh makes: an actor fills a table, then
`learn` learns from it, or `sample` takes batches alone. Prints one line of JSON.
"""

from __future__ import annotations

import argparse

import reverb
import tensorflow as tf
from acme import datasets
from acme.agents.tf.d4pg import learning as d4pg
from acme.agents.tf.dqn import learning as dqn
from acme.agents.tf.impala import learning as impala
from acme.agents.tf.r2d2 import learning as r2d2
from acme.utils import loggers

from benchmarks import timing
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


def learn(args: argparse.Namespace) -> None:
    """Reports the learner steps."""
    spec, made, dataset, address, server = _make_dataset(args)
    client = reverb.Client(address)
    if args.data == 'memory':
        client = None  # No priorities are written back.
        sampled = next(iter(dataset))
        dataset = tf.data.Dataset.from_tensors(sampled).repeat().prefetch(1)
    learner = make_learner(args, spec, made, dataset, client)

    def step() -> int:
        learner.step()
        return 1

    timing.report(timing.measure(args, step))
    _stop(server)


def sample(args: argparse.Namespace) -> None:
    """Reports the batches that are sampled."""
    *_, dataset, _, server = _make_dataset(args)
    iterator = iter(dataset)

    def step() -> int:
        next(iterator)
        return 1

    timing.report(timing.measure(args, step))
    _stop(server)


def _make_dataset(args: argparse.Namespace):
    """Returns specs, networks, a dataset of a filled table, its address and server."""
    tf.random.set_seed(args.seed)
    spec = parts.make_spec(args)
    address, server = args.address, None
    if address is None:
        server = reverb.Server([parts.make_table(args, spec)])
        address = f'localhost:{server.port}'
    made = parts.make_networks(args, spec)
    actor = parts.make_actor(args, spec, made, address)
    environment, client = (
        parts.make_environment(args, args.seed),
        reverb.Client(address),
    )
    while sum(t.current_size for t in client.server_info().values()) < args.items:
        parts.run_episode(environment, actor)
    batch_sizes = _FRAMES_BATCH_SIZES if args.frames else _BATCH_SIZES
    dataset = datasets.make_reverb_dataset(
        server_address=address, batch_size=batch_sizes[args.agent], prefetch_size=4
    )
    return spec, made, dataset, address, server


def _stop(server) -> None:
    if server is not None:  # Samplers of the dataset may still wait for it.
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts.add_arguments(parser)
    parser.add_argument('--data', choices=('memory', 'replay'), default='memory')
    parser.add_argument('--items', type=int, default=2_000)
    commands = parser.add_subparsers(required=True)
    for name, run in (('learn', learn), ('sample', sample)):
        command = commands.add_parser(name)
        command.set_defaults(run=run)
        command.add_argument('--address')
        timing.add_arguments(command)
    args = parser.parse_args()
    args.run(args)


if __name__ == '__main__':
    main()
