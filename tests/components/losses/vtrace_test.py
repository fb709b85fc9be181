from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repertory.components.losses import multistep, policy_gradient, value, vtrace
from tests import golden
from tests.oracles import returns


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
@pytest.mark.parametrize('case', golden.cases('vtrace', 'vtrace'))
def test_vtrace_matches_the_references(case, dtype):
    x = case.tensors(dtype)
    actual = vtrace.vtrace(
        x['log_rhos'],
        x['rewards'],
        x['discounts'],
        x['values'],
        x['bootstrap_value'],
        **case.params,
    )
    case.check(vs=actual.target, pg_advantages=actual.advantage)


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
@pytest.mark.parametrize('case', golden.cases('vtrace', 'impala'))
def test_the_impala_loss_matches_the_references(case, dtype):
    x, params = case.tensors(dtype), case.params
    reward, limit = x['rewards'], params['max_abs_reward']
    if limit is not None:
        reward = tf.clip_by_value(reward, -limit, limit)
    logits, values = x['logits'], x['values']
    with tf.GradientTape() as tape:
        tape.watch([logits, values])
        log_pi = policy_gradient.log_probability(logits, x['actions'])
        log_mu = policy_gradient.log_probability(x['behaviour_logits'], x['actions'])
        log_rho = log_pi - log_mu
        returned = vtrace.vtrace(
            log_rho,
            reward,
            x['discounts'],
            values[:-1],
            values[-1],
            clip_rho=params['clip_rho'],
            clip_pg_rho=params['clip_pg_rho'],
        )
        policy = policy_gradient.policy_gradient(
            logits, x['actions'], returned.advantage
        )
        # The references' critic loss has no factor 1/2.
        critic = 2.0 * value.squared(returned.target - values[:-1])
        entropy = policy_gradient.entropy(logits)
        loss = tf.reduce_mean(
            policy + params['baseline_cost'] * critic - params['entropy_cost'] * entropy
        )
    grad_logits, grad_values = tape.gradient(loss, [logits, values])
    case.check(
        log_rhos=log_rho,
        vs=returned.target,
        pg_advantages=returned.advantage,
        policy_gradient_loss=policy,
        critic_loss=critic,
        entropy_loss=-entropy,
        loss=loss,
        grad_logits=grad_logits,
        grad_values=grad_values,
    )


def _column(*x):
    return tf.constant(x, tf.float64)[:, tf.newaxis]


PUBLISHED = {  # ratios, discounts, options -> v, advantage
    'clips at 1': ([0.5, 2, 1], 0.9, {}, [2.289, 3.42, 3.8], [1.789, 2.42, 2.3]),
    'lambda': (
        [0.5, 2, 1],
        0.9,
        {'lambda_': 0.5},
        [1.511625, 2.385, 3.8],
        [1.32325, 2.42, 2.3],
    ),
    'rho clipped at 2': (
        [0.5, 2, 1],
        0.9,
        {'clip_rho': 2.0, 'clip_pg_rho': 2.0},
        [2.4465, 3.77, 3.8],
        [1.9465, 4.84, 2.3],
    ),
    'terminated': ([0.5, 2, 1], 0.0, {}, [0.75, 0, 3.8], [0.25, -1, 2.3]),
    'a dummy step': (
        [0.5, np.nan, 1],
        0.0,
        {'valid': tf.constant([[True], [False], [True]])},
        [1.2, 1.0, 3.8],
        [0.7, 0, 2.3],
    ),
}


@pytest.mark.parametrize('name', PUBLISHED)
def test_vtrace_reproduces_numbers_worked_out_by_hand(name):
    ratios, middle_discount, options, target, advantage = PUBLISHED[name]
    actual = vtrace.vtrace(
        tf.math.log(_column(*ratios)),
        _column(1, 0, 2),
        _column(0.9, middle_discount, 0.9),
        _column(0.5, 1, 1.5),
        tf.constant([2.0], tf.float64),
        **options,
    )
    np.testing.assert_allclose(actual.target[:, 0], target, atol=1e-12)
    np.testing.assert_allclose(actual.advantage[:, 0], advantage, atol=1e-12)


def _random(steps=9, lanes=5, dtype='float64'):
    random = np.random.default_rng(0)
    log_rho, reward, v = random.normal(size=(3, steps, lanes)).astype(dtype)
    discount = 0.9 * random.integers(0, 4, (steps, lanes)).astype(bool).astype(dtype)
    bootstrap = random.normal(size=lanes).astype(dtype)
    valid = random.random((steps, lanes)) < 0.8
    return log_rho, reward, discount, v, bootstrap, valid


@pytest.mark.parametrize('lambda_', [0.0, 0.9, 1.0])
@pytest.mark.parametrize(
    'clips', [(1.0, 1.0, 1.0), (2.0, 1.2, 0.7), (None, None, None), (0.5, 1.0, None)]
)
def test_vtrace_matches_the_definition(lambda_, clips):
    log_rho, *rest, valid = _random()
    actual = vtrace.vtrace(log_rho, *rest, valid, lambda_, *clips)
    for b in range(log_rho.shape[1]):
        lane = [x[..., b] for x in rest]
        target, advantage = returns.vtrace(
            np.exp(log_rho[:, b]), *lane, valid[:, b], lambda_, clips
        )
        np.testing.assert_allclose(actual.target[:, b], target, rtol=1e-9)
        np.testing.assert_allclose(actual.advantage[:, b], advantage, rtol=1e-9)


