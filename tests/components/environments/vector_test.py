from __future__ import annotations

import dm_env
import gymnasium
import numpy as np
import pytest
import tree
from dm_env import specs as dm_specs

from repertory.components.environments import catch, vector
from tests import fakes


def scripted(rewards=((1, 2), (3,)), truncated=(True, False)):
    return fakes.ScriptedEnvironment(rewards, truncated)


def zeros(environment):
    return np.zeros(environment.num_lanes, np.int32)


def test_lanes_reset_one_by_one_and_keep_their_final_observation():
    lanes = vector.SerialVectorEnvironment([scripted(), scripted([(5,)], False)])
    steps = [lanes.reset()] + [lanes.step(zeros(lanes)) for _ in range(5)]
    columns = [[step.step_type.tolist(), step.reward.tolist()] for step in steps]
    assert columns == [
        [[0, 0], [0, 0]],
        [[1, 2], [1, 5]],
        [[2, 0], [2, 0]],
        [[0, 2], [0, 5]],
        [[2, 0], [3, 0]],
        [[0, 2], [0, 5]],
    ]
    # Truncated, then terminated; 1 at FIRST.
    assert [step.discount[0] for step in steps] == [1, 1, 1, 1, 0, 1]
    assert [step.discount[1] for step in steps] == [1, 0, 1, 0, 1, 0]
    assert [tuple(step.observation[0]) for step in steps] == [
        *[(0, 0), (0, 1), (0, 2)],
        *[(1, 0), (1, 1), (2, 0)],
    ]


def test_a_step_before_the_first_reset_is_a_reset():
    lanes = vector.SerialVectorEnvironment([scripted()])
    assert lanes.step(zeros(lanes)).step_type.tolist() == [0]


@pytest.mark.parametrize('call', ['reset', 'step'])
def test_nothing_else_comes_between_the_begin_and_the_end_of_a_step(call):
    lanes = vector.SerialVectorEnvironment([scripted()])
    lanes.reset()
    assert lanes.begin_step(zeros(lanes)) is False
    with pytest.raises(RuntimeError, match='begin_step must be followed by end_step'):
        getattr(lanes, call)(*[zeros(lanes)] * (call == 'step'))
    assert lanes.end_step().reward.tolist() == [1]


def test_dtypes_are_those_of_the_contract():
    lanes = vector.SerialVectorEnvironment([catch.Catch(0), catch.Catch(1)])
    step = lanes.reset()
    assert step.step_type.dtype == np.uint8
    assert step.reward.dtype == step.discount.dtype == np.float32
    assert step.observation.shape == (2, 10, 5)


def test_returned_arrays_are_never_written_again():
    lanes = vector.SerialVectorEnvironment([scripted(), scripted()])
    kept = [lanes.reset(), lanes.step(zeros(lanes))]
    copies = tree.map_structure(np.copy, kept)
    for _ in range(5):
        lanes.step(zeros(lanes))
    tree.map_structure(np.testing.assert_array_equal, kept, copies)


def test_nested_observations_and_actions_keep_structure_dtype_and_values():
    lanes = vector.SerialVectorEnvironment(
        [fakes.NestedEnvironment(seed=lane) for lane in range(3)]
    )
    action = {
        'jump': np.array([0, 1, 0], np.int64),
        'push': np.array([[0.5], [-0.5], [0.25]], np.float32),
    }
    lanes.reset()
    observation = lanes.step(action).observation
    assert list(observation) == ['pixels', 'body', 'angle', 'tick']
    assert isinstance(observation['body'], tuple)
    assert observation['pixels'].dtype == np.uint8
    assert (observation['pixels'] == 1).all()
    assert observation['body'][0].tolist() == [0, 1, 2]
    assert observation['body'][1]['velocity'].dtype == np.float32
    np.testing.assert_allclose(observation['body'][1]['velocity'], [[0.1, -1]] * 3)
    assert observation['body'][1]['contact'].tolist() == [[False, True, False]] * 3
    assert observation['tick'].tolist() == [[2**40 + 1]] * 3
    given = [lanes._environments[lane].actions[0] for lane in range(3)]
    assert [one['push'].tolist() for one in given] == [[0.5], [-0.5], [0.25]]
    assert [int(one['jump']) for one in given] == [0, 1, 0]


