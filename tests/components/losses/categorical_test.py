from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repertory.components.losses import categorical, value
from repertory.components.networks import heads
from tests import golden
from tests.oracles import returns

DTYPES = pytest.mark.parametrize('dtype', ['float32', 'float64'])


@DTYPES
@pytest.mark.parametrize('case', golden.cases('categorical', 'projection'))
def test_projection_matches_the_references(case, dtype):
    x = case.tensors(dtype)
    case.check(projected=categorical.categorical_project(x['z_p'], x['p'], x['z_q']))


@DTYPES
@pytest.mark.parametrize('case', golden.cases('categorical', 'two_hot'))
def test_projection_of_a_point_is_shared_by_its_neighbours(case, dtype):
    x = case.tensors(dtype)
    atoms = x['x'][:, tf.newaxis]
    actual = categorical.categorical_project(atoms, tf.ones_like(atoms), x['support'])
    case.check(two_hot=actual)
    if dtype == 'float32':  # The references decode by a support of more digits.
        case.check(decoded=tf.linalg.matvec(actual, x['support']))


@pytest.mark.parametrize(
    'reward, discount, expected',
    [
        (0.5, 0.9, [0.03, 0.15, 0.32, 0.32, 0.18]),
        (0.5, 0.0, [0, 0, 0.5, 0.5, 0]),
        (3.0, 0.0, [0, 0, 0, 0, 1]),
    ],
)
def test_projection_reproduces_numbers_worked_out_by_hand(reward, discount, expected):
    support = tf.range(-2.0, 3.0)
    p = tf.constant([[0.1, 0.2, 0.4, 0.2, 0.1]])
    atoms = reward + discount * support[tf.newaxis]
    actual = categorical.categorical_project(atoms, p, support)
    np.testing.assert_allclose(actual, [expected], atol=1e-6)


def test_projection_matches_the_floor_and_ceil_form():
    random = np.random.default_rng(0)
    support = np.sort(random.normal(size=7))
    atoms = random.normal(scale=2.0, size=(20, 5))
    atoms[0] = support[[0, 1, 3, 5, 6]]  # Exactly on the points.
    p = random.dirichlet(np.ones(5), size=20)
    actual = categorical.categorical_project(atoms, p, support)
    for i in range(20):
        expected = returns.categorical_project(atoms[i], p[i], support)
        np.testing.assert_allclose(actual[i], expected, atol=1e-12)


@DTYPES
@pytest.mark.parametrize('case', golden.cases('categorical', 'categorical_td'))
def test_categorical_td_matches_the_references(case, dtype):
    x = case.tensors(dtype)
    logits_tm1, logits_t = x['logits_tm1'], x['logits_t']
    with tf.GradientTape() as tape:
        tape.watch([logits_tm1, logits_t])
        td = categorical.categorical_td(
            logits_tm1, x['rewards'], x['discounts'], logits_t, x['support']
        )
        mean_loss = tf.reduce_mean(td.cross_entropy)
    gradient, nothing = tape.gradient(mean_loss, [logits_tm1, logits_t])
    assert nothing is None
    case.check(
        target=td.target,
        loss=td.cross_entropy,
        mean_loss=mean_loss,
        grad_logits_tm1=gradient,
        mean_tm1=heads.CategoricalDistribution(logits_tm1, x['support']).mean(),
        mean_t=heads.CategoricalDistribution(logits_t, x['support']).mean(),
    )


@DTYPES
@pytest.mark.parametrize('case', golden.cases('categorical', 'categorical_double_q'))
def test_categorical_td_of_selected_actions_is_categorical_double_q(case, dtype):
    x = case.tensors(dtype)
    best = tf.argmax(x['q_t_selector'], axis=-1)
    logits_tm1 = x['logits_tm1']
    with tf.GradientTape() as tape:
        tape.watch(logits_tm1)
        td = categorical.categorical_td(
            tf.gather(logits_tm1, x['a_tm1'], batch_dims=1),
            x['rewards'],
            x['discounts'],
            tf.gather(x['logits_t'], best, batch_dims=1),
            x['support'],
        )
        mean_loss = tf.reduce_mean(td.cross_entropy)
    case.check(
        target=td.target,
        loss=td.cross_entropy,
        mean_loss=mean_loss,
        grad_logits_tm1=tape.gradient(mean_loss, logits_tm1),
    )


