"""Actions in [-1, 1]."""

from __future__ import annotations

import dm_env
import numpy as np
import tree
from dm_env import specs

from repertory.components import types
from repertory.components.environments.wrappers import base


class CanonicalActions(base.EnvironmentWrapper):
    """Lets floating-point actions be in [-1, 1], and rescales them to their bounds.

    Actions beyond [-1, 1] are clipped first, as rounding can bring them there.
    Integer actions stay as they are.

    Raises:
        ValueError: if a floating-point action has no finite bounds, naming it.
    """

    def __init__(self, environment: dm_env.Environment):
        super().__init__(environment)
        self._inner_spec = environment.action_spec()
        self._spec = tree.map_structure_with_path(_canonical, self._inner_spec)

    def step(self, action) -> dm_env.TimeStep:
        return self._environment.step(
            tree.map_structure(_rescale, action, self._inner_spec)
        )

    def action_spec(self) -> types.Nest:
        return self._spec


def fits(spec: types.Nest) -> bool:
    """Says whether actions of `spec` can be rescaled and are not in [-1, 1] yet."""
    floats = [s for s in tree.flatten(spec) if np.issubdtype(s.dtype, np.floating)]
    return all(map(_has_bounds, floats)) and any(
        np.any(s.minimum != -1) or np.any(s.maximum != 1) for s in floats
    )


def _has_bounds(spec: specs.Array) -> bool:
    return isinstance(spec, specs.BoundedArray) and bool(
        np.isfinite([*spec.minimum.flat, *spec.maximum.flat]).all()
    )


def _canonical(path: tuple, spec: specs.Array) -> specs.Array:
    if not np.issubdtype(spec.dtype, np.floating):
        return spec
    if not _has_bounds(spec):
        name = '/'.join(['action', *map(str, path)])
        raise ValueError(
            f'{name} must have finite bounds, got {spec}; bound it in the environment, '
            'since no scale for [-1, 1] follows from infinite ones.'
        )
    return specs.BoundedArray(spec.shape, spec.dtype, -1, 1, spec.name)


def _rescale(action, spec: specs.Array):
    if not np.issubdtype(spec.dtype, np.floating):
        return action
    fraction = (np.clip(action, -1, 1) + 1) / 2
    # A weighted mean, which meets both bounds exactly.
    scaled = spec.minimum * (1 - fraction) + spec.maximum * fraction
    return np.asarray(scaled, spec.dtype)
