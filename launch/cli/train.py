"""`repertory train AGENT`: runs it, shows how it goes, says where its records are."""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import shlex
import shutil
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from repertory.components import kernels
from repertory.launch import checks, log_watcher, progress, run_folder, signals
from repertory.launch import display as display_lib
from repertory.launch.cli import names, request

_USAGE = """usage: repertory train AGENT --env NAME [OPTIONS]
       repertory train --resume RUN_DIR [OPTIONS]

agents: {agents}

examples:
  repertory train apex-dqn --env catch
  repertory train d4pg --env gym:Pendulum-v1 --preset pendulum --num-actors 2
  repertory train --resume runs/... --max-actor-steps 200000

`repertory train AGENT --help` lists every setting; `repertory config AGENT` says what
they mean; `repertory envs` lists the environments."""


def main(arguments: Sequence[str]) -> int:
    """Trains; returns 0 at the run's end, 1 after a failure, 128 + n after a signal.

    A run in threads, or in one, ends this process with that code.
    """
    if arguments and arguments[0] in ('-h', '--help'):
        print(_USAGE.format(agents=', '.join(names.agent_names())))
        return 0
    asked = request.parse(arguments)
    if asked.launch == 'threads':
        checks.check_threads(asked.topology)
    folder, received = _open_folder(asked)
    print(f'run folder: {_relative(folder.path)}', flush=True)
    _print_replay_memory(asked)
    if asked.resume:
        counts = folder.saved_counts()
        steps = [
            f'{counts.get(name, 0):,.0f}' for name in ('actor_steps', 'learner_steps')
        ]
        print(f'resumes at: {steps[0]} environment steps, {steps[1]} learner steps')
    folder.logs.mkdir(exist_ok=True)
    folder.status.unlink(missing_ok=True)  # An earlier run's would be shown.
    logging.basicConfig(
        filename=folder.logs / 'launcher.log',
        level=logging.INFO,
        format=log_watcher.FORMAT,
    )
    title = f'{folder.path.name} ({asked.launch})'
    run = _run_here if asked.launch == 'sync' else _run_program
    # Processes have logs of their own.
    shared = asked.launch in ('threads', 'sync')
    stderr = sys.stderr  # A thread that does not stop leaves another in its place.
    try:
        # The run takes signals itself, once it waits.
        with (
            signals.handled(_stop_early),
            _errors_to(folder.logs / 'nodes.log')
            if shared
            else contextlib.nullcontext(),
        ):
            if received:
                _stop_early(received[0])
            end = run(asked, folder, title)
    except _StoppedEarly as error:
        end = _End(128 + error.args[0])
    if end.code > 128 and not folder.checkpoints.exists():
        print('interrupted before anything was saved; it begins anew where resumed.')
    _print_last_lines(folder)
    if end.failure:
        print(end.failure, file=stderr, flush=True)
    if end.stuck or shared:
        # C++ aborts a process for threads that still run; and datasets' destructors
        # wait up to ten seconds for a replay server that is gone, as in a node.
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code)
    return end.code


def _open_folder(asked: request.Request) -> tuple[run_folder.RunFolder, list[int]]:
    """Returns the run's folder, and the signal that came meanwhile.

    Half a folder could neither be used nor resumed. A second signal ends it all the
    same: the environment, which is asked for its specs, may hang.
    """
    received: list[int] = []

    def take(number: int) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    with signals.handled(take):
        folder = run_folder.open_folder(
            asked.experiment,
            asked.topology,
            asked.run_dir,
            resume=asked.resume,
            one_thread=asked.launch == 'sync',
            allow_changes=asked.allow_changes,
        )
    return folder, received


def _print_replay_memory(asked: request.Request) -> None:
    """Says what the full replay will take, and warns where the machine has less."""
    shard = asked.experiment.agent.replay_bytes(asked.experiment.environment_spec())
    if shard is None:
        return
    shards = asked.topology.replay_shards
    here = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    print(
        f'replay:     about {shard * shards / 2**30:.2f} GiB when full'
        + (f', in {shards} shards' if shards > 1 else '')
        + f', less what compression saves; this machine has {here / 2**30:.0f} GiB'
    )
    if shard * shards > here:
        print(
            'warning:    the replay will not fit; lower --max-replay-size.',
            file=sys.stderr,
        )
    sys.stdout.flush()


