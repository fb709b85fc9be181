"""Several runs, each a process of `repertory train`, and what came of them."""

from __future__ import annotations

import csv
import dataclasses
import pathlib
import re
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import rich.console
import rich.table

from repertory.launch import curves as curves_lib
from repertory.launch import plots, progress, run_folder
from repertory.launch.cli import request

_POLL_SECONDS = 0.2
_SIGNALS = signal.SIGINT, signal.SIGTERM
# After a clean stop; or one before the run handled signals.
_INTERRUPTED = {code for n in _SIGNALS for code in (128 + n, -n)}


@dataclasses.dataclass(frozen=True, eq=False)  # Each is a key of its own.
class Trial:
    """One run: the agent, the settings that it tries, as typed, and its seed."""

    agent: str
    setting: Mapping[str, str]
    seed: int
    run_dir: pathlib.Path

    @property
    def label(self) -> str:
        return ', '.join(f'{field} {value}' for field, value in self.setting.items())

    def arguments(self, flags: Sequence[str]) -> list[str]:
        """Returns those of `repertory train`; `flags` are those of all trials."""
        own = []
        for field, value in self.setting.items():
            own += [f'--{field.replace("_", "-")}', *shlex.split(value)]
        seed, run_dir = str(self.seed), str(self.run_dir)
        return [self.agent, *flags, *own, '--seed', seed, '--run-dir', run_dir]

    @property
    def started(self) -> bool:
        return run_folder.RunFolder(self.run_dir).run.is_file()

    @property
    def finished(self) -> bool:
        """Whether it has run to its end; not if it failed or was interrupted."""
        status = progress.read(run_folder.RunFolder(self.run_dir).status)
        if not status or status['phase'] != 'exit' or status['failure']:
            return False
        # One interrupted in its last evaluation has no steps left to go on with.
        return self.spent or not status['hurry']

    @property
    def spent(self) -> bool:
        """Whether its budget is, so that it could not be resumed."""
        status = progress.read(run_folder.RunFolder(self.run_dir).status)
        if not status:
            return False
        return bool(progress.Budget(**status['budget']).spent(status['counts']))


def folder_name(setting: Mapping[str, str], seed: int) -> str:
    """Returns the name of a trial's folder."""
    text = '-'.join(f'{field}_{value}' for field, value in setting.items())
    return re.sub(r'[^\w.\-]+', '_', f'{text}-seed_{seed}' if text else f'seed_{seed}')


def run_all(
    trials: Sequence[Trial],
    flags: Sequence[str],
    parallel: int,
    output: pathlib.Path,
) -> int:
    """Runs all, `parallel` at once; writes sweep.csv and sweep.png, prints a table.

    Those that have finished before are left as they are, those that have begun are
    resumed. Ctrl-C and SIGTERM stop the runs cleanly, to be resumed.

    Returns:
        0; 1 if a run failed; 128 + n after a signal.
    """
    codes = _ended_before(trials)
    lost = sum(codes.values())
    waiting = [trial for trial in trials if trial not in codes]
    running: dict[Trial, subprocess.Popen] = {}
    received: list[int] = []

    def handle(number, frame):
        del frame
        received.append(number)
        waiting.clear()
        for process in running.values():
            process.send_signal(signal.SIGTERM)

    before = {n: signal.signal(n, handle) for n in _SIGNALS}
    try:
        while waiting or running:
            while waiting and len(running) < parallel:
                trial = waiting.pop(0)
                running[trial] = _start(trial, flags)
                if received:  # A signal came before the process was known.
                    running[trial].send_signal(signal.SIGTERM)
            for trial, process in list(running.items()):
                code = process.poll()
                if code is not None:
                    codes[trial] = code
                    del running[trial]
                    _report(trial, code, len(codes), len(trials))
            time.sleep(_POLL_SECONDS)
    finally:
        for process in running.values():  # Only where something failed here.
            process.send_signal(signal.SIGTERM)
        for number, handler in before.items():
            signal.signal(number, handler)
    _summarize({trial: codes[trial] for trial in trials if trial in codes}, output)
    unfinished = len(trials) - lost - sum(not code for code in codes.values())
    if unfinished:
        print(
            f'resume:  the same command with --resume goes on with the {unfinished} of '
            f'{len(trials)} runs that are not finished'
        )
    if received:
        return 128 + received[0]
    return 1 if any(codes.values()) else 0


