"""Puts the results into README.md, as a table: `python -m baselines.report`."""

from __future__ import annotations

import json
import pathlib
import statistics
from collections.abc import Sequence
from typing import Any

from baselines import run

README = pathlib.Path(__file__).parent / 'README.md'
_COLUMNS = (
    'baseline, variant',
    'environment',
    'seeds',
    'steps',
    'final return: median (range)',
    'mark',
    'steps to it: median',
    'time',
)
_BEGIN, _END = '<!-- results -->', '<!-- end -->'


def table() -> str:
    """Returns all that is in `results/`, as Markdown."""
    lines = [_row(_COLUMNS), _row(['---'] * len(_COLUMNS))]
    for path in sorted(run.RESULTS.glob('*/result.json')):
        name = path.parent.name
        baseline = run.load(name)
        variants = json.loads(path.read_text())['variants']
        lines += [
            line(name, baseline, variant, variants[variant]['seeds'])
            for variant in baseline.VARIANTS
            if variant in variants
        ]
        peers = path.with_name('peers.json')
        if peers.exists():
            record = json.loads(peers.read_text())
            lines.append(line(name, baseline, record['peer'], record['seeds']))
    return '\n'.join(lines)


def line(name: str, baseline: Any, variant: str, rows: list[dict[str, Any]]) -> str:
    """Returns a row of the table for the seeds of one variant, or of a peer."""
    is_peer = variant not in baseline.VARIANTS
    first = next(iter(baseline.VARIANTS))
    experiment, _ = baseline.VARIANTS[first if is_peer else variant](0)
    picture = 'peers' if is_peer else variant
    returns = [row['final_return'] for row in rows]
    reached = [
        row['actor_steps_to_target']
        for row in rows
        if row['actor_steps_to_target'] is not None
    ]
    steps = 'never'
    if reached:
        steps = f'{statistics.median(reached):,.0f}'
        if len(reached) < len(rows):
            steps += f', {len(reached)} of {len(rows)} seeds'
    spread = f'{min(returns):.4g} to {max(returns):.4g}'
    return _row(
        (
            f'[`{name}`]({name}.py), [{variant}](results/{name}/{picture}.png)',
            f'`{experiment.environment_name}`',
            str(len(rows)),
            f'{max(row["actor_steps"] for row in rows):,}',
            f'{statistics.median(returns):.4g} ({spread})',
            f'{baseline.TARGET:g}',
            steps,
            f'{statistics.median(row["seconds"] for row in rows):.0f} s',
        )
    )


def _row(cells: Sequence[str]) -> str:
    return f'| {" | ".join(cells)} |'


def main() -> None:
    begin, rest = README.read_text().split(_BEGIN)
    README.write_text(f'{begin}{_BEGIN}\n{table()}\n{_END}{rest.split(_END)[1]}')


if __name__ == '__main__':
    main()
