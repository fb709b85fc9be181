"""A trained policy as a TensorFlow SavedModel; `exported.load_policy` reads it."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from importlib import metadata as importlib_metadata
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
import tree

from repertory.components import specs, types
from repertory.components.environments.wrappers import base
from repertory.launch import exported, run_folder, spec_records

if TYPE_CHECKING:
    from repertory.components import policies
    from repertory.launch import experiment as experiment_lib


def export_policy(
    path: str | os.PathLike,
    policy: policies.Policy,
    environment_spec: specs.EnvironmentSpec,
    variables: Sequence[np.ndarray] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Writes `policy` with its parameters as they are; replaces what was at `path`.

    The SavedModel's `act(observation, state)` takes and returns lists of leaves, in
    dm-tree's order, each [N, ...] for any N. Its signature `serving_default` takes and
    returns the same as `observation_0`, ..., `state_0`, ..., `action_0`, ... by name.

    Args:
        path: the folder to write.
        policy: what an evaluator of one lane does; its graph must leave N open, and
            random generators must be its attributes.
        environment_spec: what it was made for.
        variables: if given, are assigned to `policy.variables` first.
        metadata: is kept beside the specs; what JSON can hold.

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
    tf.saved_model.save(module, str(new), signatures=_make_signature(module))
    record = {
        'observation': spec_records.encode(environment_spec.observations),
        'action': spec_records.encode(environment_spec.actions),
        'observation_leaves': spec_records.leaf_names(environment_spec.observations),
        'action_leaves': spec_records.leaf_names(environment_spec.actions),
        'metadata': dict(metadata or {}),
    }
    (new / exported.SPECS).write_text(json.dumps(record, indent=2) + '\n')
    if path.exists():
        path.rename(old)
    new.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def describe(experiment: experiment_lib.ExperimentConfig) -> dict[str, Any]:
    """Returns what is kept with a policy: what it was trained by, and what it sees.

    `preprocessing` names the wrappers whose observations it takes, the outermost
    first; `environment` has their options.
    """
    environment = experiment.make_environment(0)
    try:
        preprocessing = base.names(environment)
    finally:
        environment.close()
    return {
        'agent': run_folder.agent_name(experiment.agent),
        'environment': experiment.environment_name,
        'preprocessing': preprocessing,
        'repertory': importlib_metadata.version('repertory'),
    }


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


def _make_signature(module: Any) -> Any:
    """Returns `module.act` with named tensors, for servers of models."""
    observation, state = module.act.input_signature

    def serve(**tensors):
        action, new = module.act(
            [tensors[f'observation_{i}'] for i in range(len(observation))],
            [tensors[f'state_{i}'] for i in range(len(state))],
        )
        return {
            **{f'action_{i}': leaf for i, leaf in enumerate(action)},
            **{f'state_{i}': leaf for i, leaf in enumerate(new)},
        }

    inputs = {
        f'{name}_{i}': tf.TensorSpec(leaf.shape, leaf.dtype, f'{name}_{i}')
        for name, leaves in (('observation', observation), ('state', state))
        for i, leaf in enumerate(leaves)
    }
    return tf.function(serve, autograph=False).get_concrete_function(**inputs)
