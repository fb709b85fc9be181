"""Policies: noise, state, what they add to rows, and their export."""

import dm_env.specs
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from repertory.components import actor, policies, specs, types
from repertory.components.networks import control, heads

SPEC = specs.EnvironmentSpec(
    observations=dm_env.specs.Array((2,), np.float32),
    actions=dm_env.specs.BoundedArray((2,), np.float32, -1, 1),
    rewards=dm_env.specs.Array((), np.float32),
    discounts=dm_env.specs.BoundedArray((), np.float32, 0, 1),
)


@snt.allow_empty_variables
class Echo(snt.Module):
    """The features are the action."""

    def __call__(self, features):
        return features


@snt.allow_empty_variables
class Sum(snt.Module):
    """The value of an action is its sum, times its features' first number."""

    def __call__(self, inputs):
        features, action = inputs
        return features[:, 0] * tf.reduce_sum(action, axis=-1)


def make_policy(sigma, theta=1.0, critic=None):
    return policies.DeterministicPolicy(
        control.Flatten(), Echo(), SPEC.actions, sigma, theta, seed=3, critic=critic
    )


def test_gaussian_noise_has_its_deviation_and_is_independent():
    policy = make_policy(0.2)
    actions = np.stack(
        [policy(tf.zeros([500, 2]), ()).action.numpy() for _ in range(20)]
    )
    np.testing.assert_allclose(actions.std(), 0.2, rtol=0.02)
    assert abs(np.corrcoef(actions[:-1].ravel(), actions[1:].ravel())[0, 1]) < 0.02


@pytest.mark.parametrize('theta', [1.0, 0.15])
def test_each_dimension_and_each_lane_has_noise_of_its_own(theta):
    policy = make_policy(0.2, theta)
    act = tf.function(lambda state: policy(tf.zeros([4, 2]), state).action)
    start, draws = policy.initial_state(4), []
    for _ in range(5000):
        draws.append(act(start).numpy().ravel())
    correlations = np.corrcoef(np.transpose(draws)) - np.eye(8)
    assert np.abs(correlations).max() < 0.06


@pytest.mark.parametrize('theta', [1.0, 0.15])
def test_noisy_actions_stay_within_their_bounds(theta):
    policy = make_policy(2.0, theta)
    output = policy(tf.fill([200, 2], 0.9), policy.initial_state(200))
    assert np.max(output.action) == 1.0 and np.min(output.action) == -1.0


def test_ornstein_uhlenbeck_noise_is_correlated_and_settles():
    policy, theta = make_policy(0.1, 0.15), 0.15
    state, actions = policy.initial_state(2000), []
    np.testing.assert_array_equal(state, np.zeros([2000, 2]))
    for _ in range(40):
        action, _, state = policy(tf.zeros([2000, 2]), state)
        actions.append(action.numpy())
    np.testing.assert_allclose(actions[0].std(), 0.1, rtol=0.05)
    settled = 0.1 / np.sqrt(1 - (1 - theta) ** 2)
    np.testing.assert_allclose(actions[-1].std(), settled, rtol=0.05)
    correlation = np.corrcoef(actions[-2].ravel(), actions[-1].ravel())[0, 1]
    np.testing.assert_allclose(correlation, 1 - theta, atol=0.03)


def test_the_noise_starts_anew_where_an_episode_begins():
    class Record:
        rows = []

        def add(self, row):
            self.rows.append(row)

    policy = make_policy(0.1, 0.15)
    acting = actor.PolicyActor(policy, SPEC, 2, Record())

    def step(*kinds):
        return types.TimeStep(
            step_type=np.array(kinds, np.uint8),
            reward=np.zeros(2, np.float32),
            discount=np.ones(2, np.float32),
            observation=np.zeros([2, 2], np.float32),
        )

    first, mid, last = types.StepType.FIRST, types.StepType.MID, types.StepType.LAST
    acting.observe_first(step(first, first))
    for following in (step(mid, last), step(mid, first), step(mid, mid)):
        action = acting.select_action(np.zeros([2, 2], np.float32))
        acting.observe(action, following)
    action = acting.select_action(np.zeros([2, 2], np.float32))
    acting.observe(action, step(mid, mid))
    states = [row.extras['state'] for row in Record.rows]
    assert np.all(states[0] == 0) and np.all(states[1] != 0)
    assert np.all(states[2][0] != 0) and np.all(states[2][1] == 0)
    assert np.all(states[3] != 0)


@pytest.mark.parametrize('theta', [1.0, 0.15])
def test_without_sigma_there_is_neither_noise_nor_state(theta):
    policy = make_policy(0.0, theta)
    observation = tf.constant([[0.5, -0.25]])
    assert policy.initial_state(1) == ()
    np.testing.assert_array_equal(policy(observation, ()).action, observation)


def test_the_values_are_of_the_action_taken_and_of_the_networks_own():
    policy = make_policy(0.5, critic=Sum())
    assert set(policy.extras_spec) == {'q_taken', 'q_policy'}
    observation = tf.constant([[0.5, -0.25], [0.25, 1.0], [-0.5, 0.0]])
    action, extras, _ = policy(observation, ())
    expected = observation[:, 0] * tf.reduce_sum(action, axis=-1)
    np.testing.assert_allclose(extras['q_taken'], expected, rtol=1e-6)
    expected = observation[:, 0] * tf.reduce_sum(observation, axis=-1)
    np.testing.assert_allclose(extras['q_policy'], expected, rtol=1e-6)


@snt.allow_empty_variables
class Logits(snt.Module):
    """Gives the observation as logits; its state counts calls."""

    def initial_state(self, num_lanes):
        return tf.zeros([num_lanes])

    def step(self, observation, state):
        return heads.PolicyValue(observation, observation[:, 0]), state + 1.0


def test_a_softmax_policy_draws_for_each_lane_by_its_own_logits():
    lanes = 20_000
    chances = np.array([[0.7, 0.1, 0.2], [0.05, 0.95, 0.0]])
    with np.errstate(divide='ignore'):
        logits = np.log(chances).clip(-50).astype(np.float32) + 3
    spec = dm_env.specs.DiscreteArray(3, np.int64)
    policy = policies.SoftmaxPolicy(Logits(), spec, seed=3)
    output = policy(
        tf.constant(np.repeat(logits, lanes, axis=0)), tf.zeros([2 * lanes])
    )
    assert output.action.dtype == tf.int64
    drawn = output.action.numpy().reshape(2, lanes)
    for row, expected in zip(drawn, chances, strict=True):
        counts = np.bincount(row, minlength=3) / lanes
        np.testing.assert_allclose(counts, expected, atol=0.012)
        same = np.mean(row[1:] == row[:-1])
        np.testing.assert_allclose(same, np.sum(expected**2), atol=0.015)
    np.testing.assert_array_equal(output.extras['logits'][0], logits[0])
    np.testing.assert_array_equal(output.state, np.ones(2 * lanes))


def test_a_greedy_softmax_policy_takes_the_likeliest_action():
    spec = dm_env.specs.DiscreteArray(3)
    policy = policies.SoftmaxPolicy(Logits(), spec, seed=3, greedy=True)
    logits = tf.constant([[0.0, 0.1, 0.0], [0.3, 0.1, 0.0]])
    for _ in range(5):
        assert policy(logits, tf.zeros([2])).action.numpy().tolist() == [1, 0]
