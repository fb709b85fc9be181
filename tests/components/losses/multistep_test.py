from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repertory.components.losses import multistep
from tests import golden
from tests.oracles import returns

REWARDS = np.array([1.0, 2.0, 3.0, 4.0])


def windows(final_discount):
    """The four 3-step windows of an episode of 4 steps, padded at its end."""
    reward, discount, valid = np.zeros([3, 4, 3])
    for t in range(4):
        for k in range(min(3, 4 - t)):
            reward[t, k] = REWARDS[t + k]
            discount[t, k] = final_discount if t + k == 3 else 1.0
            valid[t, k] = True
    return reward, discount, valid.astype(bool)


@pytest.mark.parametrize(
    'final_discount, expected_d',
    [(0.0, [0.729, 0.0, 0.0, 0.0]), (1.0, [0.729, 0.729, 0.81, 0.9])],
)
def test_n_step_return_at_an_episode_end(final_discount, expected_d):
    reward, discount = multistep.n_step_return(*windows(final_discount), 0.9)
    np.testing.assert_allclose(reward, [5.23, 7.94, 6.6, 4.0], rtol=1e-12)
    np.testing.assert_allclose(discount, expected_d, rtol=1e-12)


def test_n_step_return_leaves_the_first_reward_undiscounted():
    reward, discount = multistep.n_step_return(
        tf.constant([[1.0, 10.0, 100.0]]), tf.ones([1, 3]), tf.ones([1, 3], bool), 0.5
    )
    np.testing.assert_allclose(reward, [31.0])
    np.testing.assert_allclose(discount, [0.125])


def test_n_step_return_ignores_what_padding_holds():
    valid = np.array([[True, False, False]])
    garbage = np.array([[2.0, np.nan, 7.0]])
    discount = np.array([[1.0, 0.0, 9.0]])
    reward, discount = multistep.n_step_return(garbage, discount, valid, 0.9)
    np.testing.assert_allclose([reward[0], discount[0]], [2.0, 0.9])


def test_n_step_return_refuses_a_gamma_that_is_no_discount():
    with pytest.raises(ValueError, match=r'gamma must be in \[0, 1\], got 1.1'):
        multistep.n_step_return(*windows(1.0), 1.1)


def test_n_step_return_refuses_shapes_that_would_broadcast():
    reward, discount, valid = windows(1.0)
    with pytest.raises(ValueError, match='the same shape'):
        multistep.n_step_return(reward[:, :1], discount, valid, 0.9)


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
@pytest.mark.parametrize('case', golden.cases('q_learning', 'n_step_returns'))
def test_n_step_targets_match_the_references(case, dtype):
    x = case.tensors(dtype)
    actual = multistep.n_step_targets(
        x['rewards'], x['discounts'], x['v_t'], case.params['n']
    )
    case.check(returns=actual)


def test_n_step_targets_shorten_at_the_end_of_the_sequence():
    column = np.arange(1.0, 6.0)[:, None]
    actual = multistep.n_step_targets(
        column, np.full_like(column, 0.9), 10 * column, n=3
    )
    np.testing.assert_allclose(actual[:, 0], [27.1, 37.1, 47.1, 49.0, 50.0])


@pytest.mark.parametrize(
    'final_discount, expected',
    [(0.9, [10.0, 10.0, 10.0, 10.0]), (0.0, [10.0, 2.71, 1.9, 1.0])],
)
def test_n_step_targets_of_a_padded_episode(final_discount, expected):
    # 4 steps, then 3 dummies that hold garbage; every true target is 10.
    valid = np.array([1, 1, 1, 1, 0, 0, 0], bool)[:, None]
    reward = np.array([1, 1, 1, 1, 5, -3, 8.0])[:, None]
    discount = np.array([0.9, 0.9, 0.9, final_discount, 0.2, 0.9, 0])[:, None]
    value = np.array([10, 10, 10, 10, -70, np.nan, 55.0])[:, None]
    actual = multistep.n_step_targets(reward, discount, value, 3, valid)
    np.testing.assert_allclose(actual[:4, 0], expected)
    np.testing.assert_array_equal(actual[4:], 0.0)


@pytest.mark.parametrize('n', [1, 2, 3, 5, 9])
@pytest.mark.parametrize('dtype', ['float32', 'float64'])
def test_n_step_targets_match_the_definition(n, dtype):
    random = np.random.default_rng(n)
    shape = (8, 6)
    reward, value = random.normal(size=(2, *shape)).astype(dtype)
    discount = 0.9 * random.integers(0, 2, shape).astype(dtype)
    valid = random.random(shape) < 0.7  # Also episodes that follow one another.
    valid[:, 0], valid[:, 1] = True, False
    actual = multistep.n_step_targets(reward, discount, value, n, valid)
    expected = returns.n_step_targets(reward, discount, value, valid, n)
    assert actual.dtype == dtype
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_n_step_targets_carry_the_gradient_of_the_bootstrap():
    value = tf.constant([[10.0], [20.0], [30.0]])
    with tf.GradientTape() as tape:
        tape.watch(value)
        target = multistep.n_step_targets(
            tf.zeros([3, 1]), tf.fill([3, 1], 0.5), value, 2
        )
        first = target[0, 0]
    np.testing.assert_allclose(tape.gradient(first, value)[:, 0], [0.0, 0.25, 0.0])


def test_n_step_targets_refuse_no_step():
    with pytest.raises(ValueError, match='n must be >= 1, got 0'):
        multistep.n_step_targets(*np.zeros([3, 2, 1]), n=0)


def test_n_step_targets_refuse_shapes_that_would_broadcast():
    with pytest.raises(ValueError, match='the same shape'):
        multistep.n_step_targets(
            tf.zeros([2, 3]), tf.zeros([2, 1]), tf.zeros([2, 3]), n=1
        )
