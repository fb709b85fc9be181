"""A policy that was exported, and its use without the agent.

    policy = exported.load_policy('runs/...')
    state = policy.initial_state(1)
    action, state = policy(observation[None], state)

Loading needs neither the agent's code nor its replay, learner or checkpoints.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import dm_env
import numpy as np
import tensorflow as tf
import tree

from repertory.components import specs, types
from repertory.launch import spec_records

SPECS = 'repertory.json'


class ExportedPolicy:
    """A policy read from a folder.

    Attributes:
        observation_spec: of one lane, without the batch axis.
        action_spec: of one lane.
        metadata: what was kept with it: the agent, the environment, ...
    """

    def __init__(
        self,
        module: Any,
        observation_spec: types.Nest,
        action_spec: types.Nest,
        metadata: Mapping[str, Any],
    ):
        self.observation_spec = observation_spec
        self.action_spec = action_spec
        self.metadata = metadata
        self._module = module
        self._leaves = tree.flatten_with_path(observation_spec)

    def initial_state(self, num_lanes: int) -> tuple[tf.Tensor, ...]:
        """Returns the state [N, ...] before an episode; () without memory."""
        return tuple(
            tf.repeat(leaf[None], num_lanes, axis=0)
            for leaf in self._module.initial_state
        )

    def __call__(
        self, observation: types.Nest, state: tuple[tf.Tensor, ...] = ()
    ) -> tuple[types.Nest, tuple[tf.Tensor, ...]]:
        """Returns NumPy actions [N, ...] for observations [N, ...], and the state.

        Args:
            observation: as `observation_spec` with a batch axis before it.
            state: what `initial_state` or the call before returned.

        Raises:
            ValueError: if a shape, dtype or the structure does not fit.
        """
        actions, state = self._module.act(self._flatten(observation), list(state))
        action = tree.unflatten_as(self.action_spec, [leaf.numpy() for leaf in actions])
        return action, tuple(state)

    def _flatten(self, observation: types.Nest) -> list[tf.Tensor]:
        try:
            tree.assert_same_structure(self.observation_spec, observation, False)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f'observation must be {specs.describe(self.observation_spec)} with a '
                f'batch axis before each shape; {error}'
            ) from error
        tensors = []
        for (path, spec), leaf in zip(
            self._leaves, tree.flatten(observation), strict=True
        ):
            array = np.asarray(leaf)
            if array.shape[1:] != spec.shape or array.ndim != len(spec.shape) + 1:
                name = '.'.join(map(str, ('observation', *path)))
                raise ValueError(
                    f'{name} must have shape {["N", *spec.shape]}, got '
                    f'{list(array.shape)}; add the batch axis with [None].'
                )
            if not np.can_cast(array.dtype, spec.dtype, 'same_kind'):
                name = '.'.join(map(str, ('observation', *path)))
                raise ValueError(
                    f'{name} must be {spec.dtype}, got {array.dtype}; cast it.'
                )
            tensors.append(tf.constant(array, spec.dtype))
        return tensors


def load_policy(path: str | os.PathLike) -> ExportedPolicy:
    """Reads what `exporting.export_policy` wrote.

    Args:
        path: the folder, or that of the run.

    Raises:
        FileNotFoundError: if there is no exported policy at `path`.
    """
    path = pathlib.Path(path)
    if (path / 'policy').is_dir():
        path = path / 'policy'
    if not (path / SPECS).is_file():
        raise FileNotFoundError(
            f'path must be an exported policy, got {path}, which has no {SPECS}; '
            'a run writes one to RUN_DIR/policy when it ends.'
        )
    record = json.loads((path / SPECS).read_text())
    return ExportedPolicy(
        tf.saved_model.load(str(path)),
        spec_records.decode(record['observation']),
        spec_records.decode(record['action']),
        record['metadata'],
    )


def evaluate(
    policy: ExportedPolicy,
    environment_factory: Callable[[int], dm_env.Environment],
    episodes: int,
    seed: int,
    on_step: Callable[[dm_env.Environment, dm_env.TimeStep], None] | None = None,
) -> np.ndarray:
    """Returns the return of each of `episodes` episodes in one environment.

    Args:
        policy: what acts.
        environment_factory: is called once, with `seed`; its observations have the
            dtypes that the policy was made for.
        episodes: at least 1.
        seed: of the environment.
        on_step: is called at each step, the first of an episode included.

    Returns:
        float64 [episodes], plain sums of rewards.
    """
    if episodes < 1:
        raise ValueError(f'episodes must be >= 1, got {episodes}.')
    environment = environment_factory(seed)
    returns = np.zeros(episodes)
    try:
        for episode in range(episodes):
            timestep, state = environment.reset(), policy.initial_state(1)
            if on_step is not None:
                on_step(environment, timestep)
            while not timestep.last():
                observation = tree.map_structure(
                    lambda leaf: np.asarray(leaf)[None], timestep.observation
                )
                action, state = policy(observation, state)
                timestep = environment.step(
                    tree.map_structure(lambda leaf: leaf[0], action)
                )
                returns[episode] += timestep.reward
                if on_step is not None:
                    on_step(environment, timestep)
    finally:
        environment.close()
    return returns
