from __future__ import annotations

import numpy as np

from repertory.components.environments.wrappers import (
    concat_observations,
    single_precision,
)
from tests import conformance, fakes


def make():
    return concat_observations.ConcatObservations(fakes.NestedEnvironment(seed=7))


def test_it_conforms_to_dm_env():
    conformance.check(lambda: single_precision.wrap(make()))


def test_fields_follow_each_other_by_sorted_key():
    environment = make()
    environment.reset()
    action = {'push': np.zeros(1, np.float32), 'jump': np.int64(0)}
    vector = environment.step(action).observation
    assert vector.dtype == np.float32
    angle, count, contact, velocity, pixels = [1 / 8], [7], [0, 1, 0], [0.1, -1], [1]
    tick = [2**40 + 1]
    expected = angle + count + contact + velocity + pixels * 12 + tick
    np.testing.assert_array_equal(vector, np.array(expected, np.float32))
    assert environment.observation_spec().shape == vector.shape
