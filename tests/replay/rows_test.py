import types as pytypes

import numpy as np
import pytest
import tensorflow as tf
import tree
from dm_env import specs as dm_specs

from repertory.components import specs, types
from repertory.replay import rows
from tests import fakes

EXTRAS = {'log_prob': dm_specs.Array((3,), np.float16), 'q': dm_specs.Array((), 'f4')}


def make_codec(stored=('log_prob',)):
    spec = specs.make_environment_spec(fakes.NestedEnvironment())
    return rows.RowCodec(rows.make_row_spec(spec, EXTRAS, stored))


def random_rows(codec, num_rows, seed=0):
    rng = np.random.default_rng(seed)

    def draw(leaf):
        shape = (num_rows, *leaf.shape)
        if leaf.dtype == bool:
            return rng.random(shape) < 0.5
        if np.issubdtype(leaf.dtype, np.integer):
            info = np.iinfo(leaf.dtype)
            return rng.integers(info.min, info.max, shape, leaf.dtype, endpoint=True)
        return rng.normal(size=shape).astype(leaf.dtype)

    return tree.map_structure(draw, codec.spec)


def assert_same(actual, expected):
    tree.assert_same_structure(actual, expected)
    for a, b in zip(tree.flatten(actual), tree.flatten(expected), strict=True):
        assert np.asarray(a).dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), b)


def test_nest_of_every_kind_survives_the_round_trip():
    codec = make_codec()
    row = random_rows(codec, 5)
    packed = codec.encode(row)
    assert packed.shape == (5, codec.num_bytes) and packed.dtype == np.uint8
    decoded = tf.function(codec.decode, autograph=False)(tf.constant(packed))
    assert_same(decoded, row)
    assert list(decoded.observation) == list(row.observation)


@pytest.mark.parametrize(
    'dtype', 'bool u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8 c8 c16'.split()
)
def test_every_numeric_dtype_survives(dtype):
    codec = rows.NestCodec((dm_specs.Array((2,), dtype), dm_specs.Array((), dtype)))
    values = (np.array([[0, 1], [1, 1]], dtype), np.array([1, 0], dtype))
    assert_same(codec.decode(tf.constant(codec.encode(values))), values)


def test_unknown_leading_axes_are_decoded():
    codec = make_codec()
    row = random_rows(codec, 6)
    packed = codec.encode(row).reshape(2, 3, -1)
    signature = [tf.TensorSpec((None, None, codec.num_bytes), tf.uint8)]
    decoded = tf.function(codec.decode, signature, autograph=False)(packed)
    expected = tree.map_structure(lambda x: x.reshape(2, 3, *x.shape[1:]), row)
    assert_same(decoded, expected)


def test_extras_that_are_not_stored_are_left_out():
    codec = make_codec()
    row = random_rows(codec, 2)
    more = row._replace(extras={**row.extras, 'q': np.ones(2, np.float32)})
    np.testing.assert_array_equal(codec.encode(more), codec.encode(row))


def test_padding_rows_repeat_the_final_observation_without_reward():
    codec = make_codec()
    row = random_rows(codec, 4)
    padding = codec.decode(tf.constant(codec.padding(row, np.array([1, 3]))))
    assert_same(
        padding.observation, tree.map_structure(lambda x: x[[1, 3]], row.observation)
    )
    np.testing.assert_array_equal(padding.reward, [0, 0])
    np.testing.assert_array_equal(padding.discount, [1, 1])
    np.testing.assert_array_equal(padding.step_type, [types.StepType.PADDING] * 2)


@pytest.mark.parametrize('warm', [False, True])
@pytest.mark.parametrize(
    ('change', 'message'),
    [
        (
            lambda row: row._replace(reward=row.reward.astype(np.float64)),
            r'row.reward must be float32\[3\], got float64\[3\]',
        ),
        (
            lambda row: row._replace(reward=row.reward[:, None]),
            r'row.reward must be float32\[3\], got float32\[3, 1\]',
        ),
        (
            lambda row: row._replace(observation={'pixels': row.reward}),
            'row must have the structure',
        ),
        (
            lambda row: row._replace(extras={}),
            r"row.extras must hold \['log_prob'\], got \[\]",
        ),
        (
            lambda row: row._replace(
                observation={**row.observation, 'tick': row.observation['tick'][:2]}
            ),
            r'row.observation.tick must be int64\[3, 1\], got int64\[2, 1\]',
        ),
    ],
)
def test_row_that_is_not_of_the_spec_is_refused(change, message, warm):
    codec = make_codec()
    row = random_rows(codec, 3)
    if warm:
        codec.encode(row)
    with pytest.raises(ValueError, match=message):
        codec.encode(change(row))


def test_stored_extra_that_the_policy_lacks_is_refused_by_name():
    with pytest.raises(ValueError, match=r"got \['logits'\], .* \['log_prob', 'q'\]"):
        make_codec(stored=('q', 'logits'))


@pytest.mark.parametrize(
    ('spec', 'message'),
    [
        (dm_specs.StringArray(()), 'nest must be numeric'),
        (
            pytypes.SimpleNamespace(shape=(None, 2), dtype=np.float32),
            'nest must have a fixed shape',
        ),
    ],
)
def test_spec_that_cannot_be_packed_is_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        rows.NestCodec(spec)


def test_state_codec_takes_the_shapes_of_an_initial_state():
    assert rows.make_state_codec(()) is None
    state = (tf.zeros([1, 4]), {'count': tf.zeros([1], tf.int32)})
    codec = rows.make_state_codec(state)
    assert codec.num_bytes == 20
    values = (np.ones((2, 4), np.float32), {'count': np.array([3, 4], np.int32)})
    assert_same(codec.decode(tf.constant(codec.encode(values))), values)
