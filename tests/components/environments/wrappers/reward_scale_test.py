from __future__ import annotations

import numpy as np
import pytest
from dm_env import specs

from repertory.components.environments import catch
from repertory.components.environments.wrappers import reward_scale, single_precision
from tests import conformance, fakes


def test_it_conforms_to_dm_env():
    conformance.check(
        lambda: single_precision.wrap(reward_scale.RewardScale(catch.Catch(0), 0.1))
    )


def test_rewards_and_their_bounds_are_scaled():
    environment = reward_scale.RewardScale(
        fakes.ScriptedEnvironment([(100, -300)], False), 0.01
    )
    assert environment.reset().reward is None
    assert environment.step(np.int32(0)).reward == pytest.approx(1)
    assert environment.step(np.int32(0)).reward == pytest.approx(-3)
    bounded = reward_scale.RewardScale(catch.Catch(0), 0.5).reward_spec()
    assert (bounded.minimum, bounded.maximum) == (-0.5, 0.5)
    assert isinstance(environment.reward_spec(), specs.Array)


@pytest.mark.parametrize('scale', [0, -1, float('nan'), float('inf')])
def test_other_scales_are_refused(scale):
    with pytest.raises(ValueError, match='scale must be finite and > 0, got'):
        reward_scale.RewardScale(fakes.ScriptedEnvironment([(1,)], False), scale)