@DTYPES
@pytest.mark.parametrize('case', golden.cases('categorical', 'distribution'))
def test_the_mean_matches_the_references(case, dtype):
    x = case.tensors(dtype)
    distribution = heads.CategoricalDistribution(x['logits'], x['support'])
    case.check(mean=distribution.mean())


def test_the_divergence_is_zero_at_the_target_and_has_no_gradient():
    support = tf.range(-2.0, 3.0)
    logits = tf.constant([[0.3, -1.0, 2.0, 0.0, 0.1]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        same = categorical.categorical_td(
            logits, tf.zeros([1]), tf.ones([1]), logits, support
        )
        moved = categorical.categorical_td(
            logits, tf.ones([1]), tf.zeros([1]), logits, support
        )
        divergences = same.divergence + moved.divergence
    np.testing.assert_allclose(same.divergence, [0.0], atol=1e-6)
    # The target is the point 1, whose entropy is 0.
    expected = -tf.nn.log_softmax(logits)[0, 3]
    np.testing.assert_allclose(moved.divergence, [expected], rtol=1e-6)
    assert tape.gradient(divergences, logits) is None


def test_point_masses_give_the_scalar_target():
    # All mass of Z(s') at 1; R + D 1 = 0.75 lies between the points 0 and 1.
    support = tf.range(-2.0, 3.0)
    logits_t = tf.constant([[-1e9, -1e9, -1e9, 0.0, -1e9]])
    td = categorical.categorical_td(
        tf.zeros([1, 5]), tf.constant([0.25]), tf.constant([0.5]), logits_t, support
    )
    mean = tf.linalg.matvec(td.target, support)
    np.testing.assert_allclose(mean, [0.75], rtol=1e-6)
    scalar = value.double_q_target(
        tf.zeros([1, 1]), tf.ones([1, 1]), tf.constant([0.25]), tf.constant([0.5])
    )
    np.testing.assert_allclose(mean, scalar, rtol=1e-6)


def test_categorical_refuses_shapes_that_would_broadcast():
    with pytest.raises(ValueError, match='must be .B, J.'):
        categorical.categorical_project(
            tf.zeros([2, 3]), tf.zeros([1, 3]), tf.range(3.0)
        )
    logits = tf.zeros([2, 3])
    with pytest.raises(ValueError, match='must be .B, K.'):
        categorical.categorical_td(
            logits, tf.zeros([2, 1]), tf.zeros([2]), logits, tf.range(3.0)
        )


def test_mass_outside_is_what_the_supports_ends_cut_off():
    support = tf.linspace(-1.0, 1.0, 5)
    probabilities = [[0.1, 0.2, 0.3, 0.3, 0.1], [0.2, 0.2, 0.2, 0.2, 0.2]]
    logits = tf.math.log(tf.constant(probabilities)) + 7.0
    # Moved by 0.6, atoms at 0.5 and 1 leave; shrunk and moved down by 3, all do.
    below, above = categorical.mass_outside(
        tf.constant([0.6, -3.0]), tf.constant([1.0, 0.5]), logits, support
    )
    np.testing.assert_allclose([below, above], [0.5, 0.2], rtol=1e-6)


def test_values_at_the_ends_themselves_are_not_outside():
    support = tf.linspace(0.0, 100.0, 51)
    # A reward of 1 a step, forever: 100 is worth 4.90... + 0.99^5 100.
    rewards = np.float32(sum(0.99**k for k in range(5)))
    below, above = categorical.mass_outside(
        tf.constant([rewards, 0.0]),
        tf.constant([0.99**5, 0.0]),
        tf.zeros([2, 51]),
        support,
    )
    assert (below.numpy(), above.numpy()) == (0.0, 0.0)
