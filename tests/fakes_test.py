from __future__ import annotations

import numpy as np
import pytest

from repertory.components.environments.wrappers import single_precision
from tests import conformance, fakes


@pytest.mark.parametrize(
    'make',
    [
        lambda: fakes.ScriptedEnvironment([(1, 2), (3,)], [True, False]),
        lambda: fakes.NestedEnvironment(),
        lambda: fakes.CliffWalk(4),
    ],
)
def test_fakes_conform_to_dm_env(make):
    conformance.check(lambda: single_precision.wrap(make()))


def test_the_cliff_walk_rewards_only_the_whole_right_way():
    walk = fakes.CliffWalk(3)
    walk.reset()
    steps = [walk.step(np.int32(action)) for action in (0, 1, 0)]
    assert [step.reward for step in steps] == [0, 0, 1]
    assert [step.discount for step in steps] == [1, 1, 0]
    assert [step.observation.tolist() for step in steps[:2]] == [[0, 1, 0], [0, 0, 1]]
    assert walk.reset().observation.tolist() == [1, 0, 0]
    fallen = walk.step(np.int32(1))
    assert fallen.last() and (fallen.reward, fallen.discount) == (0, 0)
