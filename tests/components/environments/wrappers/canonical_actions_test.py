from __future__ import annotations

import numpy as np
import pytest
from dm_env import specs

from repertory.components.environments.wrappers import (
    canonical_actions,
    single_precision,
)
from tests import conformance, fakes


class Acting(fakes.ScriptedEnvironment):
    def __init__(self, spec):
        super().__init__([(1,) * 30], False)
        self._spec = spec

    def step(self, action):
        if self._ended:
            return self.reset()
        self.actions.append(action)
        return self._advance(action)

    def action_spec(self):
        return self._spec


MIXED = {
    'torque': specs.BoundedArray((2,), np.float64, [-2, 0], [2, 10], 'torque'),
    'grip': specs.DiscreteArray(3, name='grip'),
}


def test_it_conforms_to_dm_env():
    conformance.check(
        lambda: single_precision.wrap(canonical_actions.CanonicalActions(Acting(MIXED)))
    )


def test_actions_are_rescaled_to_their_bounds_in_their_dtype():
    inner = Acting(MIXED)
    environment = canonical_actions.CanonicalActions(inner)
    spec = environment.action_spec()
    assert spec['torque'].minimum == -1 and spec['torque'].maximum == 1
    assert spec['grip'] == MIXED['grip']
    environment.reset()
    given = [[-1, -1], [0, 0], [1, 1], [0.5, -0.5], [1.01, -7]]
    for torque in given:
        environment.step({'torque': np.array(torque), 'grip': np.int32(2)})
    taken = [action['torque'] for action in inner.actions]
    np.testing.assert_array_equal(taken, [[-2, 0], [0, 5], [2, 10], [1, 2.5], [2, 0]])
    for action in inner.actions:
        assert action['grip'] == 2
        MIXED['torque'].validate(action['torque'])


@pytest.mark.parametrize(
    'spec',
    [
        specs.BoundedArray((2,), np.float32, [-1, -np.inf], 1),
        specs.BoundedArray((2,), np.float32, -np.inf, np.inf),
        specs.Array((2,), np.float32),
    ],
)
def test_actions_without_bounds_are_refused_by_name(spec):
    with pytest.raises(ValueError, match='action/arm must have finite bounds, got'):
        canonical_actions.CanonicalActions(Acting({'arm': spec}))
