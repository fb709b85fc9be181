"""The peer's side of benchmarks/actor.py: dm-acme's DQN, D4PG or R2D2 actor.

Runs under the environment that setup_peer.sh makes. `serve` holds the table in one
process, `act` runs the actor in another; each prints one line of JSON. The actor,
the adder and the table are those of acme/agents/tf/{dqn,d4pg,r2d2}/agent.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import acme
import reverb
import sonnet as snt
import tensorflow as tf
import trfl
from acme.adders import reverb as adders
from acme.agents.tf import actors
from acme.agents.tf.d4pg import agent as d4pg
from acme.agents.tf.d4pg import networks
from acme.tf import networks as tf_networks
from acme.tf import utils

from repertory.components.environments import catch, registry

_EPSILON = 0.05
_SIGMA = 0.3
_DISCOUNT = 0.99
# R2D2's: 8 steps to burn in, 16 to train, and an observation more.
_SEQUENCE_LENGTH, _PERIOD, _UNITS = 25, 8, 64


class _Client(reverb.Client):
    """Drops the argument that dm-reverb 0.7.2 does not have."""

    def trajectory_writer(self, *args, get_signature_timeout_ms=None, **kwargs):
        del get_signature_timeout_ms
        return super().trajectory_writer(*args, **kwargs)


def _environment(args: argparse.Namespace, seed: int):
    if args.agent == 'd4pg':
        return registry.make_environment('control:cartpole:swingup', seed)
    return catch.Catch(seed)


def _make_policy(args: argparse.Namespace, spec) -> snt.Module:
    if args.agent == 'd4pg':
        made = d4pg.D4PGNetworks(
            *(
                networks.make_default_networks(spec.actions)[name]
                for name in ('policy', 'critic', 'observation')
            )
        )
        made.init(spec)
        return made.make_policy(spec, sigma=_SIGMA)
    if args.agent == 'r2d2':
        return snt.DeepRNN([_make_core(spec), _epsilon_greedy])
    network = snt.Sequential(
        [snt.Flatten(), snt.nets.MLP([*args.hidden_sizes, spec.actions.num_values])]
    )
    utils.create_variables(network, [spec.observations])
    return snt.Sequential([network, _epsilon_greedy])


def _epsilon_greedy(q: tf.Tensor) -> tf.Tensor:
    return trfl.epsilon_greedy(q, epsilon=_EPSILON).sample()


def _make_core(spec) -> snt.RNNCore:
    network = snt.DeepRNN(
        [
            snt.Flatten(),
            snt.nets.MLP([_UNITS], activate_final=True),
            snt.LSTM(_UNITS),
            tf_networks.DuellingMLP(spec.actions.num_values, [_UNITS]),
        ]
    )
    utils.create_variables(network, [spec.observations])
    return network


def _make_signature(args: argparse.Namespace):
    spec = acme.make_environment_spec(_environment(args, 0))
    if args.agent != 'r2d2':
        return adders.NStepTransitionAdder.signature(spec)
    state = utils.squeeze_batch_dim(_make_core(spec).initial_state(1))
    return adders.SequenceAdder.signature(
        spec, {'core_state': state}, sequence_length=_SEQUENCE_LENGTH
    )


def _make_actor(args: argparse.Namespace, spec):
    policy, client = _make_policy(args, spec), _Client(args.address)
    if args.agent == 'r2d2':
        adder = adders.SequenceAdder(
            client=client, period=_PERIOD, sequence_length=_SEQUENCE_LENGTH
        )
        return actors.RecurrentActor(policy, adder)
    adder = adders.NStepTransitionAdder(
        client=client, n_step=args.n_step, discount=_DISCOUNT
    )
    return actors.FeedForwardActor(policy, adder)


def serve(args: argparse.Namespace) -> None:
    """Holds the table until standard input is closed."""
    table = reverb.Table(
        name=adders.DEFAULT_PRIORITY_TABLE,
        sampler=reverb.selectors.Prioritized(0.6)
        if args.agent != 'd4pg'
        else reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        max_size=1_000_000,
        rate_limiter=reverb.rate_limiters.MinSize(1),
        signature=_make_signature(args),
    )
    server = reverb.Server([table])
    print(json.dumps({'address': f'localhost:{server.port}'}), flush=True)
    sys.stdin.read()
    print(json.dumps({'items': table.info.current_size}), flush=True)
    server.stop()


def act(args: argparse.Namespace) -> None:
    """Acts for `seconds` after a warm-up, and prints the environment steps."""
    # As on our side; here it is also the faster choice.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.random.set_seed(args.seed)
    environment = _environment(args, args.seed)
    actor = _make_actor(args, acme.make_environment_spec(environment))

    def run(seconds: float) -> tuple[int, float]:
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            timestep = environment.reset()
            actor.observe_first(timestep)
            while not timestep.last():
                action = actor.select_action(timestep.observation)
                timestep = environment.step(action)
                actor.observe(action, next_timestep=timestep)
                actor.update()
                steps += 1
        return steps, time.perf_counter() - start

    run(args.warm_up_seconds)
    steps, seconds = run(args.seconds)
    print(json.dumps({'steps': int(steps), 'seconds': seconds}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        '--agent', choices=('apex_dqn', 'd4pg', 'r2d2'), default='apex_dqn'
    )
    commands = parser.add_subparsers(required=True)
    commands.add_parser('serve').set_defaults(run=serve)
    acting = commands.add_parser('act')
    acting.set_defaults(run=act)
    acting.add_argument('--address', required=True)
    acting.add_argument('--seed', type=int, default=0)
    acting.add_argument('--n-step', type=int, default=5)
    acting.add_argument('--hidden-sizes', type=int, nargs='*', default=[50, 50])
    acting.add_argument('--seconds', type=float, default=10.0)
    acting.add_argument('--warm-up-seconds', type=float, default=2.0)
    args = parser.parse_args()
    args.run(args)


if __name__ == '__main__':
    main()
