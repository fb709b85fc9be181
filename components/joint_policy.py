"""Acts for the lanes of many roles in one compiled call."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf
import tree

from repertory.components import compiled, policies, specs, types
from repertory.components.networks import memory

_STEPS = 16  # Of random numbers that one call draws: it costs more than they do.


class JointPolicy:
    """What the policies of several roles do, each in its own N lanes.

    Random numbers and exploration are those of each role, as if it acted alone.

    Attributes:
        num_roles: how many.
        no_state: of the shapes of one role's state [N, ...], arrays; all zero.

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
            compiled.Compiled(functools.partial(_draw_steps, policy, num_lanes), [])
            for policy in policies_
        ]
        # Also the first of each, since they are drawn in order.
        drawn = [draw() for draw in self._draw]
        for role, other in enumerate(drawn):
            _check_draws(role, drawn[0], other)
        self._drawn = [_split(each) for each in drawn]
        state = tree.map_structure(
            tf.convert_to_tensor, self._policy.initial_state(num_lanes)
        )
        self.no_state = tree.map_structure(
            lambda leaf: np.zeros(leaf.shape, leaf.dtype.as_numpy_dtype), state
        )

        def lanes(leaf, dimensions: int) -> tf.TensorSpec:
            return tf.TensorSpec((None, *leaf.shape[dimensions:]), leaf.dtype)

        self._step = compiled.Compiled(
            self._step_lanes,
            [
                tree.map_structure(
                    lambda x: lanes(x, 0), environment_spec.observations
                ),
                tf.TensorSpec((None,), tf.bool),
                tree.map_structure(lambda x: lanes(x, 1), state),
                tree.map_structure(lambda x: lanes(x, 2), drawn[0]),
            ],
        )

    def __call__(
        self,
        roles: Sequence[int],
        observations: Sequence[Sequence[np.ndarray]],
        firsts: Sequence[np.ndarray],
        states: Sequence[types.Nest],
    ) -> tuple[types.Nest, types.Nest, dict[str, types.Nest], types.Nest]:
        """Returns what the lanes of K roles do, in the order of `roles`.

        Args:
            roles: [K], their numbers, each at most once.
            observations: [K], the leaves [N, ...] of each role's observation.
            firsts: [K], bool [N]: where an episode begins, and the state with it.
            states: [K], nests [N, ...].

        Returns:
            Arrays [K * N, ...]: the states acted from, the actions, the extras, and
            the states after them.

        Raises:
            ValueError: if the leaves of an observation are not those of the spec.
        """

        def join(*leaves: np.ndarray) -> np.ndarray:
            return np.concatenate(leaves)

        columns = zip(*observations, strict=True)
        outputs = self._step(
            tree.unflatten_as(
                self._spec.observations, [join(*column) for column in columns]
            ),
            join(*firsts),
            tree.map_structure(join, *states),
            tree.map_structure(join, *map(self._next_draws, roles)),
        )
        return tree.map_structure(lambda tensor: tensor.numpy(), outputs)

    def _next_draws(self, role: int) -> types.Nest:
        for draws in self._drawn[role]:
            return draws
        self._drawn[role] = _split(self._draw[role]())
        return next(self._drawn[role])

    def _step_lanes(self, observation, first, state, draws):
        # Read in the graph, since a trainable initial state changes.
        before = memory.reset_lanes(first, self._policy.initial_state(1), state)
        output = self._policy.act(observation, before, draws)
        return before, output.action, output.extras, output.state


def _draw_steps(policy: policies.Policy, num_lanes: int) -> types.Nest:
    """Returns the draws of single steps, stacked [_STEPS, N, ...]."""
    steps = [policy.draw(num_lanes) for _ in range(_STEPS)]
    return tree.map_structure(lambda *each: tf.stack(each), *steps)


def _split(drawn: types.Nest) -> Iterator[types.Nest]:
    arrays = tree.map_structure(lambda leaf: leaf.numpy(), drawn)
    return iter(
        [tree.map_structure(lambda x, i=i: x[i], arrays) for i in range(_STEPS)]
    )


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
