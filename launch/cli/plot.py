"""`repertory plot RUN_DIR ...`."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Annotated, Literal

import tyro

from repertory.launch import plots
from repertory.launch.cli import calling


def plot(
    run_dirs: tyro.conf.Positional[tuple[pathlib.Path, ...]],
    compare: bool = False,
    output: Annotated[pathlib.Path | None, tyro.conf.arg(aliases=['-o'])] = None,
    x: Literal['actor_steps', 'learner_steps', 'seconds'] = 'actor_steps',
) -> int:
    """Draws the learning curves of runs.

    Args:
        run_dirs: the runs' folders; several are seeds of one setting, or see compare.
        compare: a curve for each setting, over its seeds, all in one picture.
        output: the PNG file; of one run by default learning_curve.png in its folder.
        x: what the x axis counts.
    """
    if not run_dirs:
        raise ValueError('run_dirs must name the folder of a run, got none.')
    if len(run_dirs) == 1 and not compare:
        print(plots.plot_run(run_dirs[0], output))
        return 0
    output = output or pathlib.Path('curves.png')
    plots.plot_runs(run_dirs, output, compare=compare, x=x)
    print(output)
    return 0


def main(arguments: Sequence[str]) -> int:
    return calling.call(
        plot,
        'repertory plot',
        arguments,
        [
            'repertory plot runs/...',
            'repertory plot runs/seed_0 runs/seed_1 runs/seed_2 -o seeds.png',
            'repertory plot runs/* --compare -o curves.png',
        ],
    )
