"""Torsos, heads and the handling of observations."""

from __future__ import annotations

import dm_env.specs
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from repertory.components.networks import heads, normalization, observations, torsos


def test_flatten_observation_takes_any_nest_and_dtype():
    nest = {
        'b': np.array([[1, 2], [3, 4]], np.int64),
        'a': (np.array([True, False]), np.array([[[5]], [[250]]], np.uint8)),
    }
    actual = observations.flatten_observation(nest)
    assert actual.dtype == tf.float32
    np.testing.assert_array_equal(actual, [[1, 5, 1, 2], [0, 250, 3, 4]])


def test_flatten_observation_keeps_time_and_unknown_batch_axes():
    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, 2, 3]),
            tf.TensorSpec([None, None], tf.int32),
        ]
    )
    def flatten(x, y):
        flat = observations.flatten_observation((x, y), num_batch_dims=2)
        assert flat.shape.as_list() == [None, None, 7]
        return flat

    assert flatten(tf.zeros([4, 5, 2, 3]), tf.zeros([4, 5], tf.int32)).shape == (
        4,
        5,
        7,
    )


def test_flatten_observation_refuses_what_has_no_batch_axis():
    with pytest.raises(ValueError, match='at least one leaf'):
        observations.flatten_observation({})
    with pytest.raises(ValueError, match='at least 2 axes, got the shape .3,.'):
        observations.flatten_observation(np.zeros(3), num_batch_dims=2)


def test_over_time_calls_once_and_puts_the_axes_back():
    calls = []

    def function(nest, mask):
        calls.append(nest['x'].shape)
        return {'y': nest['x'] * 2.0, 'z': mask}

    nest = {'x': tf.reshape(tf.range(24.0), [2, 3, 4])}
    actual = observations.over_time(function, nest, tf.ones([2, 3], tf.bool))
    np.testing.assert_array_equal(actual['y'], nest['x'] * 2.0)
    assert actual['z'].shape == (2, 3)
    assert len(calls) == 1 and calls[0][1:] == [4]


def test_create_variables_calls_with_zeros_of_the_specs():
    spec = {'x': dm_env.specs.Array((3,), np.uint8), 'y': dm_env.specs.Array((), int)}
    network = torsos.MLP([5])
    output = observations.create_variables(network, spec)
    assert output.shape == (1, 5)
    assert network.trainable_variables[1].shape == (4, 5)


@pytest.mark.parametrize(
    'torso, features, convolutions',
    [
        (torsos.AtariTorso, 3136, 3),
        (torsos.ImpalaShallowTorso, 256, 2),
        (torsos.ImpalaResNetTorso, 256, 15),
    ],
)
def test_image_torsos(torso, features, convolutions):
    network = torso()
    frames = np.random.default_rng(0).integers(0, 256, (2, 84, 84, 4)).astype('uint8')
    output = network(frames)
    assert output.shape == (2, features)
    kernels = [v for v in network.trainable_variables if v.shape.rank == 4]
    assert len(kernels) == convolutions
    # Bytes are scaled in the graph, floats are taken as they are.
    np.testing.assert_allclose(
        output, network(frames.astype('float32') / 255.0), rtol=1e-4, atol=1e-5
    )


def test_each_byte_of_a_frame_is_a_255th():
    values = np.arange(256)
    scaled = torsos.scale_frames(values.astype(np.uint8))
    np.testing.assert_allclose(scaled, values / 255, rtol=1e-6)
    assert scaled.dtype == tf.float32
    unscaled = torsos.scale_frames(values.astype(np.int32))
    np.testing.assert_array_equal(unscaled, values)


def test_action_reward_torso_clips_the_reward_beside_the_features():
    observation = {
        'observation': tf.constant([[7.0], [8.0]]),
        'action': tf.constant([[0.0, 1.0], [1.0, 0.0]]),
        'reward': tf.constant([-5.0, 0.25]),
    }
    clipped = torsos.ActionRewardTorso(snt.Flatten(), max_abs_reward=1.0)
    np.testing.assert_array_equal(
        clipped(observation), [[7, 0, 1, -1], [8, 1, 0, 0.25]]
    )
    raw = torsos.ActionRewardTorso(snt.Flatten())
    np.testing.assert_array_equal(raw(observation)[:, -1], [-5.0, 0.25])


