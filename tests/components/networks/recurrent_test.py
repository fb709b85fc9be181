from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from repertory.components.networks import memory, recurrent
from tests import cores

T, N, F, H = 7, 4, 5, 6


@pytest.fixture(params=['zeros', 'trainable', 'custom'])
def core(request):
    tf.random.set_seed(1)
    if request.param == 'custom':
        made = cores.HalfState(H)
    else:
        made = recurrent.LSTM(H, trainable_initial_state=request.param == 'trainable')
    made.step(tf.zeros([N, F]), made.initial_state(N))
    for variable in made.trainable_variables:
        variable.assign_add(tf.random.normal(variable.shape, stddev=0.3))
    return made


@pytest.fixture
def data():
    random = np.random.default_rng(0)
    inputs, state = random.normal(size=(T, N, F)), random.normal(size=(2, N, H))
    reset = random.random((T, N)) < 0.3
    reset[:, 0], reset[0, 1], reset[T - 1, 2] = False, True, True
    tensors = [tf.constant(x, tf.float32) for x in (inputs, *state)]
    return tensors[0], snt.LSTMState(*tensors[1:]), tf.constant(reset)


def by_steps(core, inputs, state, reset):
    outputs = []
    initial = core.initial_state(N)
    for t in range(T):
        mask = reset[t][:, tf.newaxis]
        state = snt.LSTMState(
            tf.where(mask, initial.hidden, state.hidden),
            tf.where(mask, initial.cell, state.cell),
        )
        output, state = core.step(inputs[t], state)
        outputs.append(output)
    return tf.stack(outputs), state


