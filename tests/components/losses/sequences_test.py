from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repertory.components.losses import multistep, rescaling, sequences, value
from tests import golden


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
@pytest.mark.parametrize('case', golden.cases('r2d2', 'transformed_n_step'))
def test_transformed_n_step_matches_the_references(case, dtype):
    x, params = case.tensors(dtype), case.params
    epsilon = params['tx_eps']
    if params['soft_policy']:
        values = rescaling.unrescale(x['target_qs'], epsilon)
        expected_v = tf.reduce_sum(x['target_policy_probs'] * values, -1)[1:]
        unscaled = multistep.n_step_targets(
            x['rewards'], x['discounts'], expected_v, params['n']
        )
        _check(case, targets=rescaling.rescale(unscaled, epsilon))
        return
    valid = tf.ones_like(x['rewards'], tf.bool)
    weights = case.expected['weights'].astype(dtype)
    q = x['qs']
    with tf.GradientTape() as tape:
        tape.watch(q)
        td_error = sequences.double_q_td_errors(
            q,
            x['target_qs'],
            x['actions'][:-1],
            x['rewards'],
            x['discounts'],
            valid,
            params['n'],
            epsilon,
        )
        loss = tf.reduce_sum(value.squared(td_error), axis=0)
        mean = tf.reduce_mean(weights * loss)
    _check(
        case,
        td_error=td_error,
        loss=loss,
        mean_weighted_loss=mean,
        grad_qs=tape.gradient(mean, q),
        priorities=sequences.sequence_priorities(td_error, valid, params['eta']),
    )


def _check(case, **actual):
    for name, got in actual.items():
        if got.dtype == tf.float32:
            case.check(**{name: got})
        else:  # The references' inverse cancels in float64 too.
            want = case.expected[name]
            atol = 1e-9 * max(1.0, np.abs(want).max())
            np.testing.assert_allclose(got, want, rtol=1e-8, atol=atol)


def _batch(length, garbage=1.0):
    """An episode of 7 steps, truncated, in sequences of `length` steps."""
    random = np.random.default_rng(0)
    q, target_q = random.normal(size=(2, 8, 3, 4)).astype('float32')
    action = random.integers(0, 4, (7, 3)).astype('int32')
    reward = random.normal(size=(7, 3)).astype('float32')

    def pad(x, value):
        widths = [(0, length - 7)] + [(0, 0)] * (x.ndim - 1)
        return tf.constant(np.pad(x, widths, constant_values=value))

    return (
        pad(q, 99.0 * garbage),
        pad(target_q, -50.0 * garbage),
        pad(action, 3),
        pad(reward, 7.0 * garbage),
        pad(np.full((7, 3), 0.9, 'float32'), 0.5 * garbage),
        pad(np.ones((7, 3), bool), False),
    )


def _learn(batch, n):
    """Returns TD errors, priorities, the gradient to q, and the loss."""
    q, target_q, action, reward, discount, valid = batch
    with tf.GradientTape() as tape:
        tape.watch(q)
        td_error = sequences.double_q_td_errors(
            q, target_q, action, reward, discount, valid, n, 1e-3
        )
        loss = tf.reduce_sum(value.squared(td_error))
    priorities = sequences.sequence_priorities(td_error, valid, 0.9)
    return td_error, priorities, tape.gradient(loss, q), loss


@pytest.mark.parametrize('n', [1, 3, 5])
def test_padding_changes_neither_errors_nor_priorities_nor_gradients(n):
    short, long, other = (
        _learn(batch, n) for batch in (_batch(7), _batch(20), _batch(20, garbage=-9.0))
    )
    for x, y in zip(long, other, strict=True):  # Whatever the padding holds.
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(long[0][7:], 0.0)
    np.testing.assert_array_equal(long[2][8:], 0.0)
    # Vectorised arithmetic differs in the last digit with the arrays' lengths.
    tolerance = {'rtol': 1e-5, 'atol': 1e-6}
    np.testing.assert_allclose(short[0], long[0][:7], **tolerance)
    np.testing.assert_allclose(short[1], long[1], **tolerance)
    np.testing.assert_allclose(short[2], long[2][:8], **tolerance)
    np.testing.assert_allclose(short[3], long[3], **tolerance)


def test_the_target_carries_no_gradient():
    q, target_q, action, reward, discount, valid = _batch(7)
    with tf.GradientTape() as tape:
        tape.watch([q, target_q])
        td_error = sequences.double_q_td_errors(
            q, target_q, action, reward, discount, valid, 3, None
        )
    gradient, nothing = tape.gradient(td_error, [q, target_q])
    expected = np.zeros_like(gradient)
    expected[:7] = -np.eye(4)[action]
    np.testing.assert_array_equal(gradient, expected)
    assert nothing is None


def test_a_reward_on_the_last_step_reaches_the_targets():
    q, target_q, action, reward, discount, valid = _batch(7)
    reward = tf.zeros_like(reward)
    last = tf.tensor_scatter_nd_update(reward, [[6, 0]], [1.0])
    without, with_it = (
        sequences.double_q_td_errors(q, target_q, action, r, discount, valid, 3, None)
        for r in (reward, last)
    )
    difference = np.asarray(with_it - without)
    np.testing.assert_allclose(difference[4:, 0], [0.81, 0.9, 1.0], rtol=1e-5)
    np.testing.assert_array_equal(difference[:4], 0.0)
    np.testing.assert_array_equal(difference[:, 1:], 0.0)


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
@pytest.mark.parametrize('case', golden.cases('r2d2', 'priority'))
def test_sequence_priorities_match_the_references(case, dtype):
    errors = case.tensors(dtype)['errors']
    valid = np.ones_like(errors, bool)
    case.check(
        priorities=sequences.sequence_priorities(errors, valid, case.params['eta'])
    )


def test_sequence_priorities_look_at_valid_steps_only():
    errors = np.array([[0.1, 9.0], [0.5, np.nan], [-2.0, 1.0], [0.4, 1.0], [50, 7]])
    valid = np.array([[1, 0], [1, 0], [1, 0], [1, 0], [0, 0]], bool)
    actual = sequences.sequence_priorities(errors, valid, 0.9)
    np.testing.assert_allclose(actual, [1.875, 0.0])


def test_sequence_priorities_refuse_an_eta_outside_0_1():
    with pytest.raises(ValueError, match=r'eta must be in \[0, 1\], got 2'):
        sequences.sequence_priorities(*[tf.zeros([2, 1])] * 2, eta=2.0)


def test_sequences_refuse_shapes_that_do_not_fit():
    x = tf.zeros([4, 2])
    with pytest.raises(ValueError, match='the same shape'):
        sequences.sequence_priorities(x, tf.ones([4, 1], bool), 0.9)
    q = tf.zeros([5, 2, 3])
    with pytest.raises(ValueError, match='T . 1, B, A'):
        sequences.double_q_td_errors(q, q[:4], x, x, x, x > 0, 1, None)
    actions = tf.zeros([5, 2], tf.int32)  # Of s_T too: one too many.
    with pytest.raises(ValueError, match='T . 1, B, A'):
        sequences.double_q_td_errors(q, q, actions, x, x, x > 0, 1, None)
