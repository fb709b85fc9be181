"""Actors: one acts by a policy of its own, one asks a server what to do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tree

from repertory.components import (
    compiled,
    core,
    nests,
    policies,
    specs,
    types,
    variables,
)
from repertory.components.networks import memory

Answer = tuple[list[np.ndarray], dict[str, types.Nest], int]
Ask = Callable[[list[np.ndarray], np.ndarray], Callable[[], Answer]]


class AskingActor(core.Actor):
    """Asks what to do for all lanes at once, and records it.

    It asks as soon as it observes: before it records, where that is not done yet. So
    what `update` brings acts from the step after the next one on, and what goes wrong
    in the answer is raised by whichever method is called next.

    The rows handed to the adder carry the extras; 'version', int64 [N], the learner
    steps of the parameters that it acted with, -1 if unknown; and, where the policy has
    memory, 'state': the state before the row's observation.

    Attributes:
        version: learner steps of the parameters that the last actions came from.

    Args:
        ask: takes the leaves of the observation [N, ...] and whether each lane is at
            its FIRST step, bool [N]; returns at once what waits for the answer: the
            leaves of the action [N, ...], the extras [N, ...] by name, and the version.
        environment_spec: of one lane.
        num_lanes: N, at least 1.
        adder: takes the rows; None to record nothing.
    """

    def __init__(
        self,
        ask: Ask,
        environment_spec: specs.EnvironmentSpec,
        num_lanes: int,
        adder: core.Adder | None,
    ):
        self._ask = ask
        self._spec = environment_spec
        self._num_lanes = num_lanes
        self._adder = adder
        self._unflatten = nests.unflattener(environment_spec.actions)
        self._timestep: types.TimeStep | None = None
        self._wait_for_answer: Callable[[], Answer] | None = None
        self._answer: Answer | None = None
        self._extras: dict[str, types.Nest] = {}
        self._version = np.full(num_lanes, -1, np.int64)
        self._checked = self._recorded = False
        self.version = -1

    def observe_first(self, timestep: types.TimeStep) -> None:
        self._settle()  # To a step that is not taken any more.
        self._timestep = timestep
        self._recorded = False
        self._begin_to_ask(timestep)

    def select_action(self, observation: types.Nest) -> types.Nest:
        self._current_step()
        self._settle()
        if self._answer is None:
            raise RuntimeError(
                'observe must be called between two calls of select_action, got none; '
                'the step has been taken, or could not be.'
            )
        (leaves, self._extras, self.version), self._answer = self._answer, None
        if self.version != self._version[0]:
            self._version = np.full_like(self._version, self.version)
        self._extras['version'] = self._version
        action = self._unflatten(leaves)
        if not self._checked:
            self._check(action)
        return action

    def record(self, action: types.Nest) -> None:
        if self._adder is not None:
            step = self._current_step()
            self._adder.add(
                types.Row(
                    observation=step.observation,
                    action=action,
                    reward=step.reward,
                    discount=step.discount,
                    step_type=step.step_type,
                    extras=self._extras,
                )
            )
        self._recorded = True

    def observe(self, action: types.Nest, next_timestep: types.TimeStep) -> None:
        self._current_step()
        self._begin_to_ask(next_timestep)
        if not self._recorded:
            self.record(action)
        self._recorded = False
        self._timestep = next_timestep

    def update(self, wait: bool = False) -> None:
        """Does nothing: parameters are where the actions are chosen."""

    def _begin_to_ask(self, timestep: types.TimeStep) -> None:
        self._answer = None
        first = timestep.step_type == types.StepType.FIRST
        self._wait_for_answer = self._ask(tree.flatten(timestep.observation), first)

    def _settle(self) -> None:
        """Returns once what has been asked is answered."""
        if self._wait_for_answer is not None:
            wait, self._wait_for_answer = self._wait_for_answer, None
            self._answer = wait()

    def _current_step(self) -> types.TimeStep:
        if self._timestep is None:
            raise RuntimeError(
                'observe_first must be called before any other method, got no step yet.'
            )
        return self._timestep

    def _check(self, action: types.Nest) -> None:
        def check(path, spec, leaf):
            wanted = (self._num_lanes, *spec.shape)
            if leaf.shape != wanted or leaf.dtype != np.dtype(spec.dtype):
                raise ValueError(
                    f"the policy's action {'.'.join(map(str, path))} must be "
                    f'{np.dtype(spec.dtype).name}{list(wanted)} as the environment '
                    f'says, got {leaf.dtype.name}{list(leaf.shape)}; cast or reshape '
                    'it in the policy.'
                )

        tree.map_structure_with_path(check, self._spec.actions, action)
        self._checked = True


class PolicyActor(AskingActor):
    """Runs a policy over N lanes: one compiled call a vector step.

    The call begins as a step is observed, and runs while the step before it is
    recorded: one after the other they make 0.7 to 0.99 of the steps. Nobody but the
    client may assign the policy's variables between `observe` and `select_action`.

    Where a lane's step is FIRST, the policy's initial state is put back before the
    policy sees the observation. For the rows see `AskingActor`.

    Args:
        policy: what to do.
        environment_spec: of one lane.
        num_lanes: N, at least 1.
        adder: takes the rows; None to record nothing.
        variable_client: brings newer parameters; None to keep those there are.
    """

    def __init__(
        self,
        policy: policies.Policy,
        environment_spec: specs.EnvironmentSpec,
        num_lanes: int,
        adder: core.Adder | None = None,
        variable_client: variables.VariableClient | None = None,
    ):
        self._client = variable_client
        self._local = _LocalPolicy(policy, environment_spec, num_lanes, variable_client)
        super().__init__(self._local, environment_spec, num_lanes, adder)

    def update(self, wait: bool = False) -> None:
        if self._client is not None:
            self._settle()  # The call reads what would change.
            self._client.update(self._num_lanes, wait)

    def close(self) -> None:
        self._wait_for_answer = None
        self._local.close()


class _LocalPolicy:
    """What a `PolicyActor` asks: a policy in this process."""

    def __init__(
        self,
        policy: policies.Policy,
        environment_spec: specs.EnvironmentSpec,
        num_lanes: int,
        client: variables.VariableClient | None,
    ):
        self._policy = policy
        self._spec = environment_spec
        self._num_lanes = num_lanes
        self._client = client
        self._state = tree.map_structure(
            tf.convert_to_tensor, policy.initial_state(num_lanes)
        )
        self._has_state = bool(tree.flatten(self._state))
        state = tree.map_structure(tf.TensorSpec.from_tensor, self._state)
        observation = tree.map_structure(
            lambda leaf: tf.TensorSpec((num_lanes, *leaf.shape), leaf.dtype),
            environment_spec.observations,
        )
        first = [tf.TensorSpec((num_lanes,), tf.bool)] if self._has_state else []
        self._step = compiled.Compiled(
            self._act,
            [observation, first, state],
            small=compiled.is_small(policy.variables),
        )

    def __call__(
        self, observation: list[np.ndarray], first: np.ndarray
    ) -> Callable[[], Answer]:
        arrays = [*observation, first] if self._has_state else observation
        version = -1 if self._client is None else self._client.version
        action, extras, self._state = self._step.begin(arrays, self._state)

        def wait() -> Answer:
            leaves = [leaf.numpy() for leaf in action]
            values = [leaf.numpy() for leaf in extras]
            return leaves, self._unflatten_extras(values), version

        return wait

    def close(self) -> None:
        self._step.close()

    def _act(self, observation, first, state):
        if self._has_state:
            # Read in the graph, since a trainable initial state changes.
            initial = self._policy.initial_state(self._num_lanes)
            state = memory.reset_lanes(first[0], initial, state)
        output = self._policy(observation, state)
        extras = dict(output.extras)
        if self._has_state:
            extras['state'] = state
        # Runs as it is traced: arrays are made of leaves, and nested at once.
        self._unflatten_extras = nests.unflattener(extras)
        action = nests.flatten_action(self._spec.actions, output.action)
        return action, tree.flatten(extras), output.state
