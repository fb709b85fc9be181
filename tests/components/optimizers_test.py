from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from repertory.components import optimizers, schedules

SHAPES = [(2, 3), (), (4,)]


def _make(name, learning_rate=0.05):
    return {
        'adam': lambda: optimizers.Adam(learning_rate, 0.8, 0.99, 1e-3),
        'rmsprop': lambda: optimizers.RMSProp(learning_rate, 0.9, 0.01),
        'rmsprop from 1': lambda: optimizers.RMSProp(
            learning_rate, 0.9, 0.01, initial_square=1.0
        ),
        'centered': lambda: optimizers.RMSProp(learning_rate, 0.9, 0.01, centered=True),
    }[name]()


def _numpy_updates(name, x, gradients, rate=0.05):
    """The update rules, one gradient after the other."""
    m, v = np.zeros_like(x), np.zeros_like(x)
    if name == 'rmsprop from 1':
        v += 1.0
    for t, g in enumerate(gradients, start=1):
        if name == 'adam':
            m, v = 0.8 * m + 0.2 * g, 0.99 * v + 0.01 * g**2
            scale = rate * np.sqrt(1 - 0.99**t) / (1 - 0.8**t)
            x = x - scale * m / (np.sqrt(v) + 1e-3)
        else:
            m, v = 0.9 * m + 0.1 * g, 0.9 * v + 0.1 * g**2
            centre = m**2 if name == 'centered' else 0.0
            x = x - rate * g / np.sqrt(v - centre + 0.01)
    return x


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
@pytest.mark.parametrize('graph', [False, True])
@pytest.mark.parametrize('name', ['adam', 'rmsprop', 'rmsprop from 1', 'centered'])
def test_updates_match_the_rules(name, graph, dtype):
    random = np.random.default_rng(0)
    starts = [random.normal(size=s).astype(dtype) for s in SHAPES]
    gradients = [[random.normal(size=s).astype(dtype) for s in SHAPES] for _ in 'abcd']
    variables = [tf.Variable(x) for x in starts]
    optimizer = _make(name)
    optimizer.initialize(variables)
    apply = tf.function(optimizer.apply) if graph else optimizer.apply
    for step in gradients:
        apply([tf.constant(g) for g in step], variables)
    assert int(optimizer.step) == 4
    for i, variable in enumerate(variables):
        expected = _numpy_updates(name, starts[i], [g[i] for g in gradients])
        np.testing.assert_allclose(variable, expected, rtol=2e-5)


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
@pytest.mark.parametrize('updates', [1, 2_000])
@pytest.mark.parametrize('beta2', [0.99, 0.999, 0.9999])
def test_adam_corrects_its_bias(beta2, updates, dtype):
    # Of a constant gradient every update is the rate, the first one too.
    variable = tf.Variable(tf.zeros([2], dtype))
    optimizer = optimizers.Adam(0.5, beta2=beta2, epsilon=1e-30)
    optimizer.initialize([variable])
    apply = tf.function(
        lambda: optimizer.apply([tf.constant([3.0, -1e-3], dtype)], [variable])
    )
    apply()
    # It would not be, by 1e-5 or more, for betas that the kernel has rounded.
    np.testing.assert_allclose(variable, [-0.5, 0.5], rtol=1e-6)
    for _ in range(updates - 1):
        apply()
    before = variable.numpy()
    apply()
    np.testing.assert_allclose(before, 0.5 * updates * np.array([-1.0, 1.0]), rtol=2e-4)
    np.testing.assert_allclose(variable - before, [-0.5, 0.5], rtol=2e-4)


@pytest.mark.parametrize(
    'ours, theirs',
    [
        (optimizers.RMSProp(0.01, 0.9, 0.1), snt.optimizers.RMSProp(0.01, 0.9, 0, 0.1)),
        (
            optimizers.RMSProp(0.01, 0.9, 0.1, centered=True),
            snt.optimizers.RMSProp(0.01, 0.9, 0, 0.1, centered=True),
        ),
    ],
)
def test_rmsprop_is_sonnets(ours, theirs):
    random = np.random.default_rng(0)
    mine, other = [[tf.Variable(tf.ones([3]))] for _ in 'ab']
    ours.initialize(mine)
    for _ in range(5):
        gradient = [tf.constant(random.normal(size=3), tf.float32)]
        ours.apply(gradient, mine)
        theirs.apply(gradient, other)
    np.testing.assert_allclose(mine[0], other[0], rtol=1e-5)


def test_rmsprop_has_its_epsilon_inside_the_root():
    variable = tf.Variable([0.0, 0.0])
    optimizer = optimizers.RMSProp(0.01, 0.99, 0.1)
    optimizer.initialize([variable])
    optimizer.apply([tf.constant([0.5, -2.0])], [variable])
    np.testing.assert_allclose(variable, [-0.015617, 0.053452], rtol=1e-4)


