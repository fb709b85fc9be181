"""R2D2's tests: a small config, networks of it, and sequences written by hand."""

import dm_env.specs
import numpy as np
import sonnet as snt
import tensorflow as tf

from repertory.agents.r2d2 import builder, config
from repertory.components import specs, types


def make_config(**changes):
    return config.Config(
        **{
            'burn_in_length': 3,
            'trace_length': 6,
            'sequence_period': 4,
            'n_step': 3,
            'discount': 0.9,
            'batch_size': 16,
            'min_replay_size': 1,
            'max_replay_size': 500,
            'samples_per_insert': None,
            'priority_exponent': 1.0,
            'hidden_sizes': (8,),
            'lstm_size': 8,
            'dueling_size': 8,
            **changes,
        }
    )


def noisy(network, seed=0):
    """Moves a network away from its start, where values are nearly equal."""
    random = np.random.default_rng(seed)
    for variable in network.variables:
        variable.assign_add(random.normal(0.0, 0.3, variable.shape).astype(np.float32))
    return network


def make_row(observation, reward, step_type, discount=None, action=None):
    """Returns rows [1, T, ...] of one sequence."""
    length = len(step_type)
    if discount is None:
        discount = np.ones(length)
    if action is None:
        action = np.arange(length) % 2
    return types.Row(
        observation=tf.constant(np.asarray(observation, np.float32)[None]),
        action=tf.constant(np.asarray(action, np.int32)[None]),
        reward=tf.constant(np.asarray(reward, np.float32)[None]),
        discount=tf.constant(np.asarray(discount, np.float32)[None]),
        step_type=tf.constant(np.asarray(step_type, np.uint8)[None]),
        extras={},
    )


def make_sample(row, state):
    info = types.SampleInfo(
        key=tf.constant([1], tf.uint64),
        probability=tf.constant([0.1], tf.float64),
        table_size=tf.constant([10], tf.int64),
        priority=tf.constant([1.0], tf.float64),
    )
    return types.Sample(info, types.Trajectory(row, state))


def make_networks():
    spec = specs.EnvironmentSpec(
        observations=dm_env.specs.Array((2,), np.float32),
        actions=dm_env.specs.DiscreteArray(2),
        rewards=dm_env.specs.Array((), np.float32),
        discounts=dm_env.specs.BoundedArray((), np.float32, 0, 1),
    )
    make = builder.Builder(make_config(action_reward=False)).make_networks
    online, target = make(spec), make(spec)
    noisy(online.q, 1), noisy(target.q, 2)
    return online, target


def random_state(seed=3):
    random = np.random.default_rng(seed)
    return snt.LSTMState(
        *(tf.constant(random.normal(size=(1, 8)), tf.float32) for _ in range(2))
    )
