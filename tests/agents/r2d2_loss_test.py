"""R2D2's loss: padding, burn-in, ends of episodes, values of other libraries."""

import numpy as np
import pytest
import tensorflow as tf
import tree

from repertory.agents.r2d2 import loss
from repertory.components import types
from repertory.components.losses import sequences
from tests import cores, golden
from tests.agents import r2d2_fakes

networks = pytest.fixture(r2d2_fakes.make_networks)


def with_gradients(networks, sample, agent):
    online, target = networks
    with tf.GradientTape() as tape:
        output = loss.sequence_loss(online, target, sample, agent)
    gradients = tape.gradient(output.loss, online.q.trainable_variables)
    return [output.loss, output.priorities, *gradients, output.metrics['mean_q']]


def assert_same(actual, expected):
    assert len(actual) == len(expected)
    for got, want in zip(actual, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('burn_in', [0, 3])
@pytest.mark.parametrize('discount', [0.0, 1.0])
def test_padding_changes_nothing(networks, burn_in, discount):
    # An episode of 7 steps in a trace of 20, and the same in a trace of 7.
    random = np.random.default_rng(0)
    real, padded = burn_in + 8, burn_in + 21
    observation = random.normal(size=(real, 2))
    reward = random.normal(size=real)
    last = np.where(np.arange(real) == real - 1, discount, 1.0)
    step_type = [1] * (real - 1) + [2]
    state = r2d2_fakes.random_state()
    expected = with_gradients(
        networks,
        r2d2_fakes.make_sample(
            r2d2_fakes.make_row(observation, reward, step_type, last), state
        ),
        r2d2_fakes.make_config(burn_in_length=burn_in, trace_length=7),
    )
    fill = padded - real
    for junk in (0.0, 7.0):
        row = r2d2_fakes.make_row(
            np.concatenate([observation, np.full([fill, 2], junk)]),
            np.concatenate([reward, np.full(fill, junk)]),
            step_type + [3] * fill,
            np.concatenate([last, np.full(fill, 1.0 - junk / 7)]),
            np.concatenate([np.arange(real) % 2, np.full(fill, int(junk > 0))]),
        )
        agent = r2d2_fakes.make_config(burn_in_length=burn_in, trace_length=20)
        assert_same(
            with_gradients(networks, r2d2_fakes.make_sample(row, state), agent),
            expected,
        )


def test_padding_before_an_episode_changes_nothing(networks):
    random = np.random.default_rng(0)
    observation, reward = random.normal(size=(7, 2)), random.normal(size=7)
    step_type = [0] + [1] * 6
    state = networks[0].q.initial_state(1)
    expected = with_gradients(
        networks,
        r2d2_fakes.make_sample(
            r2d2_fakes.make_row(observation, reward, step_type), state
        ),
        r2d2_fakes.make_config(burn_in_length=0),
    )
    row = r2d2_fakes.make_row(
        np.concatenate([np.full([3, 2], 7.0), observation]),
        np.concatenate([np.full(3, 7.0), reward]),
        [3] * 3 + step_type,
        action=np.concatenate([[1, 1, 1], np.arange(7) % 2]),
    )
    # The state before the padding does not matter either.
    sample = r2d2_fakes.make_sample(row, r2d2_fakes.random_state())
    assert_same(with_gradients(networks, sample, r2d2_fakes.make_config()), expected)


def test_burn_in_refreshes_each_networks_state_without_gradient(networks):
    random = np.random.default_rng(0)
    row = r2d2_fakes.make_row(
        random.normal(size=(10, 2)), random.normal(size=10), [1] * 10
    )
    state = r2d2_fakes.random_state()
    actual = with_gradients(
        networks, r2d2_fakes.make_sample(row, state), r2d2_fakes.make_config()
    )

    def after_burn_in(network):
        states = state
        for t in range(3):
            _, states = network.q.step(row.observation[:, t], states)
        return tree.map_structure(tf.constant, tree.map_structure(np.array, states))

    online, target = networks
    trace = tree.map_structure(lambda x: x[:, 3:], row)
    values = {}
    with tf.GradientTape() as tape:
        for name, network in (('q', online), ('target_q', target)):
            reset = tf.zeros([1, 1], tf.bool)
            observation = tf.transpose(trace.observation, [1, 0, 2])
            values[name] = network.q.unroll(observation, after_burn_in(network), reset)
        error = sequences.double_q_td_errors(
            **values,
            a_tm1=tf.transpose(trace.action)[:-1],
            r_t=tf.transpose(trace.reward)[1:],
            discount_t=0.9 * tf.transpose(trace.discount)[1:],
            valid=tf.ones([6, 1], tf.bool),
            n=3,
            rescaling_epsilon=1e-3,
        )
        expected = 0.5 * tf.reduce_sum(error**2)
    gradients = tape.gradient(expected, online.q.trainable_variables)
    absolute = np.abs(error.numpy())
    priority = [0.9 * absolute.max() + 0.1 * absolute.mean() + 1e-6]
    mean_q = tf.reduce_mean(values['q'][:-1])
    assert_same(actual, [expected, priority, *gradients, mean_q])


def test_zero_state_starts_from_the_networks_initial_state(networks):
    random = np.random.default_rng(0)
    row = r2d2_fakes.make_row(
        random.normal(size=(10, 2)), random.normal(size=10), [1] * 10
    )
    agent = r2d2_fakes.make_config(zero_state=True)
    for network in networks:
        network.q._core = _half_state_like(network.q._core)
    sample = r2d2_fakes.make_sample(row, r2d2_fakes.random_state())
    initial = networks[0].q.initial_state(1)
    assert (initial.hidden.numpy() == 0.5).all()
    expected = with_gradients(
        networks, r2d2_fakes.make_sample(row, initial), r2d2_fakes.make_config()
    )
    assert_same(with_gradients(networks, sample, agent), expected)


def _half_state_like(core_):
    half = cores.HalfState(8)
    half.step(tf.zeros([1, 8]), half.initial_state(1))
    for variable, other in zip(half.variables, core_.variables, strict=True):
        variable.assign(other)
    return half


@pytest.mark.parametrize(
    ('step_type', 'trained'),
    [
        ([1] * 7, [1, 1, 1, 1, 1, 1]),
        ([1] * 6 + [2], [1, 1, 1, 1, 1, 1]),
        ([0, 1, 2, 3, 3, 3, 3], [1, 1, 0, 0, 0, 0]),
        ([1, 2, 3, 3, 3, 3, 3], [1, 0, 0, 0, 0, 0]),
    ],
)
def test_each_real_step_of_the_trace_is_trained_and_no_other(step_type, trained):
    q = tf.constant(np.random.default_rng(0).normal(size=(7, 1, 2)), tf.float32)
    trace = r2d2_fakes.make_row(np.zeros((7, 2)), np.ones(7), step_type)
    trace = tree.map_structure(lambda x: x[0][:, tf.newaxis], trace)
    with tf.GradientTape() as tape:
        tape.watch(q)
        td = loss.td_errors(q, q + 1.0, trace, r2d2_fakes.make_config())
        total = tf.reduce_sum(td.error**2)
    gradient = np.abs(tape.gradient(total, q).numpy()).max(axis=(1, 2)) > 0
    np.testing.assert_array_equal(gradient[:-1], np.array(trained, bool))
    assert not gradient[-1]


@pytest.mark.parametrize('truncated', [False, True])
def test_the_last_reward_counts_and_only_truncation_bootstraps(truncated):
    # Zero values, but 10 at the final observation; reward 2 with it.
    q, target_q = np.zeros((7, 1, 2)), np.zeros((7, 1, 2))
    target_q[3:] = sequences.rescaling.rescale(tf.constant(10.0)).numpy()
    reward = [0, 0, 0, 2.0, 0, 0, 0]
    discount = [1, 1, 1, float(truncated), 1, 1, 1]
    trace = r2d2_fakes.make_row(
        np.zeros((7, 2)), reward, [0, 1, 1, 2, 3, 3, 3], discount
    )
    trace = tree.map_structure(lambda x: x[0][:, tf.newaxis], trace)
    td = loss.td_errors(
        tf.constant(q, tf.float32),
        tf.constant(target_q, tf.float32),
        trace,
        r2d2_fakes.make_config(rescaling_epsilon=1e-3),
    )
    target = sequences.rescaling.unrescale(td.error[:3, 0]).numpy()
    last = 2.0 + 0.9 * 10.0 * truncated
    np.testing.assert_allclose(target, [0.81 * last, 0.9 * last, last], rtol=1e-4)
    assert not td.error[3:].numpy().any()


@pytest.mark.parametrize('case', golden.cases('r2d2', 'transformed_n_step'))
def test_loss_and_priorities_are_those_of_existing_libraries(case):
    if case.params['soft_policy']:
        pytest.skip('a soft policy takes no argmax')
    inputs, params = case.inputs, case.params
    length, batch = inputs['rewards'].shape

    class Fixed:
        def __init__(self, values):
            self.q, self._values = self, values

        def unroll(self, observation, state, reset, burn_in):
            return self._values

    def rows_of(x):
        """Puts the rewards of steps on the rows that they lead to."""
        return np.concatenate([np.zeros((1, batch), np.float32), x]).T

    row = types.Row(
        observation=tf.zeros([batch, length + 1]),
        action=tf.constant(inputs['actions'].T),
        reward=tf.constant(rows_of(inputs['rewards'])),
        discount=tf.constant(rows_of(inputs['discounts'])),
        step_type=tf.ones([batch, length + 1], tf.uint8),
        extras={},
    )
    sample = r2d2_fakes.make_sample(row, ())
    probability = tf.constant(inputs['probabilities'], tf.float64)
    sample = sample._replace(info=sample.info._replace(probability=probability))
    agent = r2d2_fakes.make_config(
        burn_in_length=0,
        trace_length=length,
        sequence_period=1,
        n_step=params['n'],
        discount=1.0,
        max_priority_weight=params['eta'],
        importance_sampling_exponent=params['is_exponent'],
        rescaling_epsilon=params['tx_eps'],
        priority_epsilon=1e-12,
    )
    q = tf.constant(inputs['qs'])
    with tf.GradientTape() as tape:
        tape.watch(q)
        output = loss.sequence_loss(
            Fixed(q), Fixed(tf.constant(inputs['target_qs'])), sample, agent
        )
    case.check(
        mean_weighted_loss=output.loss,
        priorities=output.priorities,
        grad_qs=tape.gradient(output.loss, q),
    )
