"""Acts for the lanes of many roles in one compiled call."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tree

from repertory.components import compiled, nests, policies, specs, types
from repertory.components.networks import memory

Leaves = Sequence[np.ndarray]  # Of a nest [N, ...], in the order of `tree`.

_STEPS = 16  # Of random numbers that one call draws: it costs more than they do.


class RoleOutput(NamedTuple):
    """What the N lanes of one role do; arrays [N, ...] of the policy's dtypes.

    Attributes:
        action: leaves.
        extras: nests by the policy's names, and `state`, the one acted from, where it
            has one.
        state: leaves, after the step.
    """

    action: list[np.ndarray]
    extras: dict[str, types.Nest]
    state: list[np.ndarray]


class JointPolicy:
    """What the policies of several roles do, each in its own N lanes.

    Random numbers and exploration are those of each role, as if it acted alone.

    Attributes:
        num_roles: how many.
        no_state: leaves of the shapes of one role's state, all zero.

    Args:
        policies_: of each role, all of the same networks.
        environment_spec: of one lane.
        num_lanes: N, of each role.

    Raises:
        ValueError: if the roles do not draw numbers of one structure.
    """

    def __init__(
        self,
        policies_: Sequence[policies.Policy],
        environment_spec: specs.EnvironmentSpec,
        num_lanes: int,
    ):
        self.num_roles = len(policies_)
        self._policy = policies_[0]
        self._spec = environment_spec
        self._draw = [
            compiled.Compiled(
                functools.partial(_draw_steps, policy, num_lanes), [], small=True
            )
            for policy in policies_
        ]
        # Also the first of each, since they are drawn in order.
        drawn = [draw() for draw in self._draw]
        for role, other in enumerate(drawn):
            _check_draws(role, drawn[0], other)
        self._drawn = [_split(each) for each in drawn]
        state = self._policy.initial_state(num_lanes)
        self._state = tree.map_structure(tf.convert_to_tensor, state)
        self.no_state = [
            np.zeros(leaf.shape, leaf.dtype.as_numpy_dtype)
            for leaf in tree.flatten(self._state)
        ]
        self._num_lanes = num_lanes

        def lanes(leaf, dimensions: int) -> tf.TensorSpec:
            return tf.TensorSpec((None, *leaf.shape[dimensions:]), leaf.dtype)

        self._step = compiled.Compiled(
            self._step_lanes,
            [
                [
                    lanes(leaf, 0)
                    for leaf in tree.flatten(environment_spec.observations)
                ],
                lanes(np.zeros(num_lanes, bool), 1),
                [lanes(leaf, 1) for leaf in tree.flatten(self._state)],
                tree.map_structure(lambda leaf: lanes(leaf, 2), drawn[0]),
            ],
            small=compiled.is_small(self._policy.variables),
        )

    def __call__(
        self,
        roles: Sequence[int],
        observations: Sequence[Leaves],
        firsts: Sequence[np.ndarray],
        states: Sequence[Leaves],
    ) -> list[RoleOutput]:
        """Returns what each of K roles does, in the order of `roles`.

        Args:
            roles: [K], their numbers, each at most once.
            observations: [K], of each role's observation.
            firsts: [K], bool [N]: where an episode begins, and the state with it.
            states: [K], of each role's state.

        Raises:
            ValueError: if the leaves of the roles' observations differ.
            tf.errors.InvalidArgumentError: if they are not those of the spec.
        """

        def join(of_roles: Sequence[Leaves]) -> list[np.ndarray]:
            return [np.concatenate(leaves) for leaves in zip(*of_roles, strict=True)]

        outputs = self._step(
            join(observations),
            np.concatenate(firsts),
            join(states),
            join([self._next_draws(role) for role in roles]),
        )
        arrays = [[tensor.numpy() for tensor in leaves] for leaves in outputs]
        return [
            self._cut(arrays, slice(i * self._num_lanes, (i + 1) * self._num_lanes))
            for i in range(len(roles))
        ]

    def _cut(self, arrays: Sequence[Leaves], own: slice) -> RoleOutput:
        action, extras, state = ([leaf[own] for leaf in leaves] for leaves in arrays)
        return RoleOutput(action, self._unflatten_extras(extras), state)

    def _next_draws(self, role: int) -> Leaves:
        for draws in self._drawn[role]:
            return draws
        self._drawn[role] = _split(self._draw[role]())
        return next(self._drawn[role])

    def _step_lanes(self, observation, first, state, draws):
        observation = tree.unflatten_as(self._spec.observations, observation)
        # Read in the graph, since a trainable initial state changes.
        before = memory.reset_lanes(
            first,
            self._policy.initial_state(1),
            tree.unflatten_as(self._state, state),
        )
        output = self._policy.act(observation, before, draws)
        extras = output.extras
        if state:
            extras = {**extras, 'state': before}
        self._unflatten_extras = nests.unflattener(extras)
        action = nests.flatten_action(self._spec.actions, output.action)
        return action, tree.flatten(extras), tree.flatten(output.state)


def _draw_steps(policy: policies.Policy, num_lanes: int) -> types.Nest:
    """Returns the draws of single steps, stacked [_STEPS, N, ...]."""
    steps = [policy.draw(num_lanes) for _ in range(_STEPS)]
    return tree.map_structure(lambda *each: tf.stack(each), *steps)


def _split(drawn: types.Nest) -> Iterator[Leaves]:
    arrays = [leaf.numpy() for leaf in tree.flatten(drawn)]
    return iter([[leaf[i] for leaf in arrays] for i in range(_STEPS)])


def _check_draws(role: int, first: types.Nest, other: types.Nest) -> None:
    try:
        tree.assert_same_structure(first, other)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f'draw() of role {role} must return the structure of role 0, got '
            f'{tree.map_structure(lambda leaf: leaf.dtype.name, other)}, not '
            f'{tree.map_structure(lambda leaf: leaf.dtype.name, first)}; give all '
            'roles one kind of exploration, or let each act by its own policy.'
        ) from error
