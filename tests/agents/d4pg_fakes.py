"""D4PG's tests: a small config, its networks, and samples with random contents."""

import dataclasses

import dm_env
import dm_env.specs
import numpy as np
import sonnet as snt
import tensorflow as tf

from repertory.agents.d4pg import builder, config
from repertory.components import specs, types

SMALL = config.Config(
    policy_sizes=(16,),
    critic_sizes=(16, 16),
    batch_size=8,
    min_replay_size=8,
    vmin=-3.0,
    vmax=3.0,
    num_atoms=7,
)


def make_spec(observations=None, actions=None):
    return specs.EnvironmentSpec(
        observations=observations or dm_env.specs.Array((3,), np.float32),
        actions=actions or dm_env.specs.BoundedArray((2,), np.float32, -1, 1),
        rewards=dm_env.specs.Array((), np.float32),
        discounts=dm_env.specs.BoundedArray((), np.float32, 0, 1),
    )


class LearnedFeatures(snt.Module):
    """An observation network with variables."""

    def __init__(self):
        super().__init__()
        self._linear = snt.Linear(4)

    def __call__(self, observation):
        return self._linear(observation)


def make_networks(agent=SMALL):
    one = builder.Builder(agent)
    made = dataclasses.replace(
        one.make_networks(make_spec(observations=dm_env.specs.Array((4,), np.float32))),
        observation=LearnedFeatures(),
    )
    made.observation(tf.zeros([1, 3]))
    return made


def make_sample(batch=8, seed=0, **changes):
    rng = np.random.default_rng(seed)
    data = types.Transition(
        observation=rng.normal(size=[batch, 3]).astype(np.float32),
        action=rng.uniform(-1, 1, [batch, 2]).astype(np.float32),
        reward=rng.normal(size=batch).astype(np.float32),
        discount=rng.uniform(0, 1, batch).astype(np.float32),
        next_observation=rng.normal(size=[batch, 3]).astype(np.float32),
        extras={},
    )._replace(**changes)
    info = types.SampleInfo(
        key=np.arange(batch, dtype=np.uint64),
        probability=rng.uniform(0.1, 0.9, batch),
        table_size=np.full(batch, 10),
        priority=np.ones(batch),
    )
    return tf.nest.map_structure(tf.constant, types.Sample(info, data))
