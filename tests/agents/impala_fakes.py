"""IMPALA's tests: a small config and the specs of a small environment."""

import dm_env.specs
import numpy as np

from repertory.agents.impala import config
from repertory.components import specs

ACTIONS = 2


def make_config(**changes):
    return config.Config(**{'hidden_sizes': (8,), 'core_size': 8, **changes})


SPEC = specs.EnvironmentSpec(
    observations=dm_env.specs.Array((3,), np.float32),
    actions=dm_env.specs.DiscreteArray(ACTIONS),
    rewards=dm_env.specs.Array((), np.float32),
    discounts=dm_env.specs.BoundedArray((), np.float32, 0, 1),
)