class Picky(fakes.ScriptedEnvironment):
    """Takes exactly one shape and dtype of action."""

    def __init__(self, spec):
        super().__init__([(1, 1)], False)
        self.spec = spec

    def action_spec(self):
        return self.spec


@pytest.mark.parametrize(
    'spec',
    [
        dm_specs.DiscreteArray(3, np.int32),
        dm_specs.DiscreteArray(3, np.int64),
        dm_specs.BoundedArray((1,), np.float32, -1, 1),
        dm_specs.BoundedArray((1, 1), np.float32, -1, 1),
        dm_specs.BoundedArray((1,), np.float64, -1, 1),
    ],
)
def test_an_environment_gets_actions_of_exactly_its_spec(spec):
    picky = Picky(spec)
    lanes = vector.SerialVectorEnvironment([picky])
    outer = lanes.spec.actions
    lanes.reset()
    lanes.step(np.zeros((1, *outer.shape), outer.dtype))
    assert outer.dtype != np.float64
    assert np.shape(picky.actions[0]) == spec.shape
    assert picky.actions[0].dtype == spec.dtype


@pytest.mark.parametrize(
    'action', [np.zeros(2, np.int64), np.zeros((2, 1), np.int32), np.zeros(1, np.int32)]
)
def test_other_actions_are_refused(action):
    lanes = vector.SerialVectorEnvironment([scripted(), scripted()])
    lanes.reset()
    with pytest.raises(ValueError, match=r'action must be int32\[\] .* got'):
        lanes.step(action)


@pytest.mark.parametrize('value', [float('nan'), float('inf')])
@pytest.mark.parametrize('field', ['observation', 'reward'])
def test_values_that_are_not_finite_are_named(field, value):
    lanes = vector.SerialVectorEnvironment(
        [scripted([(1,) * 10]), fakes.NaNEnvironment(2, field, value)], first_lane=4
    )
    lanes.reset()
    lanes.step(zeros(lanes))
    message = f'{field} of lane 5 must be finite, got .* at step 2'
    with pytest.raises(FloatingPointError, match=message):
        lanes.step(zeros(lanes))


def test_a_missing_reward_is_not_taken_for_zero():
    environment = fakes.NaNEnvironment(1, 'reward', None)
    lanes = vector.SerialVectorEnvironment([environment])
    lanes.reset()
    with pytest.raises(ValueError, match='reward of lane 0 must be .* got None at st'):
        lanes.step(zeros(lanes))


def test_a_reward_that_is_no_number_is_named():
    environment = fakes.NaNEnvironment(1, 'reward', np.ones(2))
    lanes = vector.SerialVectorEnvironment([scripted([(1,) * 10]), environment])
    lanes.reset()
    with pytest.raises(ValueError, match='reward of lane 1 must be a number, got'):
        lanes.step(zeros(lanes))


class Lying(fakes.ScriptedEnvironment):
    """Returns something other than its spec says."""

    def __init__(self, observation):
        super().__init__([(1, 1)], False)
        self.observation = observation

    def _tag(self):
        return self.observation


@pytest.mark.parametrize(
    ('observation', 'message'),
    [
        (np.zeros(3, np.float32), r'must be float32\[2\].*got float32\[3\]'),
        (np.zeros(2, np.float64), r'must be float32\[2\].*got float64\[2\]'),
        (np.zeros((2, 1), np.float32), r'must be float32\[2\].*got float32\[2, 1\]'),
    ],
)
def test_an_observation_unlike_its_spec_is_refused(observation, message):
    lanes = vector.SerialVectorEnvironment([Lying(observation)])
    with pytest.raises(ValueError, match='observation of lane 0 ' + message):
        lanes.reset()


