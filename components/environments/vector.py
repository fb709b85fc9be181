"""Many environments in lockstep, in this thread."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import dm_env
import numpy as np
import tree
from dm_env import specs as dm_specs

from repertory.components import core, nests, specs, types
from repertory.components.environments.wrappers import single_precision

# Of rewards and discounts; None becomes NaN. What is of another type is cast by itself.
_NUMBERS = {float, int, np.float32, np.float64, type(None)}
_FIRST, _LAST = int(dm_env.StepType.FIRST), int(dm_env.StepType.LAST)


class SerialVectorEnvironment(core.VectorEnvironment):
    """Steps environments one after another.

    What they return is put in single precision where it is not, and checked against
    their specs, and for NaN and infinity, at every step. It is copied when all have
    stepped: an array must not be shared with another lane.

    Args:
        environments: one a lane, all with the same specs; closed by `close`.
        first_lane: number of the first one, for messages.

    Raises:
        ValueError: if there is none, if specs differ, if rewards are not scalars; at
            a step, if an action or observation has another structure, shape or dtype
            than its spec.
        FloatingPointError: at a step, if an observation, reward or discount is not
            finite.
    """

    def __init__(self, environments: Sequence[dm_env.Environment], first_lane: int = 0):
        if not environments:
            raise ValueError('environments must hold one at least, got none.')
        self._environments = [single_precision.wrap(one) for one in environments]
        self._first_lane = first_lane
        self.num_lanes = len(environments)
        self.spec = specs.make_environment_spec(self._environments[0])
        self._check_specs()
        inner = self._unwrap()
        self._leaf_specs = tree.flatten(self.spec.observations)
        self._leaf_dtypes = [leaf.dtype for leaf in tree.flatten(inner.observations)]
        paths = [path for path, _ in tree.flatten_with_path(self.spec.observations)]
        self._names = [field_name('observation', path) for path in paths]
        self._unflatten = nests.unflattener(self.spec.observations)
        self._unflatten_action = nests.unflattener(self.spec.actions)
        self._single_observation = isinstance(self.spec.observations, dm_specs.Array)
        self._single_action = isinstance(self.spec.actions, dm_specs.Array)
        self._action_shapes = [
            (self.num_lanes, *leaf.shape) for leaf in tree.flatten(self.spec.actions)
        ]
        self._action_dtypes = [leaf.dtype for leaf in tree.flatten(self.spec.actions)]
        self._inner_dtypes = [leaf.dtype for leaf in tree.flatten(inner.actions)]
        self._ended = [True] * self.num_lanes
        self._structure_checked = False
        self._num_steps = 0
        self._closed = False

    def reset(self) -> types.TimeStep:
        self._refuse_if_begun()
        self._ended = [True] * self.num_lanes
        return self._collect(self._run([(one.reset, ()) for one in self._environments]))

    def step(self, action: types.Nest) -> types.TimeStep:
        self._refuse_if_begun()
        return self._collect(self._run(self._step_calls(action)))

    def _step_calls(self, action: types.Nest) -> list[tuple[Callable, tuple]]:
        rows = self._unstack(action)
        self._num_steps += 1
        return [
            (one.reset, ()) if ended else (one.step, (row,))
            for one, ended, row in zip(self._environments, self._ended, rows)
        ]

    def _run(self, calls: Sequence[tuple[Callable, tuple]]) -> list[dm_env.TimeStep]:
        """Returns the results of the lanes' calls, in their order."""
        return [function(*arguments) for function, arguments in calls]

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            for one in self._environments:
                one.close()

    def _unstack(self, action: types.Nest):
        if self._single_action:
            action = np.asarray(action)
            if (
                action.shape != self._action_shapes[0]
                or action.dtype != self._action_dtypes[0]
            ):
                raise self._bad_action([action])
            return action.astype(self._inner_dtypes[0], copy=False)
        leaves = [np.asarray(leaf) for leaf in tree.flatten(action)]
        shapes = [leaf.shape for leaf in leaves]
        dtypes = [leaf.dtype for leaf in leaves]
        if shapes != self._action_shapes or dtypes != self._action_dtypes:
            raise self._bad_action(leaves)
        leaves = [
            leaf.astype(dtype, copy=False)
            for leaf, dtype in zip(leaves, self._inner_dtypes)
        ]
        return [
            self._unflatten_action([leaf[lane] for leaf in leaves])
            for lane in range(self.num_lanes)
        ]

    def _bad_action(self, leaves: Sequence[np.ndarray]) -> ValueError:
        got = ', '.join(map(_describe, leaves))
        return ValueError(
            f'action must be {specs.describe(self.spec.actions)} for each of '
            f'{self.num_lanes} lanes, got {got}, lanes first.'
        )

    def _collect(self, timesteps: Sequence[dm_env.TimeStep]) -> types.TimeStep:
        for one in timesteps:
            single_precision.check_step(one)
        # Where dm_env has None, at FIRST, types.TimeStep has 0 and 1. Elsewhere None
        # becomes NaN, and is refused.
        step_type = np.frombuffer(
            bytearray([one.step_type for one in timesteps]), np.uint8
        )
        firsts = (step_type == _FIRST).tolist()
        if firsts != self._ended or max(step_type.tolist()) > _LAST:
            raise self._bad_step_type(timesteps)
        reward = self._scalars(
            'reward',
            [0 if first else one.reward for one, first in zip(timesteps, firsts)],
        )
        discount = self._scalars(
            'discount',
            [1 if first else one.discount for one, first in zip(timesteps, firsts)],
        )
        if min(discount.tolist()) < 0 or max(discount.tolist()) > 1:
            raise self._bad_discount(discount)
        self._ended = (step_type == _LAST).tolist()
        observation = self._stack([one.observation for one in timesteps])
        return types.TimeStep(step_type, reward, discount, observation)

    def _bad_step_type(self, timesteps: Sequence[dm_env.TimeStep]) -> ValueError:
        wrong = [
            (one.step_type == _FIRST) != ended or one.step_type > _LAST
            for one, ended in zip(timesteps, self._ended)
        ]
        lane = wrong.index(True)
        allowed = 'FIRST from reset' if self._ended[lane] else 'MID or LAST from step'
        return ValueError(
            f'step_type of lane {self._first_lane + lane} must be {allowed}, got '
            f'{timesteps[lane].step_type!r} at step {self._num_steps}; an episode '
            'begins by reset and ends by LAST.'
        )

    def _bad_discount(self, discount: np.ndarray) -> ValueError:
        lane = int(np.argmax((discount < 0) | (discount > 1)))
        return ValueError(
            f'discount of lane {self._first_lane + lane} must be in [0, 1], got '
            f'{discount[lane]} at step {self._num_steps}; it is 0 where the episode '
            'terminates, and the agent has a gamma of its own.'
        )

    def _scalars(self, name: str, values: list) -> np.ndarray:
        if not _NUMBERS.issuperset(map(type, values)):
            values = [
                self._scalar(name, lane, value) for lane, value in enumerate(values)
            ]
        column = np.array(values, np.float32)
        self._check_finite(name, column)
        return column

    def _scalar(self, name: str, lane: int, value: Any) -> np.float32:
        cast = single_precision.scalar(value)
        if not isinstance(cast, np.float32):
            raise ValueError(
                f'{name} of lane {self._first_lane + lane} must be a number, got '
                f'{value!r} at step {self._num_steps}.'
            )
        return cast

    def _stack(self, observations: list[types.Nest]) -> types.Nest:
        if self._single_observation:
            return self._stack_leaf(0, observations)
        lanes = [tree.flatten(observation) for observation in observations]
        if not self._structure_checked or {*map(len, lanes)} != {len(self._names)}:
            for lane, observation in enumerate(observations):
                self._check_structure(lane, observation)
            self._structure_checked = True
        columns = map(self._stack_leaf, itertools.count(), zip(*lanes))
        return self._unflatten(list(columns))

    def _stack_leaf(self, i: int, leaves: Sequence[Any]) -> np.ndarray:
        name, spec, given = self._names[i], self._leaf_specs[i], self._leaf_dtypes[i]
        shape, dtype = spec.shape, spec.dtype
        stacked = np.empty((self.num_lanes, *shape), dtype)
        for lane, leaf in enumerate(leaves):
            if not isinstance(leaf, np.ndarray):
                is_numpy = isinstance(leaf, np.generic)
                leaf = np.asarray(leaf, leaf.dtype if is_numpy else given)
            if leaf.shape != shape or (leaf.dtype != given and leaf.dtype != dtype):
                raise ValueError(
                    f'{name} of lane {self._first_lane + lane} must be '
                    f'{np.dtype(given).name}{list(shape)} as its spec says, got '
                    f'{_describe(leaf)} at step {self._num_steps}.'
                )
            stacked[lane] = leaf
        if dtype.kind == 'f':
            self._check_finite(name, stacked)
        return stacked

    def _check_finite(self, name: str, values: np.ndarray) -> None:
        # The sum of squares costs half of `isfinite`, and is finite only if all are.
        flat = values.ravel()
        if math.isfinite(flat.dot(flat)):
            return
        finite = np.isfinite(values).reshape(self.num_lanes, -1).all(axis=1)
        if finite.all():
            return
        lane = int(np.argmin(finite))
        raise FloatingPointError(
            f'{name} of lane {self._first_lane + lane} must be finite, got '
            f'{values[lane]} at step {self._num_steps}; the environment has diverged.'
        )

    def _check_structure(self, lane: int, observation: types.Nest) -> None:
        try:
            tree.assert_same_structure(self.spec.observations, observation)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f'observation of lane {self._first_lane + lane} must have the '
                f'structure of {specs.describe(self.spec.observations)}, got '
                f'{tree.map_structure(_describe, observation)}.'
            ) from error

    def _unwrap(self) -> specs.EnvironmentSpec:
        """Returns a lane's specs without single precision, which this class then does.

        To cast lane by lane takes a tenth of a step of dm_control. It stays so where
        lanes have not all the same dtypes.
        """
        inner = [single_precision.unwrap(one) for one in self._environments]
        inner_specs = [specs.make_environment_spec(one) for one in inner]
        dtypes = [
            [leaf.dtype for leaf in tree.flatten((spec.observations, spec.actions))]
            for spec in inner_specs
        ]
        if any(other != dtypes[0] for other in dtypes):
            return self.spec
        self._environments = inner
        return inner_specs[0]

    def _check_specs(self) -> None:
        if self.spec.rewards.shape != ():
            raise ValueError(
                f'reward_spec must be a scalar, got shape {self.spec.rewards.shape}; '
                'wrap the environment so that it returns one number.'
            )
        for lane, one in enumerate(self._environments[1:], 1):
            other = specs.make_environment_spec(one)
            if (other.observations, other.actions) != (
                self.spec.observations,
                self.spec.actions,
            ):
                raise ValueError(
                    'environments must all have the same specs, got '
                    f'{other} in lane {self._first_lane + lane} and {self.spec} in '
                    f'lane {self._first_lane}.'
                )


def field_name(root: str, path: tuple) -> str:
    """Returns how a leaf is called in messages, such as observation/joints/0."""
    return '/'.join([root, *map(str, path)])


def _describe(leaf) -> str:
    if not hasattr(leaf, 'dtype'):
        leaf = np.asarray(leaf)
    return f'{np.dtype(leaf.dtype).name}{list(leaf.shape)}'
