from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repertory.components.losses import rescaling
from tests import golden
from tests.oracles import returns


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
@pytest.mark.parametrize('case', golden.cases('r2d2', 'value_rescaling'))
def test_rescaling_matches_the_references(case, dtype):
    x = case.tensors(dtype)['x']
    epsilon = case.params['eps']
    h, h_inv = rescaling.rescale(x, epsilon), rescaling.unrescale(x, epsilon)
    case.check(h=h)
    if dtype == 'float32':
        case.check(h_inv=h_inv)
    else:  # The references use the form that cancels, near 0 even in float64.
        np.testing.assert_allclose(h_inv, case.expected['h_inv'], 1e-9, 1e-9)


@pytest.mark.parametrize('epsilon', [0.0, 1e-3, 0.5])
@pytest.mark.parametrize('y', [-30.0, -1.0, -1e-3, 1e-6, 0.5, 12.0])
def test_unrescale_solves_the_equation(y, epsilon):
    actual = rescaling.unrescale(tf.constant(y, tf.float64), epsilon)
    np.testing.assert_allclose(actual, returns.unrescale(y, epsilon), rtol=1e-9)


def test_rescaling_reproduces_the_published_numbers():
    x = tf.constant([1.0, 10.0, 100.0, 1000.0], tf.float64)
    h = [0.41521356, 2.32662479, 9.14987562, 31.63858404]
    h_inv = [2.98805670, 117.43032278, 8546.62630718, 382518.44]
    np.testing.assert_allclose(rescaling.rescale(x), h, rtol=1e-8)
    np.testing.assert_allclose(rescaling.unrescale(x), h_inv, rtol=1e-8)
    np.testing.assert_array_equal(rescaling.rescale(-x), -rescaling.rescale(x))
    np.testing.assert_array_equal(rescaling.unrescale(-x), -rescaling.unrescale(x))


def test_the_round_trip_keeps_its_digits_in_float32():
    x = np.linspace(-1000.0, 1000.0, 20001, dtype=np.float32)
    error = np.abs(rescaling.unrescale(rescaling.rescale(x)) - x)
    assert error.max() < 1e-3  # The textbook form reaches 2.7e-3, and 7e-5 near 0.
    near = np.linspace(-0.1, 0.1, 2001, dtype=np.float32)
    error = np.abs(rescaling.unrescale(rescaling.rescale(near)) - near)
    assert error.max() < 1e-6


@pytest.mark.parametrize('function', [rescaling.rescale, rescaling.unrescale])
def test_rescaling_refuses_a_negative_epsilon(function):
    with pytest.raises(ValueError, match='epsilon must be >= 0, got -0.1'):
        function(tf.zeros([1]), -0.1)