class Renamed(fakes.NestedEnvironment):
    def _observation(self):
        observation = super()._observation()
        observation['corner'] = observation.pop('angle')
        return observation


def test_an_observation_of_another_structure_is_refused():
    lanes = vector.SerialVectorEnvironment([Renamed()])
    with pytest.raises(ValueError, match='; without .*/angle; beside .*/corner.'):
        lanes.reset()


def test_an_observation_that_changes_its_structure_is_refused():
    class Growing(fakes.NestedEnvironment):
        def step(self, action):
            step = super().step(action)
            return step._replace(observation={**step.observation, 'more': np.ones(1)})

    lanes = vector.SerialVectorEnvironment([Growing()])
    lanes.reset()
    action = tree.map_structure(
        lambda spec: np.zeros((1, *spec.shape), spec.dtype), lanes.spec.actions
    )
    with pytest.raises(ValueError, match='lane 0 must have the structure of .*more'):
        lanes.step(action)


def test_lanes_of_different_specs_are_refused():
    with pytest.raises(ValueError, match='environments must all have the same specs'):
        vector.SerialVectorEnvironment([catch.Catch(0), catch.Catch(0, columns=6)])


def test_no_lane_is_refused():
    with pytest.raises(ValueError, match='environments must hold one at least'):
        vector.SerialVectorEnvironment([])


class VectorReward(fakes.ScriptedEnvironment):
    def reward_spec(self):
        return dm_specs.Array((2,), np.float32)


def test_rewards_that_are_no_scalars_are_refused():
    with pytest.raises(ValueError, match=r'reward_spec must be a scalar.*\(2,\)'):
        vector.SerialVectorEnvironment([VectorReward([(1,)], False)])


def test_what_an_environment_raises_tells_its_lane(caplog):
    class Broken(fakes.ScriptedEnvironment):
        def step(self, action):
            raise OSError('motor')

    lanes = vector.SerialVectorEnvironment([scripted(), Broken([(1,)], False)], 4)
    lanes.reset()
    with pytest.raises(OSError, match='^motor$'):
        lanes.step(zeros(lanes))
    assert 'lane 5 raised at step 1, in step of Broken.' in caplog.text


def test_all_lanes_are_closed_though_one_cannot_be(caplog):
    closed = []

    class Closing(fakes.ScriptedEnvironment):
        def __init__(self, number):
            super().__init__([(1,)], False)
            self.number = number

        def close(self):
            closed.append(self.number)
            if self.number < 2:
                raise OSError(f'motor {self.number}')

    lanes = vector.SerialVectorEnvironment([Closing(number) for number in range(3)])
    with pytest.raises(OSError, match='motor 0'):
        lanes.close()
    assert closed == [0, 1, 2]
    assert 'lane 1 raised in close' in caplog.text


def test_close_closes_each_environment_once():
    class Closing(fakes.ScriptedEnvironment):
        closed = 0

        def close(self):
            self.closed += 1

    lanes = [Closing([(1,)], False) for _ in range(2)]
    environment = vector.SerialVectorEnvironment(lanes)
    environment.close()
    environment.close()
    assert [lane.closed for lane in lanes] == [1, 1]


def test_stock_dm_env_steps_come_out_in_single_precision():
    class Mixed(fakes.ScriptedEnvironment):
        def _advance(self, action):
            step = super()._advance(action)
            kinds = [np.float64(1), 2, True]
            return step._replace(reward=kinds[self._step - 1])

    lanes = vector.SerialVectorEnvironment([Mixed([(0, 0, 0)], False)])
    lanes.reset()
    rewards = [lanes.step(zeros(lanes)).reward for _ in range(3)]
    assert [float(reward[0]) for reward in rewards] == [1, 2, 1]
    assert all(reward.dtype == np.float32 for reward in rewards)
    assert isinstance(lanes.spec.rewards, dm_specs.Array)
    assert lanes.spec.rewards.dtype == lanes.spec.discounts.dtype == np.float32
    assert dm_env.StepType.LAST == 2


