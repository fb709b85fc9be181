"""What the peer runs: dm-acme's agents, with the networks of our side."""

from __future__ import annotations

import argparse

import acme
import reverb
import sonnet as snt
import tensorflow as tf
import trfl
from acme.adders import reverb as adders
from acme.agents.tf import actors
from acme.agents.tf.d4pg import agent as d4pg
from acme.agents.tf.d4pg import networks as d4pg_networks
from acme.agents.tf.impala import acting as impala
from acme.tf import networks, utils

from benchmarks import frames
from repertory.components.environments import catch, registry

_EPSILON = 0.05
_SIGMA = 0.3
DISCOUNT = 0.99
N_STEP = 5
# R2D2's: 4 steps to burn in, 16 to train, and an observation more.
BURN_IN = 4
TRACE = 16
_PERIOD = 8
_UNROLL = 20


class Client(reverb.Client):
    """Drops the argument that dm-reverb 0.7.2 does not have."""

    def trajectory_writer(self, *args, get_signature_timeout_ms=None, **kwargs):
        del get_signature_timeout_ms
        return super().trajectory_writer(*args, **kwargs)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    agents = ('apex_dqn', 'd4pg', 'r2d2', 'impala')
    parser.add_argument('--agent', choices=agents, default='apex_dqn')
    parser.add_argument('--frames', action='store_true')
    parser.add_argument('--units', type=int, default=64)


def make_environment(args: argparse.Namespace, seed: int):
    if args.frames:
        return frames.Frames(seed)
    if args.agent == 'd4pg':
        return registry.make_environment('control:cartpole:swingup', seed)
    return catch.Catch(seed)


def make_spec(args: argparse.Namespace):
    return acme.make_environment_spec(make_environment(args, 0))


def make_networks(args: argparse.Namespace, spec):
    """Returns Q, the recurrent core, or D4PG's networks, with variables created."""
    if args.agent == 'd4pg':
        made = d4pg_networks.make_default_networks(spec.actions)
        made = d4pg.D4PGNetworks(made['policy'], made['critic'], made['observation'])
        made.init(spec)
        return made
    num_actions = spec.actions.num_values
    recurrent = args.agent in ('r2d2', 'impala')
    if args.frames:
        torso, units = (
            [_scale, networks.AtariTorso()],
            512 if args.agent == 'r2d2' else 256,
        )
        hidden = 512
    elif recurrent:
        units = hidden = args.units
        torso = [snt.Flatten(), snt.nets.MLP([units], activate_final=True)]
    else:
        hidden = 50
        torso = [snt.Flatten(), snt.nets.MLP([hidden], activate_final=True)]
    if args.agent == 'impala':
        head = networks.PolicyValueHead(num_actions)
    else:
        head = networks.DuellingMLP(num_actions, [hidden])
    if recurrent:
        network = snt.DeepRNN([*torso, snt.LSTM(units), head])
    else:
        network = snt.Sequential([*torso, head])
    utils.create_variables(network, [spec.observations])
    return network


def _scale(frames: tf.Tensor) -> tf.Tensor:
    # Here, not in the environment as dm-acme has it: that would write four times as
    # many bytes.
    return tf.cast(frames, tf.float32) / 255.0


def make_table(args: argparse.Namespace, spec) -> reverb.Table:
    """Returns the agent's table, without limits, so that either side runs alone."""
    prioritized = args.agent in ('apex_dqn', 'r2d2')
    sampler = reverb.selectors.Prioritized(0.6)
    return reverb.Table(
        name=adders.DEFAULT_PRIORITY_TABLE,
        sampler=sampler if prioritized else reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        max_size=20_000 if args.frames else 1_000_000,
        rate_limiter=reverb.rate_limiters.MinSize(1),
        signature=_make_signature(args, spec),
    )


def _make_signature(args: argparse.Namespace, spec):
    if args.agent in ('apex_dqn', 'd4pg'):
        return adders.NStepTransitionAdder.signature(spec)
    state = make_networks(args, spec).initial_state(1)
    extras = {'core_state': utils.squeeze_batch_dim(state)}
    if args.agent == 'impala':
        extras['logits'] = tf.ones([spec.actions.num_values])
        return adders.SequenceAdder.signature(spec, extras, sequence_length=_UNROLL + 1)
    return adders.SequenceAdder.signature(
        spec, extras, sequence_length=BURN_IN + TRACE + 1
    )


def make_actor(args: argparse.Namespace, spec, made, address: str):
    """Returns the actor with its adder, as acme/agents/tf/*/agent.py make them."""
    client = Client(address)
    if args.agent in ('r2d2', 'impala'):
        unroll = args.agent == 'impala'
        adder = adders.SequenceAdder(
            client=client,
            period=_UNROLL if unroll else _PERIOD,
            sequence_length=(_UNROLL if unroll else BURN_IN + TRACE) + 1,
        )
        if unroll:
            return impala.IMPALAActor(made, adder)
        return actors.RecurrentActor(snt.DeepRNN([made, _epsilon_greedy]), adder)
    adder = adders.NStepTransitionAdder(client=client, n_step=N_STEP, discount=DISCOUNT)
    if args.agent == 'd4pg':
        policy = made.make_policy(spec, sigma=_SIGMA)
    else:
        policy = snt.Sequential([made, _epsilon_greedy])
    return actors.FeedForwardActor(policy, adder)


def _epsilon_greedy(q: tf.Tensor) -> tf.Tensor:
    return trfl.epsilon_greedy(q, epsilon=_EPSILON).sample()


def run_episode(environment, actor) -> int:
    """Plays an episode and returns its environment steps."""
    steps, timestep = 0, environment.reset()
    actor.observe_first(timestep)
    while not timestep.last():
        action = actor.select_action(timestep.observation)
        timestep = environment.step(action)
        actor.observe(action, next_timestep=timestep)
        actor.update()
        steps += 1
    return steps