def with_gradients(core, unroll, inputs, state):
    """Returns outputs, the last state, and gradients of a loss on all of them."""
    weight = tf.constant(np.random.default_rng(1).normal(size=(T, N, H)), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch([inputs, *state])
        outputs, last = unroll(inputs, state)
        loss = tf.reduce_sum(outputs * weight)
        loss += tf.reduce_sum(last.cell * weight[1])
        loss += tf.reduce_sum(last.hidden * weight[2])
    sources = [inputs, *state, *core.trainable_variables]
    return [outputs, *last, *tape.gradient(loss, sources)]


@pytest.mark.parametrize('static', [False, True])
@pytest.mark.parametrize('graph', [False, True])
def test_unroll_is_step_after_step(core, data, static, graph):
    inputs, state, reset = data
    expected = with_gradients(
        core, lambda i, s: by_steps(core, i, s, reset), inputs, state
    )

    def run(inputs, state):
        return with_gradients(
            core, lambda i, s: core.unroll(i, s, reset, static), inputs, state
        )

    actual = (tf.function(run) if graph else run)(inputs, state)
    assert len(actual) == len(expected)
    for got, want in zip(actual, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize('static', [False, True])
@pytest.mark.parametrize('length, lanes', [(1, 1), (1, N), (2, 1)])
def test_one_step_and_one_lane_are_no_exception(core, data, static, length, lanes):
    inputs, state, _ = data
    inputs, state = (
        inputs[:length, :lanes],
        tree.map_structure(lambda x: x[:lanes], state),
    )
    reset, outputs = tf.eye(length, lanes, dtype=tf.bool), []
    for t in range(length):
        kept = 1.0 - tf.cast(reset[t], tf.float32)[:, tf.newaxis]
        initial = core.initial_state(lanes)
        mixed = tree.map_structure(
            lambda x, y, k=kept: k * x + (1.0 - k) * y, state, initial
        )
        output, state = core.step(inputs[t], snt.LSTMState(*mixed))
        outputs.append(output)
    before = tree.map_structure(lambda x: x[:lanes], data[1])
    actual, last = core.unroll(inputs, before, reset, static)
    for got, want in zip((actual, *last), (tf.stack(outputs), *state), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize('static', [False, True])
@pytest.mark.parametrize('length', [0, 1, 3])
def test_a_short_reset_is_as_one_that_is_nowhere_later(core, data, static, length):
    inputs, state, reset = data
    padded = tf.concat([reset[:length], tf.zeros_like(reset[length:])], axis=0)
    expected, actual = (
        with_gradients(
            core, lambda i, s, r=r: core.unroll(i, s, r, static), inputs, state
        )
        for r in (padded, reset[:length])
    )
    assert len(actual) == len(expected)
    for got, want in zip(actual, expected, strict=True):
        # Without one no gradient reaches a trainable initial state.
        want = tf.zeros([]) if want is None else want
        got = tf.zeros_like(want) if got is None else got
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize('graph', [False, True])
def test_a_trainable_initial_state_learns_only_where_lanes_are_reset(data, graph):
    inputs, state, reset = data
    core = recurrent.LSTM(H, trainable_initial_state=True)
    core.unroll(inputs, state, reset)  # Makes the variables.
    variables = [v for v in core.trainable_variables if v.shape == [H]]
    assert len(variables) == 2

    def gradients(mask):
        with tf.GradientTape() as tape:
            outputs, _ = core.unroll(inputs, state, mask)
            loss = tf.reduce_sum(outputs)
        return tape.gradient(loss, variables)

    if graph:
        gradients = tf.function(gradients)
    for mask, moved in ((tf.zeros_like(reset), False), (reset, True)):
        for gradient in gradients(mask):
            assert (np.abs(gradient).max() > 0) == moved


@pytest.mark.parametrize('lanes', [1, 3])
@pytest.mark.parametrize('known', [True, False])
def test_a_step_of_many_features_is_that_of_an_unroll(lanes, known):
    core = recurrent.LSTM(8)
    random = np.random.default_rng(0)
    # So small that no gate saturates.
    inputs = tf.constant(0.02 * random.normal(size=[lanes, 2500]), tf.float32)
    hidden, cell = tf.constant(random.normal(size=[2, lanes, 8]), tf.float32)
    no_reset = tf.zeros([0, lanes], tf.bool)
    outputs, last = core.unroll(inputs[tf.newaxis], (hidden, cell), no_reset)
    specs = [
        tf.TensorSpec([lanes if known else None, *x.shape[1:]])
        for x in (inputs, hidden, cell)
    ]
    step = tf.function(lambda x, *state: core.step(x, state), input_signature=specs)
    output, after = step(inputs, hidden, cell)
    assert np.abs(output).max() < 0.9
    np.testing.assert_allclose(output, outputs[0], atol=1e-5)
    np.testing.assert_allclose(after.cell, last.cell, atol=1e-5)


def test_zeros_known_as_the_initial_state_are_not_added(data):
    inputs, state, reset = data

    def num_operations(core):
        core.step(tf.zeros([N, F]), core.initial_state(N))
        function = tf.function(lambda: core.unroll(inputs, state, reset))
        return len(function.get_concrete_function().graph.get_operations())

    # At least two sums a step.
    assert (
        num_operations(recurrent.LSTM(H)) < num_operations(cores.HalfState(H)) - 2 * T
    )


def test_a_short_reset_leaves_later_steps_alone(core, data):
    inputs, state, reset = data
    network = memory.RecurrentNetwork(lambda x: x, core, lambda x: x)
    padded = tf.concat([reset[:3], tf.zeros_like(reset[3:])], axis=0)
    for burn_in in (0, 2):
        np.testing.assert_allclose(
            network.unroll(inputs, state, reset[:3], burn_in),
            network.unroll(inputs, state, padded, burn_in),
            rtol=1e-5,
            atol=2e-6,
        )


def test_the_shapes_may_be_unknown_when_the_graph_is_traced(core, data):
    inputs, state, reset = data
    signature = (
        tf.TensorSpec([None, None, F]),
        snt.LSTMState(*[tf.TensorSpec([None, H])] * 2),
        tf.TensorSpec([None, None], tf.bool),
    )

    def run(inputs, state, reset):
        return with_gradients(
            core, lambda i, s: core.unroll(i, s, reset), inputs, state
        )

    traced = tf.function(run, input_signature=signature)
    found = traced(inputs, state, reset), run(inputs, state, reset)
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6)
    with pytest.raises(ValueError, match='known length for static=True'):
        tf.function(lambda *x: core.unroll(*x, static=True)).get_concrete_function(
            *signature
        )


def test_unroll_refuses_shapes_that_do_not_fit(core, data):
    inputs, state, reset = data
    with pytest.raises(ValueError, match='inputs must be'):
        core.unroll(inputs, state, reset[:, :-1])
    with pytest.raises(ValueError, match='reset must have at most the'):
        core.unroll(inputs[:-1], state, reset)