def test_dueling_head_is_value_plus_centred_advantage():
    head = heads.DuelingHead(3, hidden_sizes=(8,))
    features = tf.random.stateless_normal([5, 4], seed=[0, 1])
    q = head(features)
    names = {v.name.split('/')[1] for v in head.trainable_variables}
    assert names == {'value', 'advantage'}  # Each has its own hidden layer.
    assert len(head.trainable_variables) == 8
    value = head._value(features)
    np.testing.assert_allclose(
        tf.reduce_mean(q, axis=-1, keepdims=True), value, rtol=1e-5, atol=1e-6
    )
    advantage = head._advantage(features)
    np.testing.assert_allclose(
        q[:, 0] - q[:, 1], advantage[:, 0] - advantage[:, 1], rtol=1e-4, atol=1e-6
    )


def test_heads_have_their_shapes():
    features = tf.zeros([5, 4])
    assert heads.QHead(3, hidden_sizes=(8,))(features).shape == (5, 3)
    assert heads.ValueHead()(features).shape == (5,)
    output = heads.PolicyValueHead(3)(features)
    assert output.logits.shape == (5, 3) and output.value.shape == (5,)


def test_categorical_head_spans_its_range():
    distribution = heads.CategoricalHead(-1.0, 3.0, num_atoms=5)(tf.zeros([2, 4]))
    np.testing.assert_array_equal(distribution.support, [-1, 0, 1, 2, 3])
    np.testing.assert_allclose(distribution.mean(), [1.0, 1.0])
    with pytest.raises(ValueError, match='vmin must be < vmax, got 1.0 and 1.0'):
        heads.CategoricalHead(1.0, 1.0)
    with pytest.raises(ValueError, match='num_atoms must be >= 2, got 1'):
        heads.CategoricalHead(0.0, 1.0, num_atoms=1)


@pytest.mark.parametrize('shape', [(), (2,), (1, 1)])
def test_tanh_policy_head_has_the_actions_shape_and_starts_near_zero(shape):
    head = heads.TanhPolicyHead(shape)
    action = head(tf.random.stateless_normal([50, 16], seed=[0, 1]))
    assert action.shape == (50, *shape)
    assert 0.0 < np.abs(action).max() < 0.1


def test_inverting_tanh_is_held_at_a_limit_only_while_pushed_outwards():
    x = tf.constant([0.0, 0.5, -0.5, 10.0, 10.0, -10.0, -10.0])
    da = tf.constant([2.0, -1.0, -1.0, 1.0, -1.0, 1.0, -1.0])  # Descent goes along -da.
    with tf.GradientTape() as tape:
        tape.watch(x)
        a = heads.inverting_tanh(x)
    actual = tape.gradient(a, x, output_gradients=da)
    np.testing.assert_allclose(a, np.tanh(x), rtol=1e-6)
    raised = 1.0 - np.tanh(0.5)
    expected = [2.0, -raised, raised - 2.0, 2.0, 0.0, 0.0, -2.0]
    np.testing.assert_allclose(actual, expected, atol=1e-6)


@pytest.mark.parametrize(
    'torso', [torsos.LayerNormMLP([8, 6]), torsos.LateActionMLP([8, 6])]
)
def test_critic_torsos_depend_on_observation_and_action(torso):
    observation = {'x': tf.ones([2, 3]), 'y': tf.ones([2])}
    action = tf.ones([2, 2])
    with tf.GradientTape() as tape:
        tape.watch([observation, action])
        output = torso((observation, action))
    assert output.shape == (2, 6)
    gradients = tape.gradient(output, [observation['x'], observation['y'], action])
    assert all(np.abs(g).max() > 0 for g in gradients)


def test_late_action_mlp_puts_the_action_into_the_second_layer():
    torso = torsos.LateActionMLP([8, 6], tf.tanh)
    torso((tf.ones([1, 3]), tf.ones([1, 2])))
    kernels = [v.shape for v in torso.trainable_variables if v.shape.rank == 2]
    assert kernels == [(3, 8), (10, 6)]
    with pytest.raises(ValueError, match='at least two entries'):
        torsos.LateActionMLP([8])


def test_layer_norm_equals_sonnets_with_its_gradients():
    ours = normalization.LayerNorm()
    theirs = snt.LayerNorm(axis=-1, create_scale=True, create_offset=True)
    x = tf.random.stateless_normal([6, 5], seed=[0, 1], mean=3.0, stddev=4.0)
    weight = tf.random.stateless_normal([6, 5], seed=[1, 1])
    results = []
    for module in (ours, theirs):
        module(x)
        for name, value in (('scale', 1.7), ('offset', -0.4)):
            variable = next(v for v in module.variables if name in v.name)
            variable.assign(tf.range(5.0) * 0.1 + value)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = module(x)
            loss = tf.reduce_sum(weight * tf.square(y))
        by_name = sorted(module.trainable_variables, key=lambda v: v.name)
        results.append([y, *tape.gradient(loss, [x, *by_name])])
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
