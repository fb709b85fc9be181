"""`repertory train AGENT`: every field of the configs is a flag."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import importlib
import json
import logging
import os
import pathlib
import pkgutil
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import tyro

from repertory import agents
from repertory.agents import builder
from repertory.launch import display as display_lib
from repertory.launch import experiment as experiment_lib
from repertory.launch import records, run_folder

_NO_PREFIX: Any = tyro.conf.arg(name='')

Launch = Literal['processes', 'threads', 'sync']


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Request:
    """What was asked for on the command line."""

    experiment: experiment_lib.ExperimentConfig
    topology: experiment_lib.Topology
    launch: Launch
    run_dir: pathlib.Path | None
    resume: pathlib.Path | None


def agent_names() -> list[str]:
    """Returns the agents' command names: folders of `agents/` that have a config."""
    return [
        module.name.replace('_', '-')
        for module in pkgutil.iter_modules(agents.__path__)
        if module.ispkg
        and (pathlib.Path(agents.__path__[0]) / module.name / 'config.py').exists()
    ]


def main(arguments: Sequence[str]) -> int:
    """Trains; returns 0 at the run's end, 1 after a failure, 128 + n after a signal."""
    request = _parse(list(arguments))
    if request is None:
        return 0
    if request.launch == 'sync':
        experiment_lib.check_one_thread(request.topology)
    experiment_lib.check_together(request.experiment, request.topology)
    # A wrong name, a missing package or ROM is found before anything starts.
    request.experiment.make_environment(request.experiment.seed).close()
    folder = run_folder.open_folder(
        request.experiment,
        request.topology,
        request.resume or request.run_dir,
        resume=request.resume is not None,
        one_thread=request.launch == 'sync',
    )
    print(f'run folder: {folder.path}', flush=True)
    folder.logs.mkdir(exist_ok=True)
    folder.status.unlink(missing_ok=True)  # An earlier run's would be shown.
    logging.basicConfig(filename=folder.logs / 'launcher.log', level=logging.INFO)
    title = f'{folder.path.name} ({request.launch})'
    run = _run_here if request.launch == 'sync' else _run_program
    # Processes have logs of their own.
    shared = request.launch != 'processes'
    with _errors_to(folder.logs / 'nodes.log') if shared else contextlib.nullcontext():
        code, failure = run(request, folder, title)
    _print_last_lines(folder)
    if failure:
        print(failure, file=sys.stderr, flush=True)
    return code


def _print_last_lines(folder: run_folder.RunFolder) -> None:
    with contextlib.suppress(ValueError, FileNotFoundError):  # Nothing to draw yet.
        from repertory.launch import plots

        print(f'learning curve: {plots.plot_run(folder.path)}')
    print(f'logs:     {folder.logs}')
    # Written so that it can be run as it stands, also where .venv is not active.
    is_on_path = shutil.which('repertory') is not None
    command = 'repertory' if is_on_path else f'{sys.executable} -m repertory'
    if folder.policy.exists():
        print(f'evaluate: {command} eval {folder.path}')
    if folder.checkpoints.exists():
        print(f'resume:   {command} train --resume {folder.path}')
    if folder.csv.exists():
        print(f'plot:     {command} plot {folder.path}')
    sys.stdout.flush()


def _parse(arguments: list[str]) -> _Request | None:
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument('--resume', type=pathlib.Path)
    first.add_argument('--preset', default='default')
    known, _ = first.parse_known_args(arguments)
    if known.resume is not None:
        if arguments and not arguments[0].startswith('-'):
            arguments = arguments[1:]
        folder = run_folder.open_run(known.resume)
        experiment = folder.load_config()
        topology = records.decode(json.loads(folder.topology.read_text()))
        return _cli(arguments, 'repertory train', experiment, topology)
    names = agent_names()
    if not arguments or arguments[0] not in names:
        if arguments and arguments[0] in ('-h', '--help'):
            print(
                'usage: repertory train AGENT ...\n       repertory train --resume DIR'
            )
            print(f'\nagents: {", ".join(names)}')
            return None
        given = arguments[0] if arguments else 'none'
        raise ValueError(f'agent must be one of {", ".join(names)}, got {given!r}.')
    agent, *arguments = arguments
    presets = _presets(agent)
    if known.preset not in presets:
        raise ValueError(
            f'preset must be one of {", ".join(presets)}, got {known.preset!r}.'
        )
    experiment = experiment_lib.ExperimentConfig(
        agent=presets[known.preset], environment=''
    )
    request = _cli(
        arguments, f'repertory train {agent}', experiment, experiment_lib.Topology()
    )
    if not request.experiment.environment:
        raise ValueError(
            "env must be an environment's name, got none; for example --env catch."
        )
    return request


def _presets(agent: str) -> dict[str, builder.AgentConfig]:
    name = agent.replace('-', '_')
    module = importlib.import_module(f'repertory.agents.{name}.config')
    return {'default': module.Config(), **getattr(module, 'PRESETS', {})}


def _request(
    experiment: Annotated[experiment_lib.ExperimentConfig, _NO_PREFIX],
    topology: Annotated[experiment_lib.Topology, _NO_PREFIX],
    env: str | None = None,
    preset: str = 'default',
    launch: Launch = 'processes',
    run_dir: pathlib.Path | None = None,
    resume: pathlib.Path | None = None,
) -> _Request:
    """Trains an agent in an environment.

    Args:
        experiment: what is run.
        topology: how it is laid out.
        env: An environment's name: catch, gym:CartPole-v1, atari:Pong, ...
        preset: A set of hyperparameters, of which the other flags change some.
        launch: A process a node, a thread a node, or all in one thread.
        run_dir: The folder of the run's records; by default a new one in runs/.
        resume: The folder of a run to continue, with its own settings.
    """
    del preset
    if env is not None:
        experiment = dataclasses.replace(experiment, environment=env)
    return _Request(
        experiment=experiment,
        topology=topology,
        launch=launch,
        run_dir=run_dir,
        resume=resume,
    )


def _cli(
    arguments: list[str],
    program: str,
    experiment: experiment_lib.ExperimentConfig,
    topology: experiment_lib.Topology,
) -> _Request:
    command = functools.partial(_request, experiment=experiment, topology=topology)
    return tyro.cli(command, prog=program, args=arguments)


def _run_program(
    request: _Request, folder: run_folder.RunFolder, title: str
) -> tuple[int, str]:
    """Returns the exit code and what failed, in words."""
    from repertory.launch import launcher, program

    made = program.make_program(
        request.experiment,
        request.topology,
        folder.path,
        resume=request.resume is not None,
    )
    run = launcher.launch(
        made,
        'threads' if request.launch == 'threads' else 'processes',
        folder.path,
        program.process_environments(request.topology),
    )
    with display_lib.Display(folder.status, title):
        result = run.wait()
    failure = ''
    if result.failed_node:
        failure = f'\n{result.failed_node} {result.failure}'
    return result.exit_code, failure


@contextlib.contextmanager
def _errors_to(path: pathlib.Path) -> Iterator[None]:
    """Sends what libraries write to stderr to a file, not over the table."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(path, 'ab') as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _run_here(
    request: _Request, folder: run_folder.RunFolder, title: str
) -> tuple[int, str]:
    from repertory.launch import local

    received: list[int] = []

    def handle(number, frame):
        received.append(number)
        raise KeyboardInterrupt

    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, handle)
    with display_lib.Display(folder.status, title):
        local.run_experiment(
            request.experiment,
            request.topology,
            folder,
            resume=request.resume is not None,
        )
    return (128 + received[0] if received else 0), ''
