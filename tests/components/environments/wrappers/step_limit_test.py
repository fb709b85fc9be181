from __future__ import annotations

import numpy as np
import pytest

from repertory.components.environments.wrappers import single_precision, step_limit
from tests import conformance, fakes

ACTION = np.int32(0)


def test_it_conforms_to_dm_env():
    conformance.check(
        lambda: single_precision.wrap(
            step_limit.StepLimit(fakes.ScriptedEnvironment([(1,) * 50], False), 7)
        )
    )


def test_the_limit_truncates_and_keeps_the_final_observation_of_its_episode():
    environment = step_limit.StepLimit(
        fakes.ScriptedEnvironment([(1, 2, 3, 4, 5, 6)], False), 5
    )
    for episode in range(2):
        steps = [environment.reset() if episode == 0 else environment.step(ACTION)]
        steps += [environment.step(ACTION) for _ in range(5)]
        assert [step.reward for step in steps] == [None, 1, 2, 3, 4, 5]
        assert [int(step.step_type) for step in steps] == [0, 1, 1, 1, 1, 2]
        assert [step.discount for step in steps] == [None, 1, 1, 1, 1, 1]
        tags = [tuple(step.observation) for step in steps]
        assert tags == [(episode, time) for time in range(6)]


def test_a_termination_at_the_limit_stays_one():
    environment = step_limit.StepLimit(fakes.ScriptedEnvironment([(1, 2)], False), 2)
    environment.reset()
    environment.step(ACTION)
    last = environment.step(ACTION)
    assert last.last() and last.discount == 0


def test_a_shorter_episode_starts_the_count_anew():
    environment = step_limit.StepLimit(
        fakes.ScriptedEnvironment([(1,), (1, 1, 1)], False), 2
    )
    environment.reset()
    types = [int(environment.step(ACTION).step_type) for _ in range(5)]
    assert types == [2, 0, 1, 2, 0]


def test_a_limit_of_0_is_refused():
    with pytest.raises(ValueError, match='limit must be >= 1, got 0'):
        step_limit.StepLimit(fakes.ScriptedEnvironment([(1,)], False), 0)