@pytest.mark.parametrize(
    ('at', 'changes', 'message'),
    [
        (2, {'step_type': dm_env.StepType.FIRST}, 'must be MID or LAST from step, got'),
        (2, {'step_type': 0}, 'must be MID or LAST from step, got 0 at step 2'),
        (2, {'step_type': 3}, 'must be MID or LAST from step, got 3 at step 2'),
        (0, {'step_type': dm_env.StepType.MID}, 'must be FIRST from reset, got'),
        (0, {'step_type': dm_env.StepType.LAST}, 'must be FIRST from reset, got'),
        (1, {'discount': 1.5}, r'discount of lane 5 must be in \[0, 1\], got 1.5'),
        (1, {'discount': -0.5}, r'discount of lane 5 must be in \[0, 1\], got -0.5'),
        (2, {'step_type': None}, 'step_type of lane 5 must be MID or LAST .* got None'),
        (2, {'step_type': 300}, 'step_type of lane 5 must be MID or LAST .* got 300'),
        (1, {'discount': None}, 'discount of lane 5 must be a number, got None'),
        (1, {'reward': None}, 'reward of lane 5 must be a number, got None at step 1'),
        (1, {'reward': 1e300}, r'reward of lane 5 .* up to 3.4e\+38, got 1e\+300 at'),
        (1, {'reward': 10**400}, r'reward of lane 5 .* up to 3.4e\+38, got 1000+'),
        (1, {'reward': np.complex64(1)}, r'reward of lane 5 must be a number, got \(1'),
        (1, {'reward': np.array(None)}, 'reward of lane 5 must be a number, got array'),
        (1, {'reward': 'one'}, "reward of lane 5 must be a number, got 'one'"),
        (1, {'reward': '1.5'}, "reward of lane 5 must be a number, got '1.5'"),
        (1, {'reward': np.ones(1)}, 'reward of lane 5 must be a number, got array'),
    ],
)
def test_a_step_that_is_none_is_refused(at, changes, message):
    class Broken(fakes.ScriptedEnvironment):
        time = -1

        def reset(self):
            return self.spoil(super().reset())

        def step(self, action):
            return self.spoil(super().step(action))

        def spoil(self, timestep):
            self.time += 1
            return timestep._replace(**changes) if self.time == at else timestep

    broken = Broken([[1, 2, 3]], False)
    lanes = vector.SerialVectorEnvironment([scripted([[1, 2, 3]]), broken], 4)
    with pytest.raises((ValueError, FloatingPointError), match=message):
        lanes.reset()
        for _ in range(3):
            lanes.step(zeros(lanes))


@pytest.mark.parametrize(
    ('made', 'message'),
    [
        (42, 'environment must be a dm_env.Environment, got int without observation_s'),
        (gymnasium.make('CartPole-v1'), 'one of gymnasium is wrapped by wrappers.gymn'),
    ],
)
def test_what_is_no_environment_is_refused(made, message):
    with pytest.raises(TypeError, match=message):
        vector.SerialVectorEnvironment([made])


def test_a_spec_of_another_kind_is_refused():
    class Broken(fakes.ScriptedEnvironment):
        def action_spec(self):
            return gymnasium.spaces.Discrete(3)

    with pytest.raises(TypeError, match='action_spec must be made of dm_env.specs.Arr'):
        vector.SerialVectorEnvironment([Broken([[1]], True)])


def test_a_step_as_gymnasium_returns_it_is_refused():
    class Broken(fakes.ScriptedEnvironment):
        def step(self, action):
            return np.zeros(2, np.float32), 1.0, False, {}

    lanes = vector.SerialVectorEnvironment([Broken([[1, 2]], True)])
    lanes.reset()
    with pytest.raises(TypeError, match='lane 0 must return a dm_env.TimeStep, got .a'):
        lanes.step(zeros(lanes))
