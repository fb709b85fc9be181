"""What lanes may share, change and return; more of it is in vector_test."""

from __future__ import annotations

import collections
import fractions
from typing import NamedTuple
from unittest import mock

import dm_env
import numpy as np
import pytest
import tree
from dm_env import specs

from repertory.components.environments import threads, vector
from repertory.components.environments.wrappers import single_precision


class Returning(dm_env.Environment):
    """Returns, step after step, what it is given; the last of it on and on."""

    def __init__(self, spec, *observations):
        self.spec, self.observations, self.time = spec, observations, -1

    def observation_spec(self):
        return self.spec

    def action_spec(self):
        return specs.DiscreteArray(2)

    def reset(self):
        return dm_env.restart(self.next())

    def step(self, action):
        return dm_env.transition(1.0, self.next())

    def next(self):
        self.time = min(self.time + 1, len(self.observations) - 1)
        return self.observations[self.time]


class Sharing(Returning):
    """Writes its number to an array of all lanes, and returns that."""

    def __init__(self, number, dtype, view, shared):
        self.number, self.view, self.shared = number, view, shared
        self.reward = shared[:1].reshape(())
        super().__init__(specs.Array((2,), dtype))

    def next(self):
        self.shared[:] = self.number
        return self.shared[:] if self.view else self.shared

    def step(self, action):
        observation = self.next()
        return dm_env.transition(self.reward, observation)


@pytest.mark.parametrize('view', [True, False])
@pytest.mark.parametrize('dtype', [np.float64, np.float32])
def test_lanes_that_share_an_array_get_their_own_numbers(dtype, view):
    shared = np.zeros(2, dtype)
    lanes = vector.SerialVectorEnvironment(
        [Sharing(number, dtype, view, shared) for number in (1, 2, 3)]
    )
    for step in lanes.reset(), lanes.step(np.zeros(3, np.int32)):
        assert step.observation.tolist() == [[1, 1], [2, 2], [3, 3]]
    assert step.reward.tolist() == [1, 2, 3]


def test_lanes_may_share_an_array_that_stays():
    spec, shared = {'x': specs.Array((2,), np.float64)}, {'x': np.ones(2)}
    lanes = vector.SerialVectorEnvironment([Returning(spec, shared) for _ in 'ab'])
    assert lanes.reset().observation['x'].tolist() == [[1, 1], [1, 1]]


class Scaling(Returning):
    """Writes to its action."""

    def __init__(self, action_spec):
        super().__init__(specs.Array((1,), np.float32), np.zeros(1, np.float32))
        self._action_spec, self.seen = action_spec, []

    def action_spec(self):
        return self._action_spec

    def step(self, action):
        for leaf in tree.flatten(action):
            leaf *= 10
            self.seen.append(leaf.tolist())
        return super().step(action)


@pytest.mark.parametrize(
    'kind', [vector.SerialVectorEnvironment, threads.ThreadVectorEnvironment]
)
@pytest.mark.parametrize('nested', [True, False])
@pytest.mark.parametrize('dtype', [np.float32, np.float64])
def test_an_environment_may_write_to_its_action(kind, nested, dtype):
    spec = specs.BoundedArray((2,), dtype, -1, 1)
    environments = [Scaling((spec, spec) if nested else spec) for _ in range(2)]
    with kind(environments) as lanes:
        lanes.reset()
        action = np.full((2, 2), 0.25, np.float32)
        lanes.step((action, action) if nested else action)
    assert action.tolist() == [[0.25, 0.25]] * 2
    assert environments[1].seen == [[2.5, 2.5]] * (1 + nested)


def test_a_method_of_one_lane_alone_counts():
    spec, observation = specs.Array((1,), np.float64), np.zeros(1)
    lane = single_precision.wrap(Returning(spec, observation))
    other = single_precision.wrap(Returning(spec, observation))
    end = dm_env.termination(np.float32(7), np.zeros(1, np.float32))
    with mock.patch.object(lane, 'step', return_value=end) as step:
        lanes = vector.SerialVectorEnvironment([lane, other])
        lanes.reset()
        assert lanes.step(np.zeros(2, np.int32)).reward.tolist() == [7, 1]
    step.assert_called_once()


class Pair(NamedTuple):
    a: object
    b: object


class Pile(list):
    """Is a list, of another type."""


