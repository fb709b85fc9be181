"""dm-acme's DQN, with its defaults, on Catch; see run.py.

Runs under the environment that benchmarks/peers/acme/setup_peer.sh makes.
"""

from __future__ import annotations

import csv
import sys
import time

import acme
import numpy as np
import reverb
import sonnet as snt
import tensorflow as tf
from acme.agents.tf import actors, dqn
from acme.tf import networks
from acme.utils import loggers

from benchmarks.peers.acme import parts
from repertory.components.environments import catch

_STEPS, _PERIOD, _EPISODES = 20_000, 500, 50


def evaluate(environment: catch.Catch, actor) -> float:
    """Returns the mean return of greedy episodes."""
    returns = []
    for _ in range(_EPISODES):
        timestep, total = environment.reset(), 0.0
        while not timestep.last():
            timestep = environment.step(actor.select_action(timestep.observation))
            total += timestep.reward
        returns.append(total)
    return float(np.mean(returns))


def main() -> None:
    seed, path = int(sys.argv[1]), sys.argv[2]
    tf.random.set_seed(seed)
    reverb.Client = parts.Client  # Its adder passes what dm-reverb 0.7.2 has not.
    environment, evaluated = catch.Catch(seed), catch.Catch(seed + 1_000)
    network = snt.Sequential(
        [
            snt.Flatten(),
            snt.nets.MLP([64], activate_final=True),
            networks.DuellingMLP(3, [64]),
        ]
    )
    agent = dqn.DQN(
        acme.make_environment_spec(environment),
        network,
        checkpoint=False,
        logger=loggers.NoOpLogger(),
    )
    greedy = actors.FeedForwardActor(
        snt.Sequential([network, lambda q: tf.argmax(q, axis=-1, output_type=tf.int32)])
    )
    begin, steps, next_evaluation = time.monotonic(), 0, 0
    with open(path, 'w', newline='') as file:
        writer = csv.writer(file)
        writer.writerow(['actor_steps', 'learner_steps', 'seconds', 'episode_return'])
        while True:
            if steps >= next_evaluation:
                next_evaluation += _PERIOD
                value = evaluate(evaluated, greedy)
                learner_steps = int(agent._learner._num_steps)
                seconds = round(time.monotonic() - begin, 3)
                writer.writerow([steps, learner_steps, seconds, value])
                file.flush()
            if steps >= _STEPS:
                break
            steps += parts.run_episode(environment, agent)


if __name__ == '__main__':
    main()