def _print_last_lines(folder: run_folder.RunFolder) -> None:
    path = _relative(folder.path)
    with contextlib.suppress(ValueError, FileNotFoundError):  # Nothing to draw yet.
        from repertory.launch import plots

        print(f'learning curve: {_relative(plots.plot_run(folder.path))}')
    print(f'logs:     {_relative(folder.logs)}')
    # Written so that they can be run as they stand, also where .venv is not active.
    command = _command()
    if folder.policy.exists():
        print(f'evaluate: {command} eval {path}')
    if folder.run.exists():
        print(f'resume:   {command} train --resume {path}{_more(folder)}')
    if folder.csv.exists():
        print(f'plot:     {command} plot {path}')
    sys.stdout.flush()


def _more(folder: run_folder.RunFolder) -> str:
    """Returns the flag without which a run at the end of its budget has ended."""
    status = progress.read(folder.status)
    for name, value in status.get('budget', {}).items():
        if value and status['reason'].startswith(f'max_{name} of '):
            return f' --max-{name.replace("_", "-")} {2 * value:.15g}'
    return ''


def _command() -> str:
    """Returns what runs this installation's `repertory` in the user's shell."""
    installed = pathlib.Path(sys.executable).with_name('repertory')
    found = shutil.which('repertory')
    if found is not None and pathlib.Path(found).resolve() == installed.resolve():
        return 'repertory'
    if not installed.exists():
        return f'{_relative(pathlib.Path(sys.executable))} -m repertory'
    return _relative(installed)


def _relative(path: pathlib.Path) -> str:
    """Returns a path for the user's shell, short where it is below this folder."""
    if path.is_relative_to(pathlib.Path.cwd()):
        path = path.relative_to(pathlib.Path.cwd())
    return shlex.quote(str(path))


class _StoppedEarly(BaseException):
    """By the signal of that number, before the run took signals itself."""


def _stop_early(number: int) -> None:
    raise _StoppedEarly(number)


class _End(NamedTuple):
    """How a run ended."""

    code: int
    failure: str = ''  # In words.
    stuck: bool = False  # Whether threads of it still run.


def _run_program(
    asked: request.Request, folder: run_folder.RunFolder, title: str
) -> _End:
    assert asked.launch != 'sync'  # That is `_run_here`.
    if asked.launch == 'threads':  # Before Launchpad is imported.
        kernels.set_here(asked.experiment.kernel_variables())
    from repertory.launch import launcher, program

    made = program.make_program(
        asked.experiment, asked.topology, folder.path, resume=asked.resume
    )
    run = launcher.launch(
        made,
        asked.launch,
        folder.path,
        program.process_environments(asked.experiment, asked.topology),
        program.restart_policies(asked.topology),
        asked.topology.ray,
    )
    with display_lib.Display(folder.status, title, folder.logs):
        result = run.wait()
    failure = f'\n{signals.AT_ONCE}' if run.at_once else ''
    if result.failed_node:
        failure = f'\n{result.failed_node} {result.failure}'
    return _End(result.exit_code, failure, bool(run.left))


@contextlib.contextmanager
def _errors_to(path: pathlib.Path) -> Iterator[None]:
    """Sends what libraries write to stderr to a file, not over the table."""
    before = sys.stderr
    before.flush()
    kept = os.dup(2)
    with open(path, 'ab') as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        sys.stderr = before  # Nodes that are threads, and the table, change it.
        os.dup2(kept, 2)
        os.close(kept)


def _run_here(asked: request.Request, folder: run_folder.RunFolder, title: str) -> _End:
    from repertory.launch import local

    with display_lib.Display(folder.status, title, folder.logs):
        try:
            result = local.run_experiment(
                asked.experiment, asked.topology, folder, resume=asked.resume
            )
        except KeyboardInterrupt as error:  # By a second signal.
            return _End(130, str(error))
        except Exception:
            return _End(1, traceback.format_exc())
    return _End(128 + result.signal if result.signal else 0)
