import os
import pathlib
import threading

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from repertory.components import compiled


@pytest.mark.parametrize('small', [False, True])
def test_structures_and_variables_are_those_of_the_function(small):
    total = tf.Variable(0.0)

    def function(pair, state):
        total.assign_add(tf.reduce_sum(pair['b']))
        return {'z': pair['b'] - pair['a'], 'y': (total.read_value(), state)}, ()

    one = tf.TensorSpec([2], tf.float32)
    step = compiled.Compiled(function, [{'b': one, 'a': one}, ()], small)
    first = {'a': np.float32([1, 2]), 'b': tf.constant([4.0, 6.0])}
    for calls in (1, 2):
        result, state = step(first, ())
        assert state == () and result['y'][1] == ()
        np.testing.assert_array_equal(result['z'], [3, 4])
        assert result['y'][0].numpy() == total.numpy() == 10 * calls


@pytest.mark.parametrize('small', [False, True])
def test_a_changed_variable_is_seen_and_a_failing_check_is_raised(small):
    factor = tf.Variable(2.0)
    step = compiled.Compiled(
        lambda x: tf.debugging.check_numerics(factor * x, 'product'),
        [tf.TensorSpec([], tf.float32)],
        small,
    )
    assert step(tf.constant(3.0)).numpy() == 6.0
    factor.assign(5.0)
    assert step(tf.constant(3.0)).numpy() == 15.0
    with pytest.raises(tf.errors.InvalidArgumentError, match='product'):
        step(tf.constant(np.nan, tf.float32))
    assert step(tf.constant(1.0)).numpy() == 5.0


@pytest.mark.parametrize('small', [False, True])
def test_arguments_of_another_dtype_are_refused(small):
    signature = [tf.TensorSpec([2], tf.float32)]
    step = compiled.Compiled(lambda x: 2 * x, signature, small)
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(np.zeros(2, np.int64))


_NUMBERS = [tf.TensorSpec((2,), tf.float32)]


def double(x):
    return {'twice': tf.debugging.check_numerics(2 * x, 'seen')}


@pytest.mark.parametrize('small', [True, False])
def test_a_call_that_is_begun_gives_what_a_call_gives(small):
    one = compiled.Compiled(double, _NUMBERS, small)
    for x in ([1, 2], [3, 4]):
        x = tf.constant(x, tf.float32)
        np.testing.assert_array_equal(one.begin(x)['twice'], one(x)['twice'])
    one.close()
    np.testing.assert_array_equal(one.begin(x)['twice'], [6, 8])  # Anew.
    one.close()
    one.close()


@pytest.mark.parametrize('small', [True, False])
def test_an_output_is_the_argument_of_the_next_call(small):
    one = compiled.Compiled(lambda x: x + 1, _NUMBERS, small)
    x = tf.zeros(2)
    for _ in range(100):
        x = one.begin(x)
    np.testing.assert_array_equal(x, [100, 100])


def test_arrays_of_a_begun_call_may_be_changed_at_once():
    size, event = 1_000, threading.Event()

    def wait(x):
        event.wait(timeout=20)
        return x

    one = compiled.Compiled(
        lambda x: (tf.numpy_function(wait, [x], tf.float32), tf.identity(x)),
        [tf.TensorSpec((size,), tf.float32)],
        small=True,
    )
    # TensorFlow shares memory that is aligned, and copies other by itself.
    raw = np.zeros(4 * size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    array = raw[start : start + 4 * size].view(np.float32)
    array[:] = 1
    outputs = one.begin(array)
    array[:] = 2
    event.set()
    for output in outputs:
        np.testing.assert_array_equal(output, np.ones(size))


def test_a_begun_call_runs_beside_the_thread_that_began_it():
    event, came = threading.Event(), []

    def wait(x):
        came.append(event.wait(timeout=20))
        return x

    one = compiled.Compiled(
        lambda x: tf.numpy_function(wait, [x], tf.float32), _NUMBERS, small=True
    )
    output = one.begin(tf.ones(2))
    event.set()
    np.testing.assert_array_equal(output, [1, 1])
    assert came == [True]


@pytest.mark.parametrize('small', [True, False])
def test_what_goes_wrong_in_a_begun_call_is_raised_as_it_is_read(small):
    one = compiled.Compiled(double, _NUMBERS, small)
    output = one.begin(tf.constant([1.0, np.nan]))['twice']
    with pytest.raises(tf.errors.InvalidArgumentError, match='seen'):
        output.numpy()
    assert not tf.reduce_any(tf.zeros(1) > 0)  # This thread is as it was.
    one.close()
    np.testing.assert_array_equal(one.begin(tf.ones(2))['twice'], [2, 2])


def test_graphs_without_convolutions_are_small():
    linear, convolution = snt.Linear(3), snt.Conv2D(3, 2)
    linear(tf.zeros([1, 2]))
    convolution(tf.zeros([1, 4, 4, 2]))
    assert compiled.is_small(linear.variables)
    assert not compiled.is_small([*linear.variables, *convolution.variables])
    assert compiled.is_small(linear.variables, max_size=6)  # Weights [2, 3].
    assert not compiled.is_small(linear.variables, max_size=5)


@pytest.mark.parametrize('begun', [False, True])
def test_calls_of_a_small_graph_keep_no_memory(begun):
    one = compiled.Compiled(lambda x: 2 * x, _NUMBERS, small=True)
    step = one.begin if begun else one
    x = tf.zeros(2)

    def grow(calls):
        before = _resident_bytes()
        for _ in range(calls):
            step(x).numpy()
        return _resident_bytes() - before

    grow(5_000)
    assert grow(20_000) < 100 * 20_000  # A plain call would keep 414 bytes each.


def _resident_bytes():
    pages = int(pathlib.Path('/proc/self/statm').read_text().split()[1])
    return pages * os.sysconf('SC_PAGE_SIZE')
