from __future__ import annotations

import numpy as np
import pytest

from repertory.components.environments.wrappers import action_repeat, single_precision
from tests import conformance, fakes

ACTION = np.int32(1)


class Discounting(fakes.ScriptedEnvironment):
    def _advance(self, action):
        timestep = super()._advance(action)
        return timestep._replace(discount=0.5 * timestep.discount)


def test_it_conforms_to_dm_env():
    conformance.check(
        lambda: single_precision.wrap(
            action_repeat.ActionRepeat(fakes.NestedEnvironment(), 2)
        )
    )


def test_rewards_are_summed_and_stop_with_the_episode():
    inner = fakes.ScriptedEnvironment([(1, 2, 4, 8, 16)], truncated=True)
    environment = action_repeat.ActionRepeat(inner, 3)
    environment.reset()
    middle, last = environment.step(ACTION), environment.step(ACTION)
    assert (middle.reward, middle.discount, middle.mid()) == (7, 1, True)
    assert (last.reward, last.discount, last.last()) == (24, 1, True)
    assert last.observation.tolist() == [0, 5]
    first = environment.step(ACTION)
    assert first.first() and first.observation.tolist() == [1, 0]
    assert inner.actions == [1] * 5


def test_the_environments_discounts_weight_later_rewards():
    environment = action_repeat.ActionRepeat(Discounting([(1, 2, 4)], False), 2)
    environment.reset()
    middle, last = environment.step(ACTION), environment.step(ACTION)
    assert (middle.reward, middle.discount) == (1 + 0.5 * 2, 0.25)
    assert (last.reward, last.discount) == (4, 0)


def test_no_repeat_is_refused():
    with pytest.raises(ValueError, match='num_repeats must be >= 1, got 0'):
        action_repeat.ActionRepeat(fakes.NestedEnvironment(), 0)


class Scaling(fakes.NestedEnvironment):
    """Writes to its action."""

    def _advance(self, action):
        action['push'] *= 0.5
        return super()._advance(action)


def test_each_repeat_has_the_action_as_it_was():
    inner = Scaling(episode_length=9)
    environment = action_repeat.ActionRepeat(inner, 3)
    environment.reset()
    action = {'push': np.ones(1, np.float32), 'jump': np.int64(1)}
    environment.step(action)
    assert [one['push'].tolist() for one in inner.actions] == [[0.5]] * 3
    assert action['push'].tolist() == [1]
    assert isinstance(inner.actions[0]['jump'], np.int64)
