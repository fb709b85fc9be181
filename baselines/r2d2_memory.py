"""R2D2 on a cue that is asked for 8, 16 ... 48 steps later; traces have 16 steps.

With stored states and burn-in the answers are right at every query. Without both,
from the initial state, late queries are not learned; without memory none is. The
previous action is no input here: an agent could keep the cue by answering all along.
"""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np

from repertory.agents import r2d2
from repertory.launch import experiment

TARGET = 5.7  # of 6: each of 6 right answers is rewarded with 1.
NUM_EPISODES = 300
# An answer is rewarded at once: more steps to the bootstrap and a longer horizon would
# only bring in what exploring lanes answer to later queries.
AGENT = r2d2.Config(
    burn_in_length=8,
    trace_length=16,
    sequence_period=8,
    action_reward=False,
    n_step=1,
    discount=0.9,
    samples_per_insert=16.0,
    learning_rate=3e-4,
    optimizer_epsilon=1e-5,
)


def stored_state(seed: int):
    return make(seed, AGENT)


def zero_state(seed: int):
    return make(seed, dataclasses.replace(AGENT, burn_in_length=0, zero_state=True))


def feed_forward(seed: int):
    return make(seed, AGENT, forgetful_networks)


VARIANTS = {
    'stored_state': stored_state,
    'zero_state': zero_state,
    'feed_forward': feed_forward,
}


def make(seed: int, agent: r2d2.Config, networks=None):
    return experiment.ExperimentConfig(
        agent=agent,
        environment='memory_chain?reward_scale=6',
        networks=networks,
        seed=seed,
        max_actor_steps=100_000,
        evaluation_episodes=64,
        evaluation_period_seconds=4.0,
    ), experiment.Topology(envs_per_actor=16)


def forgetful_networks(spec):
    """Returns R2D2's networks but that each step begins at the initial state."""
    import tensorflow as tf

    from repertory.agents.r2d2 import networks
    from repertory.components.networks import recurrent

    class Forgetful(recurrent.LSTM):
        def step(self, inputs, state):
            initial = self.initial_state(tf.shape(inputs)[0])
            return super().step(inputs, initial)[0], state

        def unroll(self, inputs, state, reset):
            return super().unroll(inputs, state, tf.ones(tf.shape(inputs)[:2], tf.bool))

    return networks.make_networks(spec, AGENT, Forgetful)


def measure(run_dir: pathlib.Path) -> dict:
    """Returns how often the trained policy is right, by the steps since the cue."""
    from repertory.components.environments import memory_chain
    from repertory.launch import exported

    policy = exported.load_policy(run_dir / 'policy')
    environment = memory_chain.MemoryChain(seed=1_000_003)
    right = []
    for _ in range(NUM_EPISODES):
        exported.evaluate(policy, lambda seed: environment, 1, 0)
        right.append(environment.last_episode_correct)
    accuracy = np.mean(right, axis=0)
    return {'accuracy': {8 * (i + 1): float(x) for i, x in enumerate(accuracy)}}
