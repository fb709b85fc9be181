"""Refusals of values, in words, for the configs."""

from __future__ import annotations

import importlib.util
import inspect
from typing import TYPE_CHECKING, Any

from repertory.components.environments import wrapping
from repertory.launch import restarts

if TYPE_CHECKING:
    from repertory.launch import experiment as experiment_lib


def check_integer(value: Any, least: int, name: str) -> None:
    """Raises TypeError or ValueError unless `value` is an integer >= `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f'{name} must be an integer, got {value!r}.')
    if value < least:
        raise ValueError(f'{name} must be >= {least}, got {value}.')


def check_above(value: float, bound: float, name: str) -> None:
    """Raises ValueError unless `value` is above `bound`."""
    if not value > bound:
        raise ValueError(f'{name} must be > {bound}, got {value}.')


def check_member(value: Any, choices: tuple, name: str) -> None:
    """Raises ValueError unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(
            f'{name} must be one of {", ".join(map(repr, choices))}, got {value!r}.'
        )


def check_installed(package: str, extra: str, name: str) -> None:
    """Raises ValueError unless `package`, which `name` needs, can be imported."""
    if importlib.util.find_spec(package) is None:
        raise ValueError(
            f'{name} needs the package {package}, which is absent; '
            f"pip install 'repertory[{extra}]'."
        )


def check_environment(environment: Any) -> None:
    """Raises TypeError unless it is a name or a function of a seed."""
    if isinstance(environment, str):
        return
    if not callable(environment):
        raise TypeError(
            'environment must be a name or a function (seed) -> dm_env.Environment, '
            f'got {type(environment).__name__}; an environment itself cannot be copied '
            'to the actors.'
        )
    if isinstance(environment, wrapping.Wrapped):
        environment = environment.factory
    try:
        inspect.signature(environment).bind(0)
    except ValueError:
        pass  # Of C, which tells no signature.
    except TypeError as error:
        name = getattr(environment, '__qualname__', repr(environment))
        raise TypeError(
            'environment must be a function of one seed, (seed) -> dm_env.Environment, '
            f'got {name}{inspect.signature(environment)}: {error}; let it take a seed.'
        ) from error


def check_together(
    experiment: experiment_lib.ExperimentConfig, topology: experiment_lib.Topology
) -> None:
    """Refuses what cannot work of an experiment and a topology together.

    Raises:
        ValueError: saying what does not fit.
    """
    experiment.agent.check_lanes(topology.envs_per_actor)
    share = experiment.agent.share(topology.num_learners)
    try:
        share.check_lanes(topology.envs_per_actor)
    except ValueError as error:
        raise ValueError(
            f'num_learners must leave each a batch that it can learn from, got '
            f'{topology.num_learners}: {error}'
        ) from error
    if experiment.target_return is not None and not topology.evaluators:
        raise ValueError(
            'evaluators must be >= 1 where target_return is set, got 0; nothing would '
            'measure it.'
        )


def check_one_thread(topology: experiment_lib.Topology) -> None:
    """Refuses a topology that one thread cannot run.

    Raises:
        ValueError: if it has not one actor, shard, learner and evaluator, or has
            relays or restarts.
    """
    restarts.check_threads(topology.restart, 'in one thread')
    if topology.variable_relays:
        raise ValueError(
            f'variable_relays must be 0 in one thread, got {topology.variable_relays}; '
            'its actor asks the learner directly: launch a program.'
        )
    _check_one_learner(topology, 'in one thread')
    counts = topology.num_actors, topology.replay_shards, topology.evaluators
    if (*counts, topology.inference) != (1, 1, 1, 'local'):
        raise ValueError(
            'num_actors, replay_shards, evaluators must be 1 in one thread, inference '
            f"'local', got {counts}, {topology.inference!r}; launch a program."
        )


def check_threads(topology: experiment_lib.Topology) -> None:
    """Refuses a topology that threads of one process cannot run.

    Raises:
        ValueError: if it has more than one learner, or restarts.
    """
    restarts.check_threads(topology.restart, 'in threads')
    _check_one_learner(topology, 'in threads')


def _check_one_learner(topology: experiment_lib.Topology, where: str) -> None:
    if topology.num_learners > 1:
        raise ValueError(
            f'num_learners must be 1 {where}, got {topology.num_learners}; each needs '
            'a process: launch processes.'
        )