def _ended_before(trials: Sequence[Trial]) -> dict[Trial, int]:
    """Returns 0 for those that have finished, 1 for those that cannot any more."""
    codes = {trial: 0 for trial in trials if trial.finished}
    if codes:
        print(f'{len(codes)} of {len(trials)}: finished before', flush=True)
    for trial in trials:
        if trial.spent and trial not in codes:
            codes[trial] = 1
            print(
                f'{trial.run_dir.name}: failed as it ended, with its budget spent; '
                f'delete {trial.run_dir} to run it anew: see {_log(trial)}',
                flush=True,
            )
    return codes


def _start(trial: Trial, flags: Sequence[str]) -> subprocess.Popen:
    trial.run_dir.parent.mkdir(parents=True, exist_ok=True)
    arguments = trial.arguments(flags)
    if trial.started:  # It knows its settings, but not how it was launched.
        launch, _ = request.take(flags, '--launch')
        arguments = ['--resume', str(trial.run_dir)]
        arguments += [] if launch is None else ['--launch', launch]
    with open(_log(trial), 'a') as log:
        return subprocess.Popen(
            [sys.executable, '-m', 'repertory', 'train', *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Ctrl-C comes to it through this process alone: twice would kill it.
            start_new_session=True,
        )


def _log(trial: Trial) -> pathlib.Path:
    return trial.run_dir.with_name(f'{trial.run_dir.name}.log')


def _report(trial: Trial, code: int, number: int, of: int) -> None:
    found = result(trial)
    text = f'return {found["final"]:.4g}' if found else 'no evaluation'
    if _state(code) == 'interrupted':
        text += ', interrupted'
    elif code:
        text += f', failed with exit code {code}: see {_log(trial)}'
    print(f'{number} of {of}: {trial.run_dir.name}: {text}', flush=True)


def _state(code: int) -> str:
    if code in _INTERRUPTED:
        return 'interrupted'
    return 'failed' if code else 'finished'


def result(trial: Trial) -> dict[str, Any]:
    """Returns the last and best evaluation's return, steps and seconds; {} if none."""
    folder = run_folder.RunFolder(trial.run_dir)
    steps, returns = curves_lib.read_evaluations(folder)
    if not len(returns):
        return {}
    seconds, _ = curves_lib.read_evaluations(folder, 'seconds')
    return {
        'final': float(returns[-1]),
        'best': float(returns.max()),
        'actor_steps': int(steps[-1]),
        'seconds': float(seconds[-1]),
    }


def _summarize(codes: Mapping[Trial, int], output: pathlib.Path) -> None:
    found = {trial: result(trial) for trial in codes}
    with open(output / 'sweep.csv', 'w', newline='', encoding='utf-8') as file:
        fields = list(dict.fromkeys(name for t in codes for name in t.setting))
        names = ['final', 'best', 'actor_steps', 'seconds']
        ends = 'state', 'exit_code', 'run_dir'
        writer = csv.DictWriter(file, [*fields, 'seed', *names, *ends])
        writer.writeheader()
        for trial, code in codes.items():
            values = _state(code), code, trial.run_dir
            row = {**trial.setting, 'seed': trial.seed, **found[trial]}
            writer.writerow({**row, **dict(zip(ends, values))})
    # The means and the picture are of whole runs.
    found = {trial: {} if codes[trial] else one for trial, one in found.items()}
    table = rich.table.Table('setting', 'finished', 'final return', 'best', 'seconds')
    groups: dict[str, list[Trial]] = {}
    for trial in codes:
        groups.setdefault(trial.label, []).append(trial)
    for label, members in groups.items():
        table.add_row(label, *_cells([found[t] for t in members if found[t]]))
    console = rich.console.Console()
    console.print(table, markup=False)
    curves = {
        label: [
            curves_lib.read_evaluations(run_folder.RunFolder(trial.run_dir))
            for trial in members
            if found[trial]
        ]
        for label, members in groups.items()
    }
    curves = {label: some for label, some in curves.items() if some}
    if curves:
        plots.plot_groups(curves, output / 'sweep.png', output.name)
        print(f'picture: {output / "sweep.png"}')
    print(f'table:   {output / "sweep.csv"}')


def _cells(found: Sequence[Mapping[str, Any]]) -> list[str]:
    if not found:
        return ['0', '-', '-', '-']
    final = [one['final'] for one in found]
    spread = statistics.stdev(final) if len(final) > 1 else 0.0
    return [
        str(len(found)),
        f'{statistics.fmean(final):.4g} +- {spread:.2g}',
        f'{max(one["best"] for one in found):.4g}',
        f'{statistics.fmean(one["seconds"] for one in found):.0f}',
    ]
