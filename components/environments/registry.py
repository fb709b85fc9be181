"""Environments by id."""

from __future__ import annotations

import dm_env

from repertory.components.environments import catch
from repertory.components.environments.wrappers import single_precision


def make_environment(name: str, seed: int) -> dm_env.Environment:
    """Returns a new environment in single precision."""
    if name == 'catch':
        return single_precision.wrap(catch.Catch(seed))
    raise ValueError(f'name must be an environment id, got {name!r}.')
