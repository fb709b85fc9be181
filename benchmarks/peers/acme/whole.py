"""The peer's side of benchmarks/whole.py: dm-acme's DQN, in the one process it has.

Its defaults, with the network of our side. Prints when an evaluation had the mark.
"""

from __future__ import annotations

import argparse
import statistics
import time

import acme
import reverb
import sonnet as snt
import tensorflow as tf
from acme.agents.tf import dqn
from acme.tf import networks
from acme.utils import loggers

from benchmarks import timing
from benchmarks.peers.acme import parts
from repertory.components.environments import registry

_NAMES = {'catch': 'catch', 'cartpole': 'gym:CartPole-v1'}


def evaluate(environment, act, num_episodes: int) -> float:
    """Returns the mean return of the policy `act`."""
    returns = []
    for _ in range(num_episodes):
        timestep, total = environment.reset(), 0.0
        while not timestep.last():
            action = act(tf.constant(timestep.observation[None]))
            timestep = environment.step(action.numpy()[0].astype('int32'))
            total += timestep.reward
        returns.append(total)
    return statistics.mean(returns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    command = parser.add_subparsers(required=True).add_parser('learn')
    timing.add_mark_arguments(command)
    args = parser.parse_args()
    tf.random.set_seed(args.seed)
    reverb.Client = parts.Client
    environment, evaluated = (
        acme.wrappers.SinglePrecisionWrapper(
            registry.make_environment(_NAMES[args.task], args.seed + offset)
        )
        for offset in (0, 1_000)
    )
    spec = acme.make_environment_spec(environment)
    network = snt.Sequential(
        [
            snt.Flatten(),
            snt.nets.MLP([64], activate_final=True),
            networks.DuellingMLP(spec.actions.num_values, [64]),
        ]
    )
    logger = loggers.NoOpLogger()
    agent = dqn.DQN(spec, network, checkpoint=False, logger=logger)
    act = tf.function(lambda o: tf.argmax(network(o), axis=-1))
    begin, steps, reached = time.monotonic(), 0, None
    due = begin + args.period_seconds
    while reached is None and time.monotonic() - begin < args.seconds:
        steps += int(parts.run_episode(environment, agent))
        if time.monotonic() >= due:
            if evaluate(evaluated, act, args.episodes) >= args.mark:
                reached = time.time()
            due = time.monotonic() + args.period_seconds
    seconds = time.monotonic() - begin
    timing.report(
        {
            'reached_at': reached,
            'actor_steps': steps,
            'environment_steps_per_second': steps / seconds,
            'learner_steps_per_second': int(agent._learner._num_steps) / seconds,
        }
    )


if __name__ == '__main__':
    main()
