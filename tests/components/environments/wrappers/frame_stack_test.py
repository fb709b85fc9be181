from __future__ import annotations

import pickle

import numpy as np
import pytest
import tree

from repertory.components import specs
from repertory.components.environments import vector
from repertory.components.environments.wrappers import (
    action_repeat,
    frame_stack,
    single_precision,
)
from tests import conformance, fakes

ACTION = np.int32(0)


def test_it_conforms_to_dm_env():
    conformance.check(
        lambda: single_precision.wrap(
            frame_stack.FrameStack(fakes.NestedEnvironment(), 3)
        )
    )


@pytest.mark.parametrize('truncated', [True, False])
def test_frames_are_of_one_episode_and_the_first_is_repeated(truncated):
    environment = frame_stack.FrameStack(
        fakes.ScriptedEnvironment([(1, 1), (1, 1, 1, 1)], truncated), 3
    )
    steps = [environment.reset()] + [environment.step(ACTION) for _ in range(7)]
    frames = [step.observation.tolist() for step in steps]
    assert [episode for episode, _ in frames] == [[0] * 3] * 3 + [[1] * 3] * 5
    times = [[0, 0, 0], [0, 0, 1], [0, 1, 2]]
    assert [time for _, time in frames] == [*times, *times, [1, 2, 3], [2, 3, 4]]


def test_nests_and_bounds_get_a_last_axis():
    lanes = vector.SerialVectorEnvironment(
        [frame_stack.FrameStack(fakes.NestedEnvironment(), 2)]
    )
    spec = lanes.spec.observations
    assert spec['pixels'].shape == (4, 3, 1, 2)
    assert spec['pixels'].maximum == 255
    assert spec['body'][0].shape == (2,)
    observation = lanes.reset().observation
    assert observation['body'][1]['contact'].shape == (1, 3, 2)
    assert observation['body'][1]['contact'].dtype == bool


def test_the_spec_says_that_it_is_a_stack_wherever_it_goes():
    inner = frame_stack.FrameStack(fakes.NestedEnvironment(), 2)
    spec = single_precision.wrap(inner).observation_spec()
    for one in (spec, pickle.loads(pickle.dumps(spec))):
        assert all(isinstance(leaf, specs.StackedFrames) for leaf in tree.flatten(one))
        assert one['body'][1]['velocity'].dtype == np.float32
        assert one['pixels'].maximum == 255 and one['tick'].minimum < 0
    plain = specs.unstacked(spec)
    assert not any(
        isinstance(leaf, specs.StackedFrames) for leaf in tree.flatten(plain)
    )
    assert plain['pixels'] == spec['pixels'] and plain['angle'] == spec['angle']


def test_a_stack_of_repeated_actions_is_no_stack_of_the_agents_steps():
    inner = frame_stack.FrameStack(fakes.ScriptedEnvironment([(1, 1)], True), 2)
    spec = action_repeat.ActionRepeat(inner, 2).observation_spec()
    assert not isinstance(spec, specs.StackedFrames)
    assert spec == inner.observation_spec()


def test_a_stack_of_0_is_refused():
    with pytest.raises(ValueError, match='num_frames must be >= 1, got 0'):
        frame_stack.FrameStack(fakes.NestedEnvironment(), 0)


@pytest.mark.parametrize('nested', [True, False])
def test_an_environment_may_use_its_array_again(nested):
    class Reusing(fakes.ScriptedEnvironment):
        buffer = np.zeros(2, np.float32)

        def observation_spec(self):
            spec = super().observation_spec()
            return {'x': spec} if nested else spec

        def _tag(self):
            self.buffer[:] = super()._tag()
            return {'x': self.buffer} if nested else self.buffer

    environment = frame_stack.FrameStack(Reusing([(1, 1, 1)], False), 3)
    environment.reset()
    observation = [environment.step(ACTION) for _ in range(2)][-1].observation
    assert tree.flatten(observation)[0].tolist() == [[0, 0, 0], [0, 1, 2]]
