"""How lanes are put in single precision; their other rules are in vector_test."""

from __future__ import annotations

import numpy as np
import pytest
from dm_env import specs

from repertory.components.environments import vector
from repertory.components.environments.wrappers import single_precision
from tests import fakes


class Lane(fakes.ScriptedEnvironment):
    """Returns an observation beside its spec of [2]."""

    def __init__(self, observation, dtype=np.float64):
        super().__init__([(1, 1)], False)
        self.observation, self.dtype = observation, dtype

    def observation_spec(self):
        return specs.Array((2,), self.dtype, 'observation')

    def _tag(self):
        return self.observation


def numbers(dtype):
    return np.array([1, 0.1], dtype)


@pytest.mark.parametrize('lane_dtype', [np.float64, np.float32])
def test_doubles_and_floats_are_taken_where_a_lane_says_double(lane_dtype):
    lanes = vector.SerialVectorEnvironment(
        [Lane(numbers(np.float64)), Lane(numbers(np.float32), lane_dtype)]
    )
    observation = lanes.reset().observation
    assert observation.dtype == lanes.spec.observations.dtype == np.float32
    np.testing.assert_array_equal(observation, [numbers(np.float32)] * 2)


@pytest.mark.parametrize('others', [[], [Lane(numbers(np.float32), np.float32)]])
def test_another_dtype_is_refused(others):
    lanes = vector.SerialVectorEnvironment([Lane(np.ones(2, np.int64)), *others])
    with pytest.raises(ValueError, match=r'lane 0 must be float.*got int64\[2\]'):
        lanes.reset()


def test_a_double_beyond_single_precision_is_named():
    lanes = vector.SerialVectorEnvironment([Lane(np.array([1e300, 0]))])
    with pytest.raises(FloatingPointError, match='lane 0 .* exceeds the range of flo'):
        lanes.reset()


class Scalars(fakes.ScriptedEnvironment):
    observation_given = {'count': 3, 'share': 0.5}

    def observation_spec(self):
        return {
            'count': specs.Array((), np.int64, 'count'),
            'share': specs.Array((), np.float64, 'share'),
        }

    def _tag(self):
        return self.observation_given


def test_scalars_of_python_are_taken():
    lanes = vector.SerialVectorEnvironment([Scalars([(1, 1)], False) for _ in range(2)])
    observation = lanes.reset().observation
    assert observation['count'].tolist() == [3, 3]
    assert observation['share'].tolist() == [0.5, 0.5]
    assert observation['count'].dtype == np.int64
    assert observation['share'].dtype == np.float32


@pytest.mark.parametrize(
    'given',
    [
        {'count': 3, 'part': 0.5},
        {'count': 3, 'share': 0.5, 'more': 1},
        {'count': [3, 4], 'share': 0.5},
    ],
)
def test_python_of_another_structure_is_named(given):
    environment = Scalars([(1, 1)], False)
    environment.observation_given = given
    lanes = vector.SerialVectorEnvironment([environment])
    with pytest.raises(ValueError, match='lane 0 must have the structure of .*share'):
        lanes.reset()


def test_any_object_that_numpy_can_read_is_taken():
    class Foreign:
        dtype = 'foreign'

        def __array__(self, dtype=None):
            return np.array([1, 2], dtype)

    lanes = vector.SerialVectorEnvironment([Lane(Foreign())])
    assert lanes.reset().observation.tolist() == [[1, 2]]


class Wrapped(single_precision.SinglePrecision):
    """A subclass, whose own steps and end count."""

    closed = 0

    def step(self, action):
        return super().step(action)._replace(reward=np.float32(9))

    def close(self):
        self.closed += 1
        super().close()


def test_a_subclass_is_not_taken_off():
    lane = Wrapped(Lane(numbers(np.float64)))
    with vector.SerialVectorEnvironment([lane]) as lanes:
        lanes.reset()
        assert lanes.step(np.zeros(1, np.int32)).reward.tolist() == [9]
    assert lane.closed == 1


class Doubles(fakes.ScriptedEnvironment):
    def action_spec(self):
        return {
            'push': specs.BoundedArray((1,), np.float64, -1, 1, 'push'),
            'jump': specs.DiscreteArray(2, np.int64, name='jump'),
        }

    def step(self, action):
        self.given = action
        return self._advance(action)


def test_nested_actions_become_what_the_environment_says():
    environment = Doubles([(1, 1)], False)
    lanes = vector.SerialVectorEnvironment([environment])
    lanes.reset()
    lanes.step({'push': np.float32([[0.5]]), 'jump': np.ones(1, np.int64)})
    given = environment.given
    assert given['push'].dtype == np.float64 and given['push'].tolist() == [0.5]
    assert given['jump'].dtype == np.int64 and given['jump'] == 1


def test_a_missing_reward_is_named_beside_one_of_another_type():
    class Odd(fakes.ScriptedEnvironment):
        def __init__(self, reward):
            super().__init__([(1, 1)], False)
            self.reward = reward

        def step(self, action):
            return super().step(action)._replace(reward=self.reward)

    lanes = vector.SerialVectorEnvironment([Odd(True), Odd(None)])
    lanes.reset()
    with pytest.raises(ValueError, match='reward of lane 1 must be a number, got None'):
        lanes.step(np.zeros(2, np.int32))
