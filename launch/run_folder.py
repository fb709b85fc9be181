"""The folder that holds all records of a run, and how a run is found again."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Collection
from importlib import metadata
from typing import Any

from repertory.components import checkpointing
from repertory.launch import records

_PACKAGES = (
    'repertory',
    'tensorflow',
    'dm-reverb',
    'dm-launchpad',
    'dm-sonnet',
    'dm-env',
    'numpy',
)
# What a resumed run may change without being asked: when it ends, what it shows.
MAY_CHANGE = (
    'max_actor_steps',
    'max_learner_steps',
    'max_seconds',
    'target_return',
    'evaluation_episodes',
    'evaluation_period_seconds',
    'checkpoint',
    'logging',
)


class RunFolder:
    """The paths within a run's folder; the subfolders are made when first used."""

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = pathlib.Path(path).absolute()
        self.config = self.path / 'config.json'
        self.topology = self.path / 'topology.json'
        self.run = self.path / 'run.json'
        self.checkpoints = self.path / 'checkpoints'
        self.replay = self.path / 'replay'
        self.logs = self.path / 'logs'
        self.tensorboard = self.path / 'tensorboard'
        self.csv = self.path / 'csv'
        self.policy = self.path / 'policy'
        self.status = self.path / 'status.json'
        self.learning_curve = self.path / 'learning_curve.png'

    def load_config(self) -> Any:
        """Returns the config as it was read at the start.

        It imports what the file names: open only folders that you trust.

        Raises:
            ValueError: if a part of it cannot be read back, naming it.
        """
        try:
            return records.decode(json.loads(self.config.read_text()))
        except ValueError as error:
            raise ValueError(f'{self.config}: {error}') from error

    def saved_counts(self) -> dict[str, float]:
        """Returns the counts of the newest checkpoint; {} if there is none."""
        path = checkpointing.latest(self.checkpoints)
        return {} if path is None else checkpointing.load(path).metadata['counts']

    def description(self) -> dict[str, Any]:
        """Returns agent, environment and seed, and of each start how it was made."""
        return json.loads(self.run.read_text())


def agent_name(config: Any) -> str:
    """Returns the name of the folder that an agent's config is from, or its class's."""
    parts = type(config).__module__.split('.')
    return parts[-2] if len(parts) > 1 else type(config).__name__


def open_folder(
    experiment: Any,
    topology: Any,
    run_dir: str | os.PathLike | None = None,
    resume: bool = False,
) -> RunFolder:
    """Makes a run's folder, or opens it to resume; records what is run, and where.

    Args:
        experiment: an ExperimentConfig.
        topology: a Topology.
        run_dir: the folder; None makes one in `runs/`.
        resume: whether to continue the run in `run_dir`.

    Raises:
        ValueError: if there is nothing to resume, or the experiment is another one.
        FileExistsError: if there is something in `run_dir` and it is not resumed.
    """
    if resume:
        if run_dir is None:
            raise ValueError(
                'run_dir must be given to resume, got None; name the folder of a run.'
            )
        folder = open_for_resume(run_dir, experiment)
    else:
        names = {
            'agent': agent_name(experiment.agent),
            'environment': experiment.environment_name,
        }
        path = run_dir or default_path(**names, seed=experiment.seed)
        folder = create(path, experiment, **names, seed=experiment.seed)
    write_json(folder.topology, records.encode(topology))
    return folder


def default_path(
    agent: str, environment: str, seed: int, root: str | os.PathLike = 'runs'
) -> pathlib.Path:
    """Returns `root`/<agent>-<environment>-<time>-<seed>."""
    time = datetime.datetime.now().strftime('%Y%m%d_%H%M%S')
    name = re.sub(r'[^\w.]+', '_', f'{agent}_{environment}')
    return pathlib.Path(root) / f'{name}-{time}-{seed}'


