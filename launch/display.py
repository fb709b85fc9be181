"""Shows how a run goes, from its status file: a live table, or lines."""

from __future__ import annotations

import math
import os
import pathlib
import statistics
import sys
import threading
from typing import Any

import rich.console
import rich.live
import rich.table

from repertory.launch import log_watcher, progress

_REFRESH_SECONDS = 0.5
_LINE_SECONDS = 10.0


class Display:
    """Shows the status file until closed; a context manager.

    A terminal gets a table that is redrawn in place; anything else a line each ten
    seconds.
    """

    def __init__(
        self,
        status_path: str | os.PathLike,
        title: str,
        log_dir: str | os.PathLike | None = None,
        console: rich.console.Console | None = None,
    ):
        """Does not begin yet.

        Args:
            status_path: what the coordinator writes.
            title: of the table.
            log_dir: where nodes log; their warnings are shown too. None for none.
            console: None for standard output.
        """
        self._path = pathlib.Path(status_path)
        self._title = title
        self._logs = None if log_dir is None else log_watcher.LogWatcher(log_dir)
        self._console = console or rich.console.Console(file=sys.stdout)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._show, name='display', daemon=True)

    def __enter__(self) -> Display:
        self._thread.start()
        return self

    def __exit__(self, *unused) -> None:
        self._closing.set()
        self._thread.join()

    def _show(self) -> None:
        if not self._console.is_terminal:
            period = 1.0  # The first line comes with the first status.
            while True:
                closing = self._closing.wait(period)
                self._print_warnings()
                status = progress.read(self._path)
                if status:
                    self._console.print(summary_line(status), soft_wrap=True)
                    period = _LINE_SECONDS
                if closing:
                    return
        with rich.live.Live(console=self._console, auto_refresh=False) as live:
            while True:
                closing = self._closing.wait(_REFRESH_SECONDS)
                self._print_warnings()  # Above the table.
                status = progress.read(self._path)
                if status:
                    live.update(make_table(status, self._title), refresh=True)
                if closing:
                    return

    def _print_warnings(self) -> None:
        for text in self._logs.new_warnings() if self._logs else ():
            self._console.print(
                f'warning: {text}', soft_wrap=True, markup=False, highlight=False
            )


def figures(status: dict[str, Any]) -> dict[str, str]:
    """Returns what is shown, by label, in the order shown; '-' where not known."""
    counts, rates, budget = status['counts'], status['rates'], status['budget']
    actors = _metrics(status, 'actor')
    replays = _metrics(status, 'replay')
    evaluator = _metrics(status, 'evaluator')
    sizes = [m['size'] for m in replays if 'size' in m]
    limits = [m['max_size'] for m in replays if 'max_size' in m]
    memory = [m['memory_gib'] for m in replays if 'memory_gib' in m]
    first = replays[0] if replays else {}
    lags = [m['policy_lag'] for m in actors if 'policy_lag' in m]
    running = status['phase'] == progress.PHASES[0]
    return {
        'phase': status['phase']
        + (f' ({status["reason"]})' if status['reason'] else ''),
        'environment steps': _of(counts.get('actor_steps', 0), budget['actor_steps']),
        'environment steps/s': _number(rates.get('actor_steps')),
        'learner steps': _of(counts.get('learner_steps', 0), budget['learner_steps']),
        'learner steps/s': _number(rates.get('learner_steps')),
        'return, actors': _number(_mean(actors, 'episode_return')),
        'return, evaluator': _of(
            _mean(evaluator, 'episode_return'), budget['target_return']
        ),
        'replay size': _of(sum(sizes) if sizes else None, sum(limits) or None),
        # Of the whole process, Python and TensorFlow's half GiB included.
        'replay process': f'{_number(sum(memory))} GiB' if memory else '-',
        'samples per insert': _of(
            first.get('samples_per_insert'),
            first.get('samples_per_insert_asked'),
            'asked',
        ),
        'policy lag': '-' if not lags else f'{_number(max(lags))} learner steps',
        'time': _time(counts['seconds']),
        'time left': _time(status['seconds_left'] if running else None),
    }


def make_table(status: dict[str, Any], title: str) -> rich.table.Table:
    """Returns all figures as a table, with what is starting and what waits."""
    table = rich.table.Table(title=title, show_header=False, title_justify='left')
    for label, value in figures(status).items():
        table.add_row(label, value)
    if status['starting']:
        table.add_row('starting', ', '.join(status['starting']))
    for role, node in status['nodes'].items():
        if node['waits_for']:
            table.add_row(f'{role} waits', node['waits_for'])
    if status['failure']:
        table.add_row('failure', status['failure'])
    return table


def summary_line(status: dict[str, Any]) -> str:
    """Returns the figures that are known in one line."""
    parts = [f'{k}: {v}' for k, v in figures(status).items() if v != '-']
    waits = [
        f'{role} waits: {node["waits_for"]}'
        for role, node in status['nodes'].items()
        if node['waits_for']
    ]
    if status['starting'] and status['phase'] == progress.PHASES[0]:
        parts.append(f'starting: {", ".join(status["starting"])}')
    return '; '.join(parts + waits)


def _metrics(status: dict[str, Any], group: str) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in node['metrics'].items() if v is not None}
        for role, node in status['nodes'].items()
        if progress.group_of(role) == group
    ]


def _mean(metrics: list[dict[str, Any]], name: str) -> float | None:
    values = [m[name] for m in metrics if name in m]
    return statistics.fmean(values) if values else None


def _number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return '-'
    if math.isinf(value):
        return f'{value}'
    if value == int(value) or abs(value) >= 1000:
        return f'{value:,.0f}'
    return f'{value:.3g}'


def _of(value: float | None, limit: float | None, word: str = 'of') -> str:
    text = _number(value)
    if limit is None or text == '-':
        return text
    return f'{text} ({word} {_number(limit)})'


def _time(seconds: float | None) -> str:
    if seconds is None or math.isinf(seconds):
        return '-'
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f'{hours}:{minutes:02}:{rest:02}' if hours else f'{minutes}:{rest:02}'
