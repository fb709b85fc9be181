"""Actors: one acts by a policy of its own, one asks a server what to do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tree

from repertory.components import compiled, core, policies, specs, types, variables
from repertory.components.networks import memory

Answer = tuple[list[np.ndarray], dict[str, types.Nest], int]
Ask = Callable[[list[np.ndarray], np.ndarray], Callable[[], Answer]]


class _RecordingActor(core.Actor):
    """What all actors do but for choosing the actions."""

    def __init__(
        self,
        environment_spec: specs.EnvironmentSpec,
        num_lanes: int,
        adder: core.Adder | None,
    ):
        self._spec = environment_spec
        self._num_lanes = num_lanes
        self._adder = adder
        self._timestep: types.TimeStep | None = None
        self._extras: dict[str, types.Nest] = {}
        self._version = np.full(num_lanes, -1, np.int64)
        self._checked = self._recorded = False

    def observe_first(self, timestep: types.TimeStep) -> None:
        self._timestep = timestep
        self._recorded = False

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
        if not self._recorded:
            self.record(action)
        self._recorded = False
        self._timestep = next_timestep

    def _note_version(self, version: int) -> None:
        if version != self._version[0]:
            self._version = np.full_like(self._version, version)
        self._extras['version'] = self._version

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


class PolicyActor(_RecordingActor):
    """Runs a policy over N lanes: one compiled call a vector step.

    Where a lane's step is FIRST, the policy's initial state is put back before the
    policy sees the observation. The rows handed to the adder carry the policy's
    extras; 'version', int64 [N], the learner steps of the parameters that it acted
    with, -1 if unknown; and, for a policy with memory, 'state': the state before the
    row's observation.

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
        super().__init__(environment_spec, num_lanes, adder)
        self._policy = policy
        self._client = variable_client
        self._initial_state = tree.map_structure(
            tf.convert_to_tensor, policy.initial_state(num_lanes)
        )
        self._has_state = bool(tree.flatten(self._initial_state))
        self._state = self._initial_state
        self._step = compiled.Compiled(
            self._step_with_state if self._has_state else self._step_without_state,
            self._signature(),
            small=compiled.is_small(policy.variables),
        )

    def _signature(self) -> list:
        observation = tree.map_structure(
            lambda leaf: tf.TensorSpec((self._num_lanes, *leaf.shape), leaf.dtype),
            self._spec.observations,
        )
        if not self._has_state:
            return [observation]
        state = tree.map_structure(
            lambda leaf: tf.TensorSpec(leaf.shape, leaf.dtype), self._initial_state
        )
        return [observation, tf.TensorSpec((self._num_lanes,), tf.bool), state]

    def _step_without_state(self, observation):
        output = self._policy(observation, ())
        return self._flatten(output.action, output.extras), ()

    def _step_with_state(self, observation, first, state):
        # Read in the graph, since a trainable initial state changes.
        initial = self._policy.initial_state(self._num_lanes)
        state = memory.reset_lanes(first, initial, state)
        output = self._policy(observation, state)
        extras = {**output.extras, 'state': state}
        return self._flatten(output.action, extras), output.state

    def _flatten(self, action: types.Nest, extras: types.Nest) -> list[tf.Tensor]:
        """Runs as the step is traced: arrays are made of leaves, and nested at once."""
        self._unflatten = compiled.unflattener((action, extras))
        return tree.flatten((action, extras))

    def select_action(self, observation: types.Nest) -> types.Nest:
        step = self._current_step()
        tensors = [tf.constant(leaf) for leaf in tree.flatten(observation)]
        if self._has_state:
            first = tf.constant(step.step_type == types.StepType.FIRST)
            output, self._state = self._step(tensors, first, self._state)
        else:
            output, _ = self._step(tensors)
        action, extras = self._unflatten([tensor.numpy() for tensor in output])
        if self._adder is not None:
            self._extras = extras
            self._note_version(-1 if self._client is None else self._client.version)
        if not self._checked:
            self._check(action)
        return action

    def update(self, wait: bool = False) -> None:
        if self._client is not None:
            self._client.update(self._num_lanes, wait)


class RemoteActor(_RecordingActor):
    """Asks what to do for all lanes at once; has neither policy nor parameters.

    It asks as soon as it observes: before it records, where that is not done yet. The
    rows handed to the adder are those of a `PolicyActor`.

    Attributes:
        version: learner steps of the parameters that the last actions came from.

    Args:
        ask: takes the leaves of the observation [N, ...] and whether each lane is at
            its FIRST step, bool [N]; returns at once what waits for the answer: the
            leaves of the action [N, ...], the extras [N, ...] by name, and the version.
        environment_spec: of one lane.
        num_lanes: N, at least 1.
        adder: takes the rows.
    """

    def __init__(
        self,
        ask: Ask,
        environment_spec: specs.EnvironmentSpec,
        num_lanes: int,
        adder: core.Adder,
    ):
        super().__init__(environment_spec, num_lanes, adder)
        self._ask = ask
        self._unflatten = compiled.unflattener(environment_spec.actions)
        self._wait_for_answer: Callable[[], Answer] | None = None
        self.version = -1

    def observe_first(self, timestep: types.TimeStep) -> None:
        if self._wait_for_answer is not None:
            self._wait_for_answer()  # To a step that is not taken any more.
        super().observe_first(timestep)
        self._begin_to_ask(timestep)

    def observe(self, action: types.Nest, next_timestep: types.TimeStep) -> None:
        self._current_step()
        self._begin_to_ask(next_timestep)
        super().observe(action, next_timestep)

    def _begin_to_ask(self, timestep: types.TimeStep) -> None:
        first = timestep.step_type == types.StepType.FIRST
        self._wait_for_answer = self._ask(tree.flatten(timestep.observation), first)

    def select_action(self, observation: types.Nest) -> types.Nest:
        self._current_step()
        if self._wait_for_answer is None:
            raise RuntimeError(
                'observe must be called between two calls of select_action, got none; '
                'the server has taken the step already.'
            )
        leaves, self._extras, self.version = self._wait_for_answer()
        self._wait_for_answer = None
        self._note_version(self.version)
        action = self._unflatten(leaves)
        if not self._checked:
            self._check(action)
        return action

    def update(self, wait: bool = False) -> None:
        """Does nothing: parameters are where the actions are chosen."""
