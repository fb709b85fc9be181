"""A trained policy as a TensorFlow SavedModel, and its use without the agent.

    policy = exporting.load_policy('runs/.../policy')
    state = policy.initial_state(1)
    action, state = policy(observation[None], state)

Loading needs neither the agent's code nor its replay, learner or checkpoints.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import dm_env
import numpy as np
import tensorflow as tf
import tree
from dm_env import specs as dm_specs

from repertory.components import specs, types

if TYPE_CHECKING:
    from repertory.components import policies

_SPECS = 'repertory.json'


def export_policy(
    path: str | os.PathLike,
    policy: policies.Policy,
    environment_spec: specs.EnvironmentSpec,
    variables: Sequence[np.ndarray] | None = None,
) -> None:
    """Writes `policy` with its parameters as they are; replaces what was at `path`.

    The SavedModel's `act(observation, state)` takes and returns lists of leaves, in
    dm-tree's order, each [N, ...] for any N.

    Args:
        path: the folder to write.
        policy: what an evaluator of one lane does; its graph must leave N open, and
            random generators must be its attributes.
        environment_spec: what it was made for.
        variables: if given, are assigned to `policy.variables` first.

    Raises:
        ValueError: if `variables` are not as many as the policy's, or if the policy
            acts in a fixed number of lanes only.
    """
    if variables is not None:
        if len(variables) != len(policy.variables):
            raise ValueError(
                f'variables must be {len(policy.variables)} arrays as the policy '
                f'has, got {len(variables)}.'
            )
        for variable, value in zip(policy.variables, variables, strict=True):
            variable.assign(value)
    module = _make_module(policy, environment_spec)
    path = pathlib.Path(path).absolute()
    new, old = path.with_name(f'{path.name}.new'), path.with_name(f'{path.name}.old')
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    tf.saved_model.save(module, str(new))
    record = {
        'observation': _encode(environment_spec.observations),
        'action': _encode(environment_spec.actions),
    }
    (new / _SPECS).write_text(json.dumps(record, indent=2) + '\n')
    if path.exists():
        path.rename(old)
    new.rename(path)
    shutil.rmtree(old, ignore_errors=True)


class ExportedPolicy:
    """A policy read from a folder.

    Attributes:
        observation_spec: of one lane, without the batch axis.
        action_spec: of one lane.
    """

    def __init__(self, module: Any, observation_spec: types.Nest, action_spec: Any):
        self.observation_spec = observation_spec
        self.action_spec = action_spec
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
    """Reads what `export_policy` wrote.

    Raises:
        FileNotFoundError: if there is no exported policy at `path`.
    """
    path = pathlib.Path(path)
    if not (path / _SPECS).is_file():
        raise FileNotFoundError(
            f'path must be an exported policy, got {path}, which has no {_SPECS}; '
            'a run writes one to RUN_DIR/policy when it ends.'
        )
    record = json.loads((path / _SPECS).read_text())
    return ExportedPolicy(
        tf.saved_model.load(str(path)),
        _decode(record['observation']),
        _decode(record['action']),
    )


def evaluate(
    policy: ExportedPolicy,
    environment_factory: Callable[[int], dm_env.Environment],
    episodes: int,
    seed: int,
) -> np.ndarray:
    """Returns the return of each of `episodes` episodes in one environment.

    Args:
        policy: what acts.
        environment_factory: is called once, with `seed`; its observations have the
            dtypes that the policy was made for.
        episodes: at least 1.
        seed: of the environment.

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
            while not timestep.last():
                observation = tree.map_structure(
                    lambda leaf: np.asarray(leaf)[None], timestep.observation
                )
                action, state = policy(observation, state)
                timestep = environment.step(
                    tree.map_structure(lambda leaf: leaf[0], action)
                )
                returns[episode] += timestep.reward
    finally:
        environment.close()
    return returns


def _make_module(
    policy: policies.Policy, environment_spec: specs.EnvironmentSpec
) -> tf.Module:
    initial_state = tree.map_structure(
        lambda leaf: tf.convert_to_tensor(leaf)[0], policy.initial_state(1)
    )

    def signature(leaves: types.Nest) -> list[tf.TensorSpec]:
        return [
            tf.TensorSpec((None, *leaf.shape), leaf.dtype)
            for leaf in tree.flatten(leaves)
        ]

    def act(observation, state):
        output = policy(
            tree.unflatten_as(environment_spec.observations, observation),
            tree.unflatten_as(initial_state, state) if state else initial_state,
        )
        for leaf in tree.flatten(output.action):
            if leaf.shape[0] is not None:
                raise ValueError(
                    f'policy must leave the number of lanes open, got {leaf.shape[0]}; '
                    'make it for a role of one lane, and read N by tf.shape.'
                )
        return tree.flatten(output.action), tree.flatten(output.state)

    module = tf.Module()
    module.act = tf.function(
        act,
        input_signature=[
            signature(environment_spec.observations),
            signature(initial_state),
        ],
        autograph=False,  # As in the actor; converting the networks takes seconds.
    )
    # All that the graph reads must be reachable to be saved with it.
    module.parameters = list(module.act.get_concrete_function().graph.variables)
    module.generators = [
        value
        for value in vars(policy).values()
        if isinstance(value, tf.random.Generator)
    ]
    module.initial_state = [
        tf.Variable(leaf, trainable=False) for leaf in tree.flatten(initial_state)
    ]
    return module


def _encode(nest: types.Nest) -> Any:
    if isinstance(nest, dict):
        return {'dict': {key: _encode(leaf) for key, leaf in nest.items()}}
    if isinstance(nest, (tuple, list)):
        kind = 'list' if isinstance(nest, list) else 'tuple'
        return {kind: [_encode(leaf) for leaf in nest]}
    record = {'shape': list(nest.shape), 'dtype': np.dtype(nest.dtype).name}
    if isinstance(nest, dm_specs.BoundedArray):
        record |= {'minimum': nest.minimum.tolist(), 'maximum': nest.maximum.tolist()}
    return record | {'name': nest.name}


def _decode(record: Any) -> types.Nest:
    if 'dict' in record:
        return {key: _decode(leaf) for key, leaf in record['dict'].items()}
    if 'list' in record:
        return [_decode(leaf) for leaf in record['list']]
    if 'tuple' in record:
        return tuple(_decode(leaf) for leaf in record['tuple'])
    make = dm_specs.BoundedArray if 'minimum' in record else dm_specs.Array
    return make(**{**record, 'dtype': np.dtype(record['dtype'])})
