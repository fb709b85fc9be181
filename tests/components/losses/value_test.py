from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repertory.components.losses import rescaling, value
from tests import golden


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
@pytest.mark.parametrize('case', golden.cases('q_learning', 'double_q'))
def test_double_q_matches_the_references(case, dtype):
    x = case.tensors(dtype)
    limit = case.params['max_abs_reward']
    reward = (
        x['rewards'] if limit is None else tf.clip_by_value(x['rewards'], -limit, limit)
    )
    weights = case.expected['weights'].astype(dtype)
    q_tm1 = x['q_tm1']
    with tf.GradientTape() as tape:
        tape.watch(q_tm1)
        td_error = value.double_q_td_error(
            q_tm1,
            x['a_tm1'],
            reward,
            x['discounts'],
            q_t_selector=x['q_t_selector'],
            q_t_value=x['q_t_value'],
        )
        huber = value.huber(td_error, case.params['huber_delta'])
        loss = tf.reduce_mean(weights * huber)
    case.check(
        td_error=td_error,
        squared_loss=value.squared(td_error),
        huber_loss=huber,
        mean_weighted_loss=loss,
        priorities=tf.abs(td_error),
        grad_q_tm1=tape.gradient(loss, q_tm1),
    )


def test_double_q_target_selects_by_one_network_and_values_by_the_other():
    online, target = tf.constant([[1.0, 3, 2]]), tf.constant([[5.0, 4, 6]])
    actual = value.double_q_target(online, target, tf.ones([1]), tf.constant([0.9]))
    np.testing.assert_allclose(actual, [4.6])
    rescaled = rescaling.rescale(
        value.double_q_target(
            online, rescaling.unrescale(target), tf.ones([1]), tf.constant([0.9])
        )
    )
    np.testing.assert_allclose(rescaled, [3.85836036], rtol=1e-6)


def test_double_q_has_no_gradient_through_its_target():
    q = [tf.constant([[1.0, 2.0]]) for _ in range(3)]
    with tf.GradientTape() as tape:
        tape.watch(q)
        td_error = value.double_q_td_error(
            q[0], tf.constant([1]), tf.ones([1]), tf.ones([1]), q[1], q[2]
        )
    gradients = tape.gradient(td_error, q)
    np.testing.assert_allclose(gradients[0], [[0.0, -1.0]])
    assert gradients[1] is None and gradients[2] is None


def test_double_q_refuses_shapes_that_would_broadcast():
    q, column = tf.zeros([3, 2]), tf.zeros([3, 1])
    with pytest.raises(ValueError, match='must be .B, A.'):
        value.double_q_target(q, q, column, column)
    with pytest.raises(ValueError, match='a_tm1'):
        value.double_q_td_error(
            q, tf.zeros([3, 1], tf.int32), tf.zeros([3]), tf.zeros([3]), q, q
        )


def test_select_takes_any_number_of_leading_axes():
    values = np.arange(24).reshape(2, 3, 4)
    action = np.array([[0, 1, 2], [3, 3, 0]])
    np.testing.assert_array_equal(
        value.select(tf.constant(values), tf.constant(action)),
        [[0, 5, 10], [15, 19, 20]],
    )
    with pytest.raises(ValueError, match='values must be'):
        value.select(tf.zeros([2, 3, 4]), tf.zeros([2, 2], tf.int32))


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
@pytest.mark.parametrize('case', golden.cases('q_learning', 'huber'))
def test_huber_matches_the_references(case, dtype):
    x = case.tensors(dtype)['x']
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = value.huber(x, case.params['delta'])
    case.check(loss=loss, grad=tape.gradient(loss, x))


def test_huber_refuses_a_delta_that_is_not_positive():
    with pytest.raises(ValueError, match='delta must be > 0, got 0'):
        value.huber(tf.zeros([2]), 0.0)
