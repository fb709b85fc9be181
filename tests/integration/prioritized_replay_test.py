"""Prioritized replay on the blind cliff-walk, against uniform replay."""

import itertools
import statistics

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from repertory.agents.apex_dqn import builder, config, networks
from repertory.components import core, types
from repertory.components.environments import vector
from repertory.replay import server
from tests import fakes

STATES = 9
DISCOUNT = 1 - 1 / STATES
MAX_STEPS = 20_000


class Table(snt.Module):
    """Action values, one a state and action, zero at first."""

    def __init__(self):
        super().__init__()
        self.values = tf.Variable(tf.zeros([STATES, 2]))

    def __call__(self, observation):
        return tf.matmul(observation, self.values)


def _true_values():
    values = np.zeros((STATES, 2))
    for state in range(STATES):
        values[state, state % 2] = DISCOUNT ** (STATES - 1 - state)
    return values


def _write_all_walks(adder):
    """Adds one episode of each sequence of actions, in an order of the seed's."""
    environment = vector.SerialVectorEnvironment([fakes.CliffWalk(STATES)])
    zeros = np.zeros(1, np.float32)
    for actions in itertools.product([0, 1], repeat=STATES):
        step = environment.reset()
        for action in (*actions, 0):
            taken = np.array([action], np.int32)
            extras = {'q_taken': zeros, 'q_max': zeros}
            adder.add(
                types.Row(
                    observation=step.observation,
                    action=taken,
                    reward=step.reward,
                    discount=step.discount,
                    step_type=step.step_type,
                    extras=extras,
                )
            )
            if step.step_type[0] == types.StepType.LAST:
                break
            step = environment.step(taken)
    adder.flush()


def _steps_to_learn(priority_exponent, seed):
    """Returns the learner steps until all values are right to an MSE of 0.001."""
    tf.random.set_seed(seed)
    agent = config.Config(
        n_step=1,
        discount=DISCOUNT,
        batch_size=8,
        updates_per_call=2,
        min_replay_size=1,
        max_replay_size=10_000,
        samples_per_insert=None,
        priority_exponent=priority_exponent,
        importance_sampling_exponent=0.4 if priority_exponent else 0.0,
        loss='squared',
        learning_rate=0.02,
        target_update_period=10,
    )
    made = builder.Builder(agent)
    spec = vector.SerialVectorEnvironment([fakes.CliffWalk(STATES)]).spec
    online, target = networks.Networks(Table()), networks.Networks(Table())
    role = core.Role()
    policy = made.make_policy(online, spec, role)
    with server.ReplayServer(made.make_table_specs(spec, policy, 1)) as replay:
        with made.make_adder(
            replay.address, spec, policy, role, lambda reason, waited_seconds: None
        ) as adder:
            _write_all_walks(adder)
            assert adder.num_items > 2**STATES
        dataset = made.make_dataset([replay.address], spec, policy, 1, prefetch=False)
        learner = made.make_learner(
            online, target, spec, iter(dataset), [replay.address]
        )
        while learner.steps < MAX_STEPS:
            learner.step()
            learner._update_priorities.flush()
            error = np.mean((online.q.values.numpy() - _true_values()) ** 2)
            if error < 1e-3:
                break
        return learner.steps


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_prioritized_needs_fewer_learner_steps_than_uniform():
    prioritized = [_steps_to_learn(0.6, seed) for seed in range(5)]
    uniform = [_steps_to_learn(0.0, seed) for seed in range(5)]
    print(f'prioritized {prioritized}, uniform {uniform}')
    ratio = statistics.median(prioritized) / statistics.median(uniform)
    assert statistics.median(prioritized) < MAX_STEPS
    assert ratio <= 0.7, (prioritized, uniform)
