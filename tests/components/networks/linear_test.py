from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
from tensorflow.python.eager import context

from repertory.components.networks import linear


def test_a_layer_is_sonnets_with_its_gradients():
    ours, theirs = linear.Linear(4), snt.Linear(4)
    x = tf.random.stateless_normal([6, 5], seed=[0, 1])
    results = []
    for layer in ours, theirs:
        layer(x)
        values = (np.arange(4.0), np.arange(20.0).reshape(5, 4) / 10)  # b, w
        for variable, value in zip(layer.trainable_variables, values, strict=True):
            variable.assign(value)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
            loss = tf.reduce_sum(tf.square(y))
        results.append([y, *tape.gradient(loss, [x, *layer.trainable_variables])])
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_layer_keeps_the_scale_of_its_inputs_or_is_made_as_told():
    layer = linear.Linear(300)
    layer(tf.zeros([1, 400]))
    b, w = layer.trainable_variables
    np.testing.assert_array_equal(b, np.zeros(300))
    # A normal distribution of 400^-1/2, without what lies beyond two deviations.
    assert np.std(w) == pytest.approx(0.88 * 0.05, rel=0.03)
    assert np.abs(w).max() <= 0.1 + 1e-6
    made = linear.Linear(2, w_init=snt.initializers.Constant(3.0))
    np.testing.assert_array_equal(made(tf.ones([1, 2])), [[6.0, 6.0]])


@pytest.mark.parametrize(
    'x', [tf.zeros([3]), tf.zeros([]), tf.zeros([2, 3], tf.float64), np.zeros([2, 3])]
)
def test_what_is_no_batch_of_float32_features_is_refused(x):
    layer = linear.Linear(4)
    with pytest.raises(ValueError, match=r'x must be float32 \[N, F\].* got float'):
        layer(x)
    assert layer(np.zeros([2, 5], np.float32)).shape == (2, 4)  # Nothing was made.


def test_an_unknown_number_of_features_is_refused():
    layer = linear.Linear(4)
    function = tf.function(layer, input_signature=[tf.TensorSpec([None, None])])
    with pytest.raises(ValueError, match=r'a known F, got float32\(None, None\)'):
        function.get_concrete_function()


@pytest.mark.parametrize('activate_final', [True, False])
@pytest.mark.parametrize('x', [1.0, -1.0])
def test_layers_have_an_activation_between_them(activate_final, x):
    init = snt.initializers.Constant(-1.0)
    layers = linear.Layers([3, 2], tf.nn.elu, activate_final, w_init=init)

    def elu(y):
        return np.where(y < 0, np.expm1(y), y)

    expected = -3 * elu(-2 * x)
    if activate_final:
        expected = elu(expected)
    actual = layers(tf.fill([1, 2], x))
    np.testing.assert_allclose(actual, [[expected] * 2], rtol=1e-6)


def test_no_layers_are_the_features_themselves():
    layers = linear.Layers([])
    x = tf.ones([2, 3])
    np.testing.assert_array_equal(layers(x), x)


def test_product_bias_and_activation_are_one_operation_once_optimized():
    layers = linear.Layers([3, 3], tf.nn.elu)
    layers(tf.zeros([1, 3]))
    function = tf.function(lambda x: layers(x), autograph=False)
    context.enable_run_metadata()
    try:
        function(tf.ones([2, 3]))  # Optimized as it is first called.
        graphs = context.export_run_metadata().function_graphs
    finally:
        context.disable_run_metadata()
    nodes = [node for graph in graphs for node in graph.post_optimization_graph.node]
    names = [node.op for node in nodes]
    assert names.count('_FusedMatMul') == 2
    assert not {'MatMul', 'BiasAdd', 'Elu'} & set(names)
