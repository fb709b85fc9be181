from __future__ import annotations

import dm_env
import numpy as np
from dm_env import specs

from repertory.components.environments.wrappers import single_precision
from tests import conformance, fakes


def test_it_conforms_to_dm_env():
    conformance.check(lambda: single_precision.wrap(fakes.NestedEnvironment()))


def test_rewards_and_discounts_are_float32_whatever_comes():
    kinds = [np.float64(1.5), 2, True, np.int64(3), np.float32(0)]

    class Mixed(fakes.ScriptedEnvironment):
        def _advance(self, action):
            return super()._advance(action)._replace(reward=kinds[self._step - 1])

    environment = single_precision.wrap(Mixed([(0,) * 5], True))
    first = environment.reset()
    assert first.reward is None and first.discount is None
    for reward in (1.5, 2, 1, 3, 0):
        step = environment.step(np.int32(0))
        assert step.reward == reward
        assert type(step.reward) is type(step.discount) is np.float32


class Doubles(fakes.ScriptedEnvironment):
    def observation_spec(self):
        bound = np.finfo(np.float64).max
        return {
            'x': specs.BoundedArray((2,), np.float64, -bound, [1.5, bound], 'x'),
            'n': specs.Array((), np.int64, 'n'),
            'y': specs.Array((), np.float64, 'y'),
        }

    def action_spec(self):
        return specs.BoundedArray((1,), np.float64, -2, 2, 'a')

    def _tag(self):
        return {'x': np.array([0.1, 1e-3]), 'n': 2**40 + 1, 'y': 0.25}


def test_doubles_become_floats_and_integers_stay():
    inner = Doubles([(1, 1)], False)
    environment = single_precision.wrap(inner)
    spec = environment.observation_spec()
    assert spec['x'].dtype == spec['y'].dtype == np.float32
    assert spec['x'].maximum.tolist() == [1.5, np.inf]
    assert spec['n'].dtype == np.int64
    observation = environment.reset().observation
    for name, leaf in observation.items():
        spec[name].validate(leaf)
    assert observation['n'] == 2**40 + 1
    assert environment.action_spec() == specs.BoundedArray((1,), np.float32, -2, 2, 'a')
    environment.step(np.array([0.5], np.float32))
    assert inner.actions[0].dtype == np.float64


def test_wrapping_twice_wraps_once():
    environment = single_precision.wrap(fakes.NestedEnvironment())
    assert single_precision.wrap(environment) is environment


def test_a_plain_dm_env_step_passes_unchanged_where_it_fits():
    class Fitting(fakes.ScriptedEnvironment):
        def _advance(self, action):
            one = np.float32(1)
            return dm_env.TimeStep(dm_env.StepType.MID, one, one, self._tag())

    step = single_precision.wrap(Fitting([(1,)], False))
    step.reset()
    assert type(step.step(np.int32(0)).reward) is np.float32