def test_on_policy_vtrace_is_the_n_step_return():
    _, reward, discount, v, bootstrap, _ = _random()
    actual = vtrace.vtrace(np.zeros_like(v), reward, discount, v, bootstrap)
    v_t = np.concatenate([v[1:], bootstrap[None]])
    expected = multistep.n_step_targets(reward, discount, v_t, n=len(v))
    np.testing.assert_allclose(actual.target, expected, rtol=1e-9)
    np.testing.assert_allclose(actual.advantage, expected - v, rtol=1e-9)


def test_a_reward_on_the_last_step_reaches_every_target():
    zeros = tf.zeros([4, 1])
    reward = tf.tensor_scatter_nd_update(zeros, [[3, 0]], [1.0])
    actual = vtrace.vtrace(zeros, reward, zeros + 0.5, zeros, zeros[0])
    np.testing.assert_allclose(actual.target[:, 0], [0.125, 0.25, 0.5, 1.0])


def test_truncation_bootstraps_and_termination_does_not():
    valid = tf.constant([[True], [False]])  # One step, then its final observation.
    for discount, expected in ((0.9, 1.0 + 0.9 * 7.0), (0.0, 1.0)):
        actual = vtrace.vtrace(
            tf.zeros([2, 1]),
            tf.constant([[1.0], [50.0]]),
            tf.constant([[discount], [0.9]]),
            tf.constant([[2.0], [7.0]]),
            tf.constant([100.0]),
            valid,
        )
        np.testing.assert_allclose(actual.target[0], [expected])
        np.testing.assert_allclose(actual.advantage[:, 0], [expected - 2.0, 0.0])


def test_padding_changes_nothing():
    log_rho, reward, discount, v, bootstrap, _ = _random()

    def pad(x, value):
        return np.concatenate([x, np.full((6, x.shape[1]), value)])

    short = vtrace.vtrace(log_rho, reward, discount, v, bootstrap)
    long = vtrace.vtrace(
        pad(log_rho, np.nan),
        pad(reward, 3.0),
        pad(discount, 0.7),
        np.concatenate([v, bootstrap[None], pad(v, -8.0)[-5:]]),
        np.full_like(bootstrap, 44.0),
        np.concatenate([np.ones(v.shape, bool), np.zeros((6, v.shape[1]), bool)]),
    )
    np.testing.assert_allclose(short.target, long.target[:9], rtol=1e-12)
    np.testing.assert_allclose(short.advantage, long.advantage[:9], rtol=1e-12)
    np.testing.assert_array_equal(long.advantage[9:], 0.0)


def test_vtrace_carries_no_gradient():
    log_rho, reward, discount, v, bootstrap, valid = map(tf.constant, _random())
    with tf.GradientTape() as tape:
        tape.watch([log_rho, v, bootstrap])
        actual = vtrace.vtrace(log_rho, reward, discount, v, bootstrap, valid)
        total = tf.reduce_sum(actual.target) + tf.reduce_sum(actual.advantage)
    assert tape.gradient(total, [log_rho, v, bootstrap]) == [None] * 3


@pytest.mark.parametrize(
    'options, message',
    [
        ({'lambda_': 1.1}, r'lambda_ must be in \[0, 1\], got 1.1'),
        ({'clip_rho': 0.0}, 'clip_rho must be > 0, got 0.0'),
        ({'clip_c': -1.0}, 'clip_c must be > 0, got -1.0'),
        ({'clip_pg_rho': 0.0}, 'clip_pg_rho must be > 0, got 0.0'),
    ],
)
def test_vtrace_refuses_arguments_outside_their_range(options, message):
    x = tf.zeros([2, 1])
    with pytest.raises(ValueError, match=message):
        vtrace.vtrace(x, x, x, x, x[0], **options)


def test_vtrace_refuses_a_length_that_is_unknown():
    spec = tf.TensorSpec([None, 2])
    with pytest.raises(ValueError, match='v_tm1 must have a known length'):
        tf.function(lambda x: vtrace.vtrace(x, x, x, x, x[0])).get_concrete_function(
            spec
        )


@pytest.mark.parametrize('steps', [1, 2, 3, 8, 17])
def test_vtrace_of_any_length_matches_the_definition(steps):
    log_rho, *rest, valid = _random(steps)
    compiled = tf.function(vtrace.vtrace)
    actual = compiled(*map(tf.constant, (log_rho, *rest, valid)))
    lane = [x[..., 0] for x in rest]
    target, _ = returns.vtrace(
        np.exp(log_rho[:, 0]), *lane, valid[:, 0], 1.0, (1.0, 1.0, 1.0)
    )
    np.testing.assert_allclose(actual.target[:, 0], target, rtol=1e-9)


def test_vtrace_refuses_shapes_that_would_broadcast():
    x = tf.zeros([2, 3])
    with pytest.raises(ValueError, match='all must be'):
        vtrace.vtrace(x, x[:, :1], x, x, x[0])
