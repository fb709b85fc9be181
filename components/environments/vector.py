"""Many environments in lockstep, in this thread."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import dm_env
import numpy as np
import tree
from dm_env import specs as dm_specs

from repertory.components import core, nests, specs, types
from repertory.components.environments import casting, columns
from repertory.components.environments.wrappers import base, single_precision

_LAST = int(dm_env.StepType.LAST)
_logger = logging.getLogger(__name__)


class SerialVectorEnvironment(core.VectorEnvironment):
    """Steps environments one after another.

    What they return is put in single precision where it is not, and checked against
    their specs, and for NaN and infinity, at every step. It is copied before the next
    lane steps, and actions are copies: an environment may reuse its arrays, share them
    with other lanes, and write to its action.

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
        self._columns = columns.Columns(
            self.spec, inner, self.num_lanes, self._first_lane
        )
        self._unflatten_action = nests.unflattener(self.spec.actions)
        self._single_action = isinstance(self.spec.actions, dm_specs.Array)
        self._action_shapes = [
            (self.num_lanes, *leaf.shape) for leaf in tree.flatten(self.spec.actions)
        ]
        self._action_dtypes = [leaf.dtype for leaf in tree.flatten(self.spec.actions)]
        self._inner_dtypes = [leaf.dtype for leaf in tree.flatten(inner.actions)]
        self._ended = [True] * self.num_lanes
        self._num_steps = 0
        self._closed = False

    def reset(self) -> types.TimeStep:
        self._refuse_if_begun()
        self._ended = [True] * self.num_lanes
        return self._run([None] * self.num_lanes)

    def step(self, action: types.Nest) -> types.TimeStep:
        self._refuse_if_begun()
        rows = self._unstack(action)
        self._num_steps += 1
        return self._run(rows)

    def _run(self, rows: Sequence[types.Nest]) -> types.TimeStep:
        step = self._columns.begin(self._num_steps)
        for lane, row in enumerate(rows):
            self._columns.put(step, lane, self._advance(lane, row))
        return self._finish(step)

    def _advance(self, lane: int, row: types.Nest) -> dm_env.TimeStep:
        """Steps one lane, or resets it."""
        environment = self._environments[lane]
        try:
            if self._ended[lane]:
                return environment.reset()
            return environment.step(row)
        except Exception:
            _logger.error(
                'lane %d raised at step %d, in %s of %s.',
                self._first_lane + lane,
                self._num_steps,
                'reset' if self._ended[lane] else 'step',
                base.names(environment)[-1],
            )
            raise

    def _finish(self, step: columns.Step) -> types.TimeStep:
        timestep = self._columns.finish(step, self._ended)
        self._ended = (timestep.step_type == _LAST).tolist()
        return timestep

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        failures = []
        for lane, one in enumerate(self._environments):
            try:
                one.close()
            except Exception as error:  # The others are to be closed too.
                _logger.error('lane %d raised in close.', self._first_lane + lane)
                failures.append(error)
        if failures:
            raise failures[0]

    def _unstack(self, action: types.Nest) -> Sequence[types.Nest]:
        # Copies: an environment may write to its action, which replay has yet to store.
        if self._single_action:
            action = np.asarray(action)
            if (
                action.shape != self._action_shapes[0]
                or action.dtype != self._action_dtypes[0]
            ):
                raise self._bad_action([action])
            return action.astype(self._inner_dtypes[0])
        leaves = [np.asarray(leaf) for leaf in tree.flatten(action)]
        shapes = [leaf.shape for leaf in leaves]
        dtypes = [leaf.dtype for leaf in leaves]
        if shapes != self._action_shapes or dtypes != self._action_dtypes:
            raise self._bad_action(leaves)
        leaves = [leaf.astype(dtype) for leaf, dtype in zip(leaves, self._inner_dtypes)]
        return [
            self._unflatten_action([leaf[lane] for leaf in leaves])
            for lane in range(self.num_lanes)
        ]

    def _bad_action(self, leaves: Sequence[np.ndarray]) -> ValueError:
        got = ', '.join(map(casting.describe, leaves))
        return ValueError(
            f'action must be {specs.describe(self.spec.actions)} for each of '
            f'{self.num_lanes} lanes, got {got}, lanes first.'
        )

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
