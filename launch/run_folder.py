"""The folder that holds all records of a run, and how a run is found again."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import pathlib
import re
from collections.abc import Collection
from typing import IO, Any

from repertory.components import checkpointing
from repertory.launch import checks, progress, provenance, records, scripts
from repertory.launch import experiment as experiment_lib

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
    'logger',
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
        self._lock: IO[str] | None = None

    def hold(self) -> None:
        """Keeps other processes from running here, while this object lives.

        Raises:
            ValueError: if another process does.
        """
        lock = open(self.path / 'lock', 'a+', encoding='utf-8')
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read().strip()
            lock.close()
            raise ValueError(
                f'run_dir must not be in use, got {self.path}, where process {holder} '
                'runs; wait for its end, or stop it.'
            ) from None
        lock.truncate(0)
        lock.write(f'{os.getpid()}\n')
        lock.flush()
        self._lock = lock

    def load_config(self, **replacements: Any) -> Any:
        """Returns the config as it was at the start, but for `replacements`.

        It imports what the file names: open only folders that you trust.

        Raises:
            ValueError: if a part of it cannot be read back, naming it.
        """
        record = json.loads(self.config.read_text()) | records.encode(replacements)
        try:
            return records.decode(record)
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
    """Returns the name of the folder or script of an agent's config, or its class's."""
    module = scripts.import_path(type(config)).rpartition(':')[0]
    if module.endswith('.py'):
        return pathlib.Path(module).stem
    parts = module.split('.')
    return parts[-2] if len(parts) > 1 else type(config).__name__


def open_folder(
    experiment: experiment_lib.ExperimentConfig,
    topology: experiment_lib.Topology,
    run_dir: str | os.PathLike | None = None,
    resume: bool = False,
    one_thread: bool = False,
    allow_changes: bool = False,
) -> RunFolder:
    """Makes a run's folder, or opens it to resume; records what is run, and where.

    What cannot work is refused before: nothing is left behind.

    Args:
        experiment: what is run.
        topology: how it is laid out.
        run_dir: the folder; None makes one in `runs/`.
        resume: whether to continue the run in `run_dir`.
        allow_changes: lets a resumed run differ in any setting.
        one_thread: whether one thread runs it; a program cannot use its replay.

    Raises:
        ValueError: if there is nothing to resume, the run has spent its budget, the
            experiment is another one, or its parts do not fit each other.
        FileExistsError: if there is something in `run_dir` and it is not resumed.
    """
    scripts.refuse_to_run()
    checks.check_together(experiment, topology)
    if one_thread:
        checks.check_one_thread(topology)
    experiment.agent.check_spec(experiment.environment_spec())
    if resume:
        if run_dir is None:
            raise ValueError(
                'run_dir must be given to resume, got None; name the folder of a run.'
            )
        check_unfinished(open_run(run_dir), experiment)
        records.check_replay(RunFolder(run_dir).topology, experiment, topology)
        folder = open_for_resume(
            run_dir, experiment, allow_changes=allow_changes, one_thread=one_thread
        )
    else:
        names = {
            'agent': agent_name(experiment.agent),
            'environment': experiment.environment_name,
        }
        path = run_dir or default_path(**names, seed=experiment.seed)
        folder = create(
            path, experiment, **names, seed=experiment.seed, one_thread=one_thread
        )
    write_json(folder.topology, records.encode(topology))
    return folder


def check_unfinished(
    folder: RunFolder, experiment: experiment_lib.ExperimentConfig
) -> None:
    """Refuses to resume a run that would end at once.

    Raises:
        ValueError: naming the budget that is spent.
    """
    spent = progress.budget_of(experiment).spent(folder.saved_counts())
    if spent:
        flag = spent.partition(' ')[0].replace('_', '-')
        raise ValueError(
            f'run_dir must hold a run that can go on, got {folder.path}: it has '
            f'finished ({spent}); raise --{flag} to go on.'
        )


def default_path(
    agent: str, environment: str, seed: int, root: str | os.PathLike = 'runs'
) -> pathlib.Path:
    """Returns `root`/<agent>-<environment>-<time>-<seed>."""
    time = datetime.datetime.now().strftime('%Y%m%d_%H%M%S')
    name = re.sub(r'[^\w.]+', '_', f'{agent}_{environment}')
    return pathlib.Path(root) / f'{name}-{time}-{seed}'


def create(
    path: str | os.PathLike,
    config: Any,
    *,
    agent: str,
    environment: str,
    seed: int,
    one_thread: bool = False,
) -> RunFolder:
    """Makes the folder of a new run and records how it was started.

    Args:
        path: where; it may exist if it is empty.
        config: a dataclass, such as an ExperimentConfig.
        agent: its name, for titles.
        environment: its name, for titles.
        seed: the experiment's.
        one_thread: whether one thread runs it.

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
    folder.hold()
    write_json(folder.config, records.encode(config))
    names = {'agent': agent, 'environment': environment, 'seed': seed}
    # Last, since it is what makes the folder a run.
    write_json(folder.run, {**names, 'starts': [provenance.describe_start(one_thread)]})
    return folder


def open_for_resume(
    path: str | os.PathLike,
    config: Any = None,
    *,
    may_change: Collection[str] = MAY_CHANGE,
    allow_changes: bool = False,
    one_thread: bool = False,
) -> RunFolder:
    """Opens the folder of an earlier run and records the new start.

    Args:
        path: the run's folder.
        config: what the resumed run uses; None for the config as it was.
        may_change: fields, with all below them, in which `config` may differ.
        allow_changes: lets it differ in any field.
        one_thread: whether one thread runs it, as it did before.

    Raises:
        FileNotFoundError: if `path` is not the folder of a run.
        ValueError: if `config` differs where it must not, naming the fields; if the
            replay was saved by another kind of launch; if the run is still going on.
    """
    folder = open_run(path)
    folder.hold()
    description = folder.description()
    before_in_one = description['starts'][-1].get('one_thread', one_thread)
    changed_kind = before_in_one != one_thread
    if changed_kind and (config is None or config.checkpoint.replay):
        kinds = 'a program', 'one thread'
        raise ValueError(
            f'launch must be {kinds[before_in_one]} again to resume {folder.path} with '
            f'its replay, got {kinds[one_thread]}: Reverb restores the rate limiter, '
            'which is another; or leave the replay out, by checkpoint.replay = False '
            '(--checkpoint.no-replay).'
        )
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
                f'of{lines}\nuse the old values, or allow_changes=True '
                '(--allow-changes).'
            )
        write_json(folder.config, after)
    description['starts'].append(provenance.describe_start(one_thread))
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
