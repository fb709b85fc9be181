from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repertory.components.losses import policy_gradient
from tests import golden


def test_log_probability_and_entropy_of_a_known_policy():
    logits = tf.math.log(tf.constant([[[0.5, 0.25, 0.25]]], tf.float64)) + 3.0
    actual = policy_gradient.log_probability(logits, tf.constant([[1]]))
    np.testing.assert_allclose(actual, [[np.log(0.25)]])
    np.testing.assert_allclose(policy_gradient.entropy(logits), [[1.5 * np.log(2.0)]])


def test_entropy_of_a_nearly_certain_policy_and_its_gradient_are_finite():
    logits = tf.constant([[1000.0, 0.0, -1000.0]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        entropy = policy_gradient.entropy(logits)
    np.testing.assert_array_equal(entropy, [0.0])
    np.testing.assert_array_equal(tape.gradient(entropy, logits), [[0.0, 0.0, 0.0]])


def test_policy_gradient_has_no_gradient_through_the_advantage():
    logits, advantage = tf.zeros([1, 2]), tf.constant([3.0])
    with tf.GradientTape() as tape:
        tape.watch([logits, advantage])
        loss = policy_gradient.policy_gradient(logits, tf.constant([0]), advantage)
    gradient, nothing = tape.gradient(loss, [logits, advantage])
    np.testing.assert_allclose(loss, [3.0 * np.log(2.0)], rtol=1e-6)
    np.testing.assert_allclose(gradient, [[-1.5, 1.5]])
    assert nothing is None


def test_policy_gradient_refuses_an_advantage_that_would_broadcast():
    with pytest.raises(ValueError, match='incompatible'):
        policy_gradient.policy_gradient(
            tf.zeros([3, 2]), tf.zeros([3], tf.int32), tf.zeros([3, 1])
        )


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
@pytest.mark.parametrize('case', golden.cases('dpg', 'dpg'))
def test_deterministic_policy_gradient_matches_the_references(case, dtype):
    x, clip = case.tensors(dtype), case.params['dqda_clipping']
    by_norm = case.params['clip_norm']
    a = x['a']
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(a)
        q = tf.reduce_sum(x['g'] * a - 0.5 * x['k'] * tf.square(a - x['c']), axis=-1)
        dqda = tape.gradient(q, a)
        loss = policy_gradient.deterministic_policy_gradient(
            a,
            dqda,
            max_norm=clip if by_norm else None,
            max_abs=None if by_norm else clip,
        )
    case.check(q=q, dqda=dqda, loss=loss, grad_action=tape.gradient(loss, a))


def test_the_deterministic_policy_gradient_points_at_a_quadratics_maximum():
    best = tf.constant([0.3, -0.6])
    action = tf.Variable([[0.9, 0.9]])
    for _ in range(100):
        with tf.GradientTape() as tape:
            dqda = -2.0 * (action - best)
            loss = policy_gradient.deterministic_policy_gradient(
                tf.convert_to_tensor(action), dqda, max_norm=1.0
            )
        action.assign_sub(0.1 * tape.gradient(loss, action))
    np.testing.assert_allclose(action, [best], atol=1e-3)


def test_both_clips_may_be_given_and_actions_may_have_any_shape():
    dqda = tf.constant([[[3.0], [-0.5]]])  # [1, 2, 1]
    loss = policy_gradient.deterministic_policy_gradient(
        tf.zeros([1, 2, 1]), dqda, max_norm=0.5, max_abs=1.0
    )
    np.testing.assert_allclose(loss, [0.125], rtol=1e-6)
    scalar = policy_gradient.deterministic_policy_gradient(
        tf.zeros([2]), tf.constant([1.0, 2.0])
    )
    np.testing.assert_allclose(scalar, [0.5, 2.0])


def test_deterministic_policy_gradient_refuses_bad_arguments():
    function = policy_gradient.deterministic_policy_gradient
    with pytest.raises(ValueError, match='max_norm must be > 0, got 0'):
        function(tf.zeros([2, 1]), tf.zeros([2, 1]), max_norm=0.0)
    with pytest.raises(ValueError, match='max_abs must be > 0, got -1'):
        function(tf.zeros([2, 1]), tf.zeros([2, 1]), max_abs=-1.0)
    with pytest.raises(ValueError, match='incompatible'):
        function(tf.zeros([2, 3]), tf.zeros([2, 1]))
