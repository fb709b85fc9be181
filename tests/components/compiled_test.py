import numpy as np
import pytest
import tensorflow as tf

from repertory.components import compiled


def test_structures_and_variables_are_those_of_the_function():
    total = tf.Variable(0.0)

    def function(pair, state):
        total.assign_add(tf.reduce_sum(pair['b']))
        return {'z': pair['b'] - pair['a'], 'y': (total.read_value(), state)}, ()

    one = tf.TensorSpec([2], tf.float32)
    step = compiled.Compiled(function, [{'b': one, 'a': one}, ()])
    first = {'a': np.float32([1, 2]), 'b': tf.constant([4.0, 6.0])}
    for calls in (1, 2):
        result, state = step(first, ())
        assert state == () and result['y'][1] == ()
        np.testing.assert_array_equal(result['z'], [3, 4])
        assert result['y'][0].numpy() == total.numpy() == 10 * calls


def test_a_changed_variable_is_seen_and_a_failing_check_is_raised():
    factor = tf.Variable(2.0)
    step = compiled.Compiled(
        lambda x: tf.debugging.check_numerics(factor * x, 'product'),
        [tf.TensorSpec([], tf.float32)],
    )
    assert step(tf.constant(3.0)).numpy() == 6.0
    factor.assign(5.0)
    assert step(tf.constant(3.0)).numpy() == 15.0
    with pytest.raises(tf.errors.InvalidArgumentError, match='product'):
        step(tf.constant(np.nan, tf.float32))
    assert step(tf.constant(1.0)).numpy() == 5.0


def test_arguments_of_another_dtype_are_refused():
    step = compiled.Compiled(lambda x: 2 * x, [tf.TensorSpec([2], tf.float32)])
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(np.zeros(2, np.int64))