def test_centered_rmsprop_survives_a_variance_that_rounds_below_zero():
    variable = tf.Variable([0.0])
    optimizer = optimizers.RMSProp(1e-3, 0.95, 1.5e-7, centered=True)
    optimizer.initialize([variable])
    _, ms, mg = optimizer.variables
    ms.assign([1.0 - 1e-5])  # As rounding leaves it after many equal gradients.
    mg.assign([1.0])
    optimizer.apply([tf.constant([1.0])], [variable])
    assert ms < mg**2 - 1.5e-7  # Without the guard the update is a NaN.
    np.testing.assert_allclose(variable, [-1e-3 / np.sqrt(1.5e-7)], rtol=1e-5)


@pytest.mark.parametrize('name', ['adam', 'rmsprop', 'centered'])
def test_an_optimizer_goes_on_from_its_variables(name):
    def make():
        variable, optimizer = tf.Variable([1.0, 2.0]), _make(name)
        optimizer.initialize([variable])
        return variable, optimizer

    gradients = [[tf.constant(g)] for g in ([1.0, -1.0], [0.5, 3.0], [2.0, 0.1])]
    variable, optimizer = make()
    for gradient in gradients:
        optimizer.apply(gradient, [variable])
    first, saved = make()
    for gradient in gradients[:2]:
        saved.apply(gradient, [first])
    second, resumed = make()
    second.assign(first)
    for source, to in zip(saved.variables, resumed.variables, strict=True):
        to.assign(source)
    resumed.apply(gradients[2], [second])
    np.testing.assert_array_equal(second, variable)


def test_the_learning_rate_may_depend_on_the_step():
    variable = tf.Variable(0.0)
    optimizer = _make('rmsprop', schedules.linear(1.0, 0.0, 4))
    optimizer.initialize([variable])
    apply = tf.function(lambda: optimizer.apply([tf.constant(1.0)], [variable]))
    rates = []
    for _ in range(6):
        rates.append(float(optimizer.learning_rate))
        before = float(variable)
        apply()
    np.testing.assert_allclose(rates, [1.0, 0.75, 0.5, 0.25, 0.0, 0.0])
    assert float(variable) == before  # The rate has come down to 0.


def test_optimizers_refuse_a_wrong_order_and_other_variables():
    one, two = tf.Variable(1.0, name='one'), tf.Variable(1.0, name='two')
    optimizer = _make('adam')
    with pytest.raises(RuntimeError, match='initialize must be called before apply'):
        optimizer.apply([tf.constant(1.0)], [one])
    optimizer.initialize([one])
    with pytest.raises(RuntimeError, match='initialize must be called once'):
        optimizer.initialize([one])
    with pytest.raises(ValueError, match='variables must be those of initialize'):
        optimizer.apply([tf.constant(1.0)], [two])
    with pytest.raises(ValueError, match=r"got None for \['one:0'\]"):
        optimizer.apply([None], [one])
    assert int(optimizer.step) == 0


@pytest.mark.parametrize(
    'make, message',
    [
        (lambda: optimizers.Adam(0.0), 'learning_rate must be > 0, got 0.0'),
        (lambda: optimizers.Adam(1.0, beta1=1.0), r'beta1 must be in \[0, 1\), got 1'),
        (lambda: optimizers.Adam(1.0, beta2=-1), r'beta2 must be in \[0, 1\), got -1'),
        (lambda: optimizers.Adam(1.0, epsilon=0.0), 'epsilon must be > 0, got 0'),
        (lambda: optimizers.RMSProp(1.0, decay=1.0), r'decay must be in \[0, 1\)'),
        (lambda: optimizers.RMSProp(1.0, epsilon=0.0), 'epsilon must be > 0, got 0'),
        (
            lambda: optimizers.RMSProp(1.0, initial_square=-1.0),
            'initial_square must be >= 0, got -1.0',
        ),
    ],
)
def test_optimizers_refuse_arguments_outside_their_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    'max_norm, scale', [(None, 1.0), (10.0, 1.0), (2.5, 0.5), (5.0, 1.0)]
)
def test_clipping_scales_all_gradients_alike_and_tells_the_norm_before(max_norm, scale):
    gradients = [tf.constant([3.0, 0.0]), tf.constant([[4.0]])]
    clipped, norm = optimizers.clip_by_global_norm(gradients, max_norm)
    assert float(norm) == 5.0
    np.testing.assert_allclose(clipped[0], [3.0 * scale, 0.0])
    np.testing.assert_allclose(clipped[1], [[4.0 * scale]])


def test_clipping_does_not_hide_a_gradient_that_is_not_finite():
    clipped, norm = optimizers.clip_by_global_norm([tf.constant([1.0, np.inf])], 1.0)
    assert not np.isfinite(norm) and not np.isfinite(clipped[0]).any()
    with pytest.raises(ValueError, match='max_norm must be > 0, got 0.0'):
        optimizers.clip_by_global_norm([tf.zeros([1])], 0.0)