ARRAY = specs.Array((2,), np.float64)
ONE, TWO = np.ones(2), np.full(2, 2.0)


@pytest.mark.parametrize('from_lane', [0, 1])
@pytest.mark.parametrize(
    ('spec', 'good', 'bad', 'message'),
    [
        ({'a': ARRAY, 'b': ARRAY}, {'a': ONE, 'b': TWO}, (TWO, ONE), 'got .*float64'),
        (
            {'a': ARRAY, 'b': ARRAY},
            collections.OrderedDict(b=TWO, a=ONE),
            {'b': ONE, 'c': TWO},
            '; without observation/a; beside observation/c.',
        ),
        (
            ({'a': ARRAY}, [ARRAY]),
            ({'a': ONE}, [TWO]),
            ({'b': ONE}, [TWO]),
            '; without observation/0/a; beside observation/0/b.',
        ),
        (Pair(ARRAY, ARRAY), Pair(ONE, TWO), (ONE, TWO), 'structure of Pair'),
        ({'a': ARRAY}, {'a': ONE}, {'a': [1.0, 2.0]}, 'beside observation/a/0, '),
    ],
)
def test_a_structure_that_changes_later_is_named(from_lane, spec, good, bad, message):
    """In a lane of the same kind as the other, and in one that is cast by itself."""
    other = tree.map_structure(lambda leaf: specs.Array((2,), np.float32), spec)
    single = tree.map_structure(np.float32, good)
    lanes = vector.SerialVectorEnvironment(
        [Returning(other, single)] * from_lane + [Returning(spec, good, good, bad)]
    )
    action = np.zeros(lanes.num_lanes, np.int32)
    lanes.reset()
    values = [leaf[-1].tolist() for leaf in tree.flatten(lanes.step(action)[3])]
    assert values == [[1, 1], [2, 2]][: len(values)]
    where = f'observation of lane {from_lane} must have the structure of .*at step 2'
    with pytest.raises(ValueError, match=f'{where}.*{message}|{message}.*at step 2'):
        lanes.step(action)


@pytest.mark.parametrize(
    ('dtype', 'given', 'wanted'),
    [
        (np.int64, [2, 1], [2, 1]),
        (np.uint8, [255, 0], [255, 0]),
        (bool, [1, False], [True, False]),
        (np.int32, [True, False], [1, 0]),
        (np.float32, [1, 2], [1, 2]),
        (np.float64, (0.5, True), [0.5, 1]),
        (np.float64, [fractions.Fraction(1, 2), 2**70], [0.5, 2**70]),
        (np.int64, [3.7, 1], None),
        (np.uint8, [300, 1], None),
        (np.uint8, [0, -1], None),
        (np.int64, [2**63, 0], None),
        (bool, [None, True], None),
        (bool, [2, 0], None),
        (bool, 'xy', None),
        (np.float64, ['1.5', '2'], None),
        (np.float64, [1j, 2], None),
        (np.float64, [None, 1], None),
        (np.float64, {'a': 1.0}, None),
        (np.float64, [[1], [2, 3]], None),
        (np.int64, None, None),
        (np.int64, 'abc', None),
    ],
)
@pytest.mark.filterwarnings('ignore:Creating an ndarray from ragged')
def test_python_is_cast_where_nothing_is_lost(dtype, given, wanted):
    lanes = vector.SerialVectorEnvironment([Returning(specs.Array((2,), dtype), given)])
    if wanted is not None:
        assert lanes.reset().observation.tolist() == [wanted]
        return
    name = np.dtype(dtype).name
    with pytest.raises(ValueError, match=rf'lane 0 must be {name}\[2\] .* at step 0'):
        lanes.reset()


def test_another_order_of_bytes_is_told():
    lanes = vector.SerialVectorEnvironment([Returning(ARRAY, np.ones(2, '>f8'))])
    with pytest.raises(ValueError, match=r'must be <f8\[2\] as .* got >f8\[2\]'):
        lanes.reset()


def test_a_pile_stays_one():
    spec = Pile([ARRAY, specs.Array((), np.int64)])
    lanes = vector.SerialVectorEnvironment([Returning(spec, Pile([ONE, np.int64(3)]))])
    observation = lanes.reset().observation
    assert type(observation) is Pile
    assert [leaf.tolist() for leaf in observation] == [[[1, 1]], [3]]
