"""What lanes return, checked and put in columns, lane by lane."""

from __future__ import annotations

import contextlib
import math
import reprlib
from collections.abc import Sequence
from typing import Any

import dm_env
import numpy as np
import tree
from dm_env import specs as dm_specs

from repertory.components import nests, specs, types
from repertory.components.environments import casting
from repertory.components.environments.wrappers import single_precision

# Of rewards and discounts. None becomes NaN, and is refused; what is of another type
# may change later, as an array [] does, and is cast at once.
_NUMBERS = {float, int, np.float32, np.float64, type(None)}
_FIRST, _LAST = int(dm_env.StepType.FIRST), int(dm_env.StepType.LAST)
_MAXIMUM = float(np.finfo(np.float32).max)


class Step:
    """One vector step, as far as its lanes have come."""

    def __init__(self, number: int, num_lanes: int, leaves: list[np.ndarray]):
        self.number = number
        self.step_types: list[Any] = [None] * num_lanes
        self.rewards: list[Any] = [None] * num_lanes
        self.discounts: list[Any] = [None] * num_lanes
        self.leaves = leaves


class Columns:
    """Puts the steps of single lanes together.

    Each is copied when it is put: the environment may reuse its arrays, and share them
    with those of other lanes.

    Args:
        outer: specs of what comes out, in single precision.
        inner: specs of what lanes return.
        num_lanes: at least 1.
        first_lane: number of the first one, for messages.
    """

    def __init__(
        self,
        outer: specs.EnvironmentSpec,
        inner: specs.EnvironmentSpec,
        num_lanes: int,
        first_lane: int,
    ):
        self._num_lanes = num_lanes
        self._first_lane = first_lane
        self._inner = inner.observations
        self._single = isinstance(outer.observations, dm_specs.Array)
        self._flatten = nests.flattener(inner.observations)
        self._unflatten = nests.unflattener(outer.observations)
        paths = [path for path, _ in tree.flatten_with_path(outer.observations)]
        self._names = [field_name('observation', path) for path in paths]
        # Of each leaf: its shape, its dtype where it comes from, and here.
        self._kinds = [
            (leaf.shape, given.dtype, leaf.dtype)
            for leaf, given in zip(
                tree.flatten(outer.observations), tree.flatten(inner.observations)
            )
        ]
        self._shapes = [((num_lanes, *shape), dtype) for shape, _, dtype in self._kinds]

    def begin(self, number: int) -> Step:
        """Returns a step without any lane; `number` is for messages."""
        leaves = [np.empty(shape, dtype) for shape, dtype in self._shapes]
        return Step(number, self._num_lanes, leaves)

    def put(self, step: Step, lane: int, timestep: dm_env.TimeStep) -> None:
        """Copies what a lane returned.

        Raises:
            TypeError: if that is no dm_env.TimeStep.
            ValueError: if it is not as its specs say.
        """
        if type(timestep) is not dm_env.TimeStep:
            single_precision.check_step(timestep, f'lane {self._first_lane + lane}')
        step_type, reward, discount, observation = timestep
        step.step_types[lane] = step_type
        if step_type == _FIRST:
            # Where dm_env has None, types.TimeStep has 0 and 1.
            reward, discount = 0, 1
        elif type(reward) not in _NUMBERS or type(discount) not in _NUMBERS:
            reward = self._number('reward', lane, step, reward)
            discount = self._number('discount', lane, step, discount)
        step.rewards[lane] = reward
        step.discounts[lane] = discount
        if self._single:
            leaves: Sequence[Any] = (observation,)
        else:
            try:
                leaves = self._flatten(observation)
            except (TypeError, ValueError) as error:
                raise self._bad_structure(lane, step, observation) from error
        for leaf, column, (shape, given, dtype) in zip(
            leaves, step.leaves, self._kinds
        ):
            if type(leaf) is not np.ndarray:
                leaf = self._read(lane, step, leaf, column, observation)
            if leaf.shape != shape or (
                leaf.dtype is not given and leaf.dtype not in (given, dtype)
            ):
                raise self._bad_leaf(lane, step, leaf, column)
            column[lane] = leaf

    def finish(self, step: Step, ended: Sequence[bool]) -> types.TimeStep:
        """Returns the step that all lanes are in.

        Args:
            step: of `begin`.
            ended: of each lane, whether this is the first step of its episode.

        Raises:
            ValueError: if a lane's step type or discount cannot be.
            FloatingPointError: if an observation, reward or discount is not finite.
        """
        try:
            step_type = np.frombuffer(bytearray(step.step_types), np.uint8)
        except (TypeError, ValueError):  # Such as None, or beyond a byte.
            raise self._bad_step_type(step, ended) from None
        firsts = (step_type == _FIRST).tolist()
        if firsts != ended or max(step_type.tolist()) > _LAST:
            raise self._bad_step_type(step, ended)
        reward = self._scalars('reward', step, step.rewards)
        discount = self._scalars('discount', step, step.discounts)
        if min(discount.tolist()) < 0 or max(discount.tolist()) > 1:
            raise self._bad_discount(step, discount)
        for name, column in zip(self._names, step.leaves):
            if column.dtype.kind == 'f' and not _is_finite(column):
                self._refuse_infinite(name, step, column)
        leaves = step.leaves
        observation = leaves[0] if self._single else self._unflatten(leaves)
        return types.TimeStep(step_type, reward, discount, observation)

    def _number(self, name: str, lane: int, step: Step, value: Any) -> Any:
        if type(value) in _NUMBERS:
            return value
        found = casting.number(value)
        if found is None:
            raise ValueError(
                f'{self._where(name, lane)} must be a number, got '
                f'{reprlib.repr(value)} at step {step.number}.'
            )
        return found

    def _scalars(self, name: str, step: Step, values: list) -> np.ndarray:
        column = None
        with contextlib.suppress(OverflowError):  # Of an integer beyond float64.
            column = np.array(values, np.float32)
        if column is not None and _is_finite(column):
            return column
        for lane, value in enumerate(values):
            if value is None:
                raise ValueError(
                    f'{self._where(name, lane)} must be a number, got None at step '
                    f'{step.number}; only the first step of an episode has none.'
                )
            if abs(value) > _MAXIMUM and value not in (math.inf, -math.inf):
                raise FloatingPointError(
                    f'{self._where(name, lane)} must be in the range of float32, up to '
                    f'{_MAXIMUM:.2g}, got {reprlib.repr(value)} at step '
                    f'{step.number}; scale it.'
                )
        assert column is not None  # Else a value was beyond float32.
        self._refuse_infinite(name, step, column)
        return column

    def _refuse_infinite(self, name: str, step: Step, column: np.ndarray) -> None:
        finite = np.isfinite(column).reshape(self._num_lanes, -1).all(axis=1)
        if finite.all():
            return
        lane = int(np.argmin(finite))
        is_nan = np.isnan(column[lane]).any()
        cast = '' if is_nan else f', or exceeds the range of {column.dtype.name}'
        raise FloatingPointError(
            f'{self._where(name, lane)} must be finite, got {column[lane]} at step '
            f'{step.number}; the environment has diverged{cast}.'
        )

    def _read(
        self, lane: int, step: Step, leaf: Any, column: np.ndarray, observation: Any
    ) -> np.ndarray:
        if not self._single and tree.is_nested(leaf):
            raise self._bad_structure(lane, step, observation)
        i = self._index(step, column)
        shape, given, _ = self._kinds[i]
        found = casting.read(leaf, given)
        if found is None:
            raise ValueError(
                f'{self._where(self._names[i], lane)} must be '
                f'{np.dtype(given).name}{list(shape)} as its spec says, got '
                f'{reprlib.repr(leaf)} at step {step.number}, which is not cast to it.'
            )
        return found

    def _bad_leaf(
        self, lane: int, step: Step, leaf: np.ndarray, column: np.ndarray
    ) -> ValueError:
        i = self._index(step, column)
        shape, given, _ = self._kinds[i]
        wanted, got = f'{np.dtype(given).name}{list(shape)}', casting.describe(leaf)
        if wanted == got:  # The order of bytes differs.
            wanted, got = (
                f'{np.dtype(dtype).str}{list(shape)}' for dtype in (given, leaf.dtype)
            )
        return ValueError(
            f'{self._where(self._names[i], lane)} must be {wanted} as its spec says, '
            f'got {got} at step {step.number}.'
        )

    def _bad_structure(self, lane: int, step: Step, observation: Any) -> ValueError:
        wanted, found = (
            {field_name('observation', path) for path, _ in tree.flatten_with_path(one)}
            for one in (self._inner, observation)
        )
        differences = [
            f'; {what} {", ".join(sorted(names))}'
            for what, names in (('without', wanted - found), ('beside', found - wanted))
            if names
        ]
        return ValueError(
            f'{self._where("observation", lane)} must have the structure of '
            f'{specs.describe(self._inner)}, got '
            f'{tree.map_structure(casting.describe, observation)} at step '
            f'{step.number}{"".join(differences)}.'
        )

    def _bad_step_type(self, step: Step, ended: Sequence[bool]) -> ValueError:
        wrong = [
            kind not in (0, 1, 2) or (kind == _FIRST) != first
            for kind, first in zip(step.step_types, ended)
        ]
        lane = wrong.index(True)
        allowed = 'FIRST from reset' if ended[lane] else 'MID or LAST from step'
        return ValueError(
            f'{self._where("step_type", lane)} must be {allowed}, got '
            f'{step.step_types[lane]!r} at step {step.number}; an episode begins by '
            'reset and ends by LAST.'
        )

    def _bad_discount(self, step: Step, discount: np.ndarray) -> ValueError:
        lane = int(np.argmax((discount < 0) | (discount > 1)))
        return ValueError(
            f'{self._where("discount", lane)} must be in [0, 1], got {discount[lane]} '
            f'at step {step.number}; it is 0 where the episode terminates, and the '
            'agent has a gamma of its own.'
        )

    def _where(self, name: str, lane: int) -> str:
        return f'{name} of lane {self._first_lane + lane}'

    @staticmethod
    def _index(step: Step, column: np.ndarray) -> int:
        return [leaf is column for leaf in step.leaves].index(True)


def field_name(root: str, path: tuple) -> str:
    """Returns how a leaf is called in messages, such as observation/joints/0."""
    return '/'.join([root, *map(str, path)])


def _is_finite(values: np.ndarray) -> bool:
    """Says so for certain; where not, single values must be looked at."""
    # The sum of squares costs half of `isfinite`, and is finite only if all are.
    flat = values.ravel()
    return math.isfinite(flat.dot(flat))
