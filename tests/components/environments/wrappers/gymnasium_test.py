from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from dm_env import specs
from gymnasium import spaces

from repertory.components.environments import vector
from repertory.components.environments.wrappers import gymnasium, single_precision
from tests import conformance


class Scripted(gym.Env):
    """Returns given (terminated, truncated) pairs, and records what it is asked."""

    def __init__(self, ends=((False, False), (True, False)), observation=None):
        self.observation_space = observation or spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = spaces.Discrete(3, start=1)
        self.ends = ends
        self.resets = []
        self.actions = []
        self.time = 0
        self.closed = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets.append(seed)
        self.time = 0
        return self.observation_space.sample(), {'time': 0}

    def step(self, action):
        assert self.action_space.contains(action)
        self.actions.append(action)
        terminated, truncated = self.ends[self.time]
        self.time += 1
        info = {'time': self.time}
        return self.observation_space.sample(), 2, terminated, truncated, info

    def close(self):
        self.closed = True


@pytest.mark.parametrize('name', ['CartPole-v1', 'Pendulum-v1', 'MountainCar-v0'])
def test_known_environments_conform(name):
    conformance.check(
        lambda: single_precision.wrap(gymnasium.Gymnasium(gym.make(name), 0))
    )


@pytest.mark.parametrize(
    ('end', 'discount'),
    [((True, False), 0), ((False, True), 1), ((True, True), 0)],
)
def test_only_termination_ends_the_value(end, discount):
    environment = gymnasium.Gymnasium(Scripted([(False, False), end]))
    assert environment.reset().first()
    middle = environment.step(np.int64(0))
    assert middle.mid() and middle.discount == 1
    last = environment.step(np.int64(0))
    assert last.last() and last.discount == discount
    assert last.reward == 2
    assert environment.step(np.int64(0)).first()


def test_the_seed_is_given_once_and_info_stays_reachable():
    inner = Scripted()
    environment = gymnasium.Gymnasium(inner, seed=5)
    environment.reset()
    assert environment.last_info == {'time': 0}
    single_precision.wrap(environment).step(np.int64(0))
    assert single_precision.wrap(environment).last_info == {'time': 1}
    environment.reset()
    assert inner.resets == [5, None]
    environment.close()
    assert inner.closed


def test_discrete_actions_count_from_0_whatever_their_start():
    inner = Scripted([(False, False)] * 3)
    lanes = vector.SerialVectorEnvironment([gymnasium.Gymnasium(inner)])
    assert lanes.spec.actions == specs.DiscreteArray(3, np.int64, 'action_space')
    lanes.reset()
    for action in range(3):
        lanes.step(np.array([action]))
    assert inner.actions == [1, 2, 3]


NESTED = spaces.Dict(
    {
        'z': spaces.Tuple(
            [spaces.MultiBinary(3), spaces.MultiDiscrete([2, 4], start=[1, -1])]
        ),
        'a': spaces.Box(0, 255, (2, 2, 1), np.uint8),
        'm': spaces.Dict({'x': spaces.Box(-np.inf, np.inf, (1,), np.float64)}),
        'k': spaces.Discrete(4, start=-2),
    }
)


def test_nested_spaces_become_nested_specs_and_values_fit_them():
    environment = gymnasium.Gymnasium(Scripted(observation=NESTED))
    spec = environment.observation_spec()
    assert set(spec) == {'z', 'a', 'm', 'k'}
    assert spec['z'][0] == specs.BoundedArray(
        (3,), np.int8, 0, 1, 'observation_space/z/0'
    )
    assert spec['z'][1].maximum.tolist() == [1, 3]
    assert spec['m']['x'].dtype == np.float64
    NESTED.seed(0)
    for _ in range(20):
        value = environment.reset().observation
        for leaf, leaf_spec in [
            *zip(value['z'], spec['z']),
            (value['a'], spec['a']),
            (value['m']['x'], spec['m']['x']),
            (value['k'], spec['k']),
        ]:
            leaf_spec.validate(leaf)
    lanes = vector.SerialVectorEnvironment([environment])
    assert lanes.reset().observation['m']['x'].dtype == np.float32


def test_nested_actions_arrive_as_the_space_has_them():
    inner = Scripted([(False, False)] * 20)
    inner.action_space = NESTED
    environment = gymnasium.Gymnasium(inner)
    environment.reset()
    action = {
        'z': (np.array([0, 1, 1], np.int8), np.array([0, 3])),
        'a': np.zeros((2, 2, 1), np.uint8),
        'm': {'x': np.array([0.5])},
        'k': np.int64(3),
    }
    environment.step(action)  # the space itself checks dtypes and ranges.
    assert inner.actions[0]['k'] == 1
    assert inner.actions[0]['z'][1].tolist() == [1, 2]


def test_an_unknown_space_is_named():
    inner = Scripted(observation=spaces.Dict({'say': spaces.Text(5)}))
    with pytest.raises(ValueError, match='observation_space/say must be a Box.*Text'):
        gymnasium.Gymnasium(inner)


class Old:
    """gym's older interface: four values, a method for the seed, no info at reset."""

    def __init__(self, info):
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.info = info
        self.seeds = []

    def seed(self, seed):
        self.seeds.append(seed)

    def reset(self):
        return np.zeros(2, np.float32)

    def step(self, action):
        return np.ones(2, np.float32), 1.5, True, self.info


@pytest.mark.parametrize(
    ('info', 'discount'), [({}, 0), ({'TimeLimit.truncated': True}, 1)]
)
def test_the_older_interface_works(info, discount):
    inner = Old(info)
    environment = gymnasium.Gymnasium(inner, seed=3)
    assert environment.reset().observation.tolist() == [0, 0]
    last = environment.step(np.int64(0))
    assert last.last() and last.discount == discount
    assert environment.last_info == info
    environment.step(np.int64(0))
    assert inner.seeds == [3]
