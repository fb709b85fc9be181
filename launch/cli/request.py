"""What `repertory train` is asked for: every field of the configs is a flag."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import tyro

from repertory.agents import builder
from repertory.launch import experiment as experiment_lib
from repertory.launch import records, run_folder
from repertory.launch.cli import calling, names

_NO_PREFIX: Any = tyro.conf.arg(name='')
_REQUIRED: Any = tyro.conf.arg(metavar='NAME', help_behavior_hint='(required)')

Launch = Literal['processes', 'threads', 'ray', 'sync']


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked for on the command line."""

    experiment: experiment_lib.ExperimentConfig
    topology: experiment_lib.Topology
    launch: Launch
    run_dir: pathlib.Path | None = None
    resume: bool = False
    allow_changes: bool = False


def parse(arguments: Sequence[str]) -> Request:
    """Returns what `repertory train ARGUMENTS` asks for.

    Raises:
        ValueError: if the agent, the environment or a value cannot be.
        SystemExit: after `--help`, or for a flag that is not known.
    """
    arguments = list(arguments)
    # What the other flags' defaults depend on comes first.
    resume, others = take(arguments, '--resume')
    if resume is not None:
        return _resume(pathlib.Path(resume), others)
    agent, *arguments = arguments or ['none']
    names.check_agent(agent)
    presets = names.presets(agent)
    preset, _ = take(arguments, '--preset')
    if preset is not None and preset not in presets:
        raise ValueError(f'preset must be one of {", ".join(presets)}, got {preset!r}.')
    config = presets[preset or 'default']
    request = calling.call(
        flags(agent, config),
        f'repertory train {agent}',
        arguments,
        [
            f'repertory train {agent} --env {example_environment(config)}',
            f'repertory train {agent} --env {example_environment(config)} --seed 1 '
            '--launch sync',
            'repertory train --resume runs/... --max-actor-steps 200000',
        ],
    )
    if not request.experiment.environment:
        raise ValueError(
            "env must be an environment's name, got none; for example --env "
            f'{example_environment(config)}.'
        )
    return request


def take(arguments: Sequence[str], flag: str) -> tuple[str | None, list[str]]:
    """Returns the value of `flag`, None where it is absent, and the other arguments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(flag, dest='value')
    known, others = parser.parse_known_args(arguments)
    return known.value, others


def flags(agent: str, config: builder.AgentConfig) -> Callable[..., Request]:
    """Returns the function whose parameters are the flags of a new run.

    Args:
        agent: its command name.
        config: the defaults of its flags.
    """

    def train(
        experiment: Annotated[experiment_lib.ExperimentConfig, _NO_PREFIX],
        topology: Annotated[experiment_lib.Topology, _NO_PREFIX],
        env: Annotated[str, _REQUIRED] = '',
        preset: str = 'default',
        launch: Launch = 'processes',
        run_dir: pathlib.Path | None = None,
    ) -> Request:
        """Trains an agent in an environment.

        Args:
            experiment: what is run.
            topology: how it is laid out.
            env: A name as `repertory envs` lists them, or MODULE:FUNCTION of your own.
            preset: A set of hyperparameters, of which the other flags change some.
            launch: A process a node, here or on a Ray cluster; a thread a node; or
                all in one thread.
            run_dir: The folder of the run's records; by default a new one in runs/.
        """
        del preset
        made = dataclasses.replace(experiment, environment=names.environment(env))
        return Request(
            experiment=made, topology=topology, launch=launch, run_dir=run_dir
        )

    train.__annotations__['preset'] = Literal[tuple(names.presets(agent))]
    return functools.partial(
        train,
        experiment=experiment_lib.ExperimentConfig(agent=config, environment=''),
        topology=experiment_lib.Topology(),
    )


def _resume(path: pathlib.Path, arguments: list[str]) -> Request:
    if arguments and not arguments[0].startswith('-'):
        arguments = arguments[1:]  # The agent, which the folder knows.
    folder = run_folder.open_run(path)
    in_one_thread = folder.description()['starts'][-1].get('one_thread')
    as_before: Launch = 'sync' if in_one_thread else 'processes'

    def resume(
        experiment: Annotated[experiment_lib.ExperimentConfig, _NO_PREFIX],
        topology: Annotated[experiment_lib.Topology, _NO_PREFIX],
        launch: Launch = as_before,
        allow_changes: bool = False,
    ) -> Request:
        """Continues a run with its own settings, but for the flags given.

        Args:
            experiment: what is run.
            topology: how it is laid out.
            launch: A process a node, here or on a Ray cluster; a thread a node; or
                all in one thread.
            allow_changes: Lets any setting change, not only budgets and records.
        """
        return Request(
            experiment=experiment,
            topology=topology,
            launch=launch,
            run_dir=folder.path,
            resume=True,
            allow_changes=allow_changes,
        )

    return calling.call(
        functools.partial(
            resume,
            experiment=folder.load_config(),
            topology=records.decode(json.loads(folder.topology.read_text())),
        ),
        'repertory train --resume RUN_DIR',
        arguments,
        [f'repertory train --resume {path} --max-actor-steps 200000'],
    )


def example_environment(config: builder.AgentConfig) -> str:
    """Returns the name of a small environment that the agent can act in."""
    made = experiment_lib.ExperimentConfig(agent=config, environment='catch')
    try:
        config.check_spec(made.environment_spec())
    except ValueError:
        return 'gym:Pendulum-v1'
    return 'catch'