def create(
    path: str | os.PathLike, config: Any, *, agent: str, environment: str, seed: int
) -> RunFolder:
    """Makes the folder of a new run and records how it was started.

    Args:
        path: where; it may exist if it is empty.
        config: a dataclass, such as an ExperimentConfig.
        agent: its name, for titles.
        environment: its name, for titles.
        seed: the experiment's.

    Raises:
        FileExistsError: if there is something at `path` already.
    """
    folder = RunFolder(path)
    folder.path.mkdir(parents=True, exist_ok=True)
    if any(folder.path.iterdir()):
        raise FileExistsError(
            f'run_dir must be a new or empty folder, got {folder.path}, which is not '
            'empty; choose another, or resume the run that it holds.'
        )
    write_json(folder.config, records.encode(config))
    names = {'agent': agent, 'environment': environment, 'seed': seed}
    # Last, since it is what makes the folder a run.
    write_json(folder.run, {**names, 'starts': [_describe_start()]})
    return folder


def open_for_resume(
    path: str | os.PathLike,
    config: Any = None,
    *,
    may_change: Collection[str] = MAY_CHANGE,
    allow_changes: bool = False,
) -> RunFolder:
    """Opens the folder of an earlier run and records the new start.

    Args:
        path: the run's folder.
        config: what the resumed run uses; None for the config as it was.
        may_change: fields, with all below them, in which `config` may differ.
        allow_changes: lets it differ in any field.

    Raises:
        FileNotFoundError: if `path` is not the folder of a run.
        ValueError: if `config` differs where it must not, naming the fields.
    """
    folder = open_run(path)
    if config is not None:
        before = json.loads(folder.config.read_text())
        after = json.loads(json.dumps(records.encode(config)))
        changed = {
            name: values
            for name, values in records.differences(before, after).items()
            if not any(name == key or name.startswith(f'{key}.') for key in may_change)
        }
        if changed and not allow_changes:
            lines = ''.join(
                f'\n  {name}: {old!r} then, {new!r} now'
                for name, (old, new) in changed.items()
            )
            raise ValueError(
                f'config must be that of {folder.path} to resume it, got other values '
                f'of{lines}\nuse the old values, or allow changes.'
            )
        write_json(folder.config, after)
    description = folder.description()
    description['starts'].append(_describe_start())
    write_json(folder.run, description)
    return folder


def open_run(path: str | os.PathLike) -> RunFolder:
    """Returns the folder of an earlier run, to read.

    Raises:
        FileNotFoundError: if `path` is not the folder of a run.
    """
    folder = RunFolder(path)
    if not folder.run.is_file():
        missing = 'has no run.json' if folder.path.is_dir() else 'does not exist'
        raise FileNotFoundError(
            f'run_dir must be the folder of a run, got {folder.path}, which {missing}; '
            'give the folder that the run named when it started.'
        )
    return folder


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes a file that a reader finds whole, old or new."""
    partial = path.with_name(f'{path.name}.tmp')
    partial.write_text(json.dumps(value, indent=2) + '\n')
    os.replace(partial, path)


def _describe_start() -> dict[str, Any]:
    now = datetime.datetime.now(datetime.timezone.utc)
    versions = {'python': platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = 'not installed'
    return {
        'time': now.isoformat(timespec='seconds'),
        'command': shlex.join([sys.executable, *sys.argv]),
        'versions': versions,
        'git': _git(),
        'host': {
            'system': platform.platform(),
            'cpu': _cpu_model(),
            'cores': len(os.sched_getaffinity(0)),
            'memory_gib': round(
                os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30, 1
            ),
        },
    }


def _git() -> dict[str, Any] | None:
    """Returns the commit of the working directory; None where there is none."""
    try:
        commit = _run('git', 'rev-parse', 'HEAD')
        changed = _run('git', 'status', '--porcelain', '--untracked-files=no')
    except (OSError, subprocess.SubprocessError):
        return None
    return {'commit': commit, 'changed': bool(changed)}


def _run(*command: str) -> str:
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=10
    ).stdout.strip()


def _cpu_model() -> str:
    try:
        lines = pathlib.Path('/proc/cpuinfo').read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(':', 1)[1].strip() for line in lines if 'model name' in line]
    return names[0] if names else platform.machine()
