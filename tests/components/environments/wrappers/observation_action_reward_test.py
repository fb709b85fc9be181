from __future__ import annotations

import numpy as np
from dm_env import specs

from repertory.components.environments import vector
from repertory.components.environments.wrappers import (
    observation_action_reward,
    single_precision,
)
from tests import conformance, fakes


def wrap(environment):
    return observation_action_reward.ObservationActionReward(environment)


def test_it_conforms_to_dm_env():
    conformance.check(lambda: single_precision.wrap(wrap(fakes.NestedEnvironment())))


def test_action_and_reward_are_those_that_led_here_and_zeros_at_first():
    environment = wrap(fakes.ScriptedEnvironment([(0.0, 2.5)], False))
    actions = [1, 0, 1, 1]
    steps = [environment.reset()]
    steps += [environment.step(np.int32(action)) for action in actions]
    seen = [step.observation for step in steps]
    assert [one['action'].tolist() for one in seen] == [
        *[[0, 0], [0, 1], [1, 0]],
        *[[0, 0], [0, 1]],
    ]
    assert [float(one['reward']) for one in seen] == [0, 0, 2.5, 0, 0]
    assert {one['reward'].dtype for one in seen} == {np.dtype(float)}
    assert {one['action'].dtype for one in seen} == {np.dtype(np.float32)}
    assert seen[1]['observation'].tolist() == [0, 1]


def test_other_actions_are_seen_as_they_are():
    environment = wrap(fakes.NestedEnvironment())
    environment.reset()
    action = {'push': np.array([0.5], np.float32), 'jump': np.int64(1)}
    seen = environment.step(action).observation['action']
    assert seen['push'].tolist() == [0.5]
    assert seen['jump'].tolist() == [0, 1]


class VectorReward(fakes.ScriptedEnvironment):
    def reward_spec(self):
        return specs.Array((2,), np.float32, 'reward')


def test_rewards_of_many_numbers_begin_with_zeros_too():
    environment = wrap(VectorReward([((1.0, 2.0),)], False))
    assert environment.reset().observation['reward'].tolist() == [0, 0]
    seen = environment.step(np.int32(0)).observation
    assert seen['reward'].tolist() == [1, 2]


def test_lanes_stack_it():
    lanes = vector.SerialVectorEnvironment(
        [wrap(fakes.ScriptedEnvironment([(3,)], True)) for _ in range(2)]
    )
    lanes.reset()
    observation = lanes.step(np.array([1, 0], np.int32)).observation
    assert observation['action'].tolist() == [[0, 1], [1, 0]]
    assert observation['reward'].tolist() == [3, 3]
    assert observation['reward'].dtype == np.float32


def test_an_action_is_seen_as_it_was_chosen():
    class Scaling(fakes.NestedEnvironment):
        def _advance(self, action):
            action['push'] *= 0.5
            return super()._advance(action)

    environment = wrap(Scaling())
    environment.reset()
    action = {'push': np.ones(1, np.float32), 'jump': np.int64(1)}
    assert environment.step(action).observation['action']['push'].tolist() == [1]
