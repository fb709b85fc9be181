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
from repertory.launch import plots, run_folder

_POLL_SECONDS = 0.2


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

    Ctrl-C and SIGTERM stop the runs cleanly; what they reached is shown.

    Returns:
        0; 1 if a run failed; 128 + n after a signal.
    """
    waiting, running = list(trials), dict[Trial, subprocess.Popen]()
    codes: dict[Trial, int] = {}
    received: list[int] = []

    def handle(number, frame):
        del frame
        received.append(number)
        waiting.clear()
        for process in running.values():
            process.send_signal(signal.SIGTERM)

    before = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
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
    _summarize(codes, output)
    if received:
        return 128 + received[0]
    return 1 if any(codes.values()) else 0


def _start(trial: Trial, flags: Sequence[str]) -> subprocess.Popen:
    trial.run_dir.parent.mkdir(parents=True, exist_ok=True)
    with open(_log(trial), 'w') as log:
        return subprocess.Popen(
            [sys.executable, '-m', 'repertory', 'train', *trial.arguments(flags)],
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
    if code:
        text += f', failed with exit code {code}: see {_log(trial)}'
    print(f'{number} of {of}: {trial.run_dir.name}: {text}', flush=True)


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
        writer = csv.DictWriter(file, [*fields, 'seed', *names, 'exit_code', 'run_dir'])
        writer.writeheader()
        for trial, code in codes.items():
            ends = {'exit_code': code, 'run_dir': trial.run_dir}
            row = {**trial.setting, 'seed': trial.seed, **found[trial], **ends}
            writer.writerow(row)
    table = rich.table.Table('setting', 'seeds', 'final return', 'best', 'seconds')
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
