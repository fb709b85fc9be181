"""Learning curves as PNG files, from the CSV files of runs; needs no display."""

from __future__ import annotations

import json
import logging
import os
import pathlib
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np

from repertory.launch import curves as curves_lib
from repertory.launch import records, run_folder

_LABELS = {
    'actor_steps': 'environment steps',
    'learner_steps': 'learner steps',
    'seconds': 'wall clock [s]',
    'episode_return': 'episode return',
}
_LABEL_CHARACTERS = 80  # In a line.
_BINS = 60  # More points of the actors than this are drawn as means.

_logger = logging.getLogger(__name__)


def plot_run(
    path: str | os.PathLike, output: str | os.PathLike | None = None
) -> pathlib.Path:
    """Draws a run's returns against environment steps and wall clock.

    Args:
        path: the run's folder.
        output: the PNG file; None for `learning_curve.png` in the folder.

    Returns:
        The picture's path.

    Raises:
        FileNotFoundError: if `path` is not the folder of a run.
        ValueError: if no episode has been recorded yet.
    """
    folder = run_folder.open_run(path)
    output = folder.learning_curve if output is None else pathlib.Path(output)
    names = folder.description()
    figure = _figure(9.0)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, x in zip(panels, ('actor_steps', 'seconds'), strict=True):
        actors = curves_lib.read_curves(folder, 'actor', x)
        evaluators = curves_lib.read_curves(folder, 'evaluator', x)
        if not actors and not evaluators:
            raise ValueError(_nothing_to_draw(folder))
        if actors:
            axes.plot(*_means(actors), color='tab:gray', label='actors, exploring')
        if evaluators:
            number = len(evaluators)
            label = f'mean of {number} evaluators' if number > 1 else 'evaluator'
            mean = curves_lib.mean(evaluators)
            axes.plot(*mean, color='tab:blue', marker='.', label=label)
        _label(axes, x)
    panels[1].set_ylabel('')
    panels[0].legend()
    figure.suptitle(f'{names["agent"]} on {names["environment"]}, seed {names["seed"]}')
    _save(figure, output)
    return output


def plot_runs(
    paths: Sequence[str | os.PathLike],
    output: str | os.PathLike,
    compare: bool = False,
    x: str = 'actor_steps',
) -> None:
    """Draws the evaluators' returns of several runs in one picture.

    Args:
        paths: the runs' folders.
        output: the PNG file.
        compare: a curve for each setting, over its seeds, named by what differs;
            else all runs are seeds of one. Runs without an evaluation are left out,
            with a warning.
        x: what the x axis is, a column's name.

    Raises:
        FileNotFoundError: if one of `paths` is not the folder of a run.
        ValueError: if no run has an evaluation, or without `compare` settings differ.
    """
    labels = settings(paths)
    if len(set(labels)) > 1 and not compare:
        raise ValueError(
            'run_dirs must be seeds of one setting, got '
            f'{"; ".join(sorted(set(labels)))}; compare them by compare=True '
            '(--compare).'
        )
    groups: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for path, label in zip(paths, labels, strict=True):
        folder = run_folder.open_run(path)
        curve = curves_lib.read_evaluations(folder, x)
        if len(curve[0]):
            groups.setdefault(label, []).append(curve)
        else:
            _logger.warning('%s is left out: it has no evaluation yet.', folder.path)
    if not groups:
        raise ValueError(_nothing_to_draw(run_folder.open_run(paths[0])))
    names = [run_folder.open_run(path).description() for path in paths]
    agents = ', '.join(dict.fromkeys(name['agent'] for name in names))
    environments = ', '.join(dict.fromkeys(name['environment'] for name in names))
    plot_groups(groups, output, f'{agents} on {environments}', x)


def settings(paths: Sequence[str | os.PathLike]) -> list[str]:
    """Returns for each run what sets it apart from the others, its seed left out.

    Raises:
        FileNotFoundError: if one of `paths` is not the folder of a run.
    """
    flat = []
    for path in paths:
        folder = run_folder.open_run(path)
        description = folder.description()
        record = records.flatten(json.loads(folder.config.read_text()))
        names = {key: description[key] for key in ('agent', 'environment')}
        agent = {
            name.removeprefix('agent.'): value
            for name, value in record.items()
            if name.startswith('agent.') and not name.endswith('.class')
        }
        flat.append({**names, **agent})
    differing = [
        name
        for name in dict.fromkeys(name for one in flat for name in one)
        if len({json.dumps(one.get(name)) for one in flat}) > 1
    ]
    if 'agent' in differing:  # Its settings go without saying.
        differing = [name for name in differing if name in ('agent', 'environment')]
    return [
        ', '.join(f'{name} {one.get(name)}' for name in differing) or one['agent']
        for one in flat
    ]


def plot_seeds(
    curves: Sequence[tuple[np.ndarray, np.ndarray]],
    path: str | os.PathLike,
    title: str,
    x: str = 'actor_steps',
    target: float | None = None,
) -> None:
    """Draws the median of several seeds' curves, and their range as a band.

    Args:
        curves: x and y of each seed, as `curves.read_curve` returns them.
        path: the PNG file.
        title: such as 'apex_dqn on catch, 3 seeds'.
        x: what the x axis is, a column's name.
        target: if given, a line at this return.

    Raises:
        ValueError: if there is no curve, or one has no point.
    """
    plot_groups({'': curves}, path, title, x, target)


def plot_groups(
    groups: Mapping[str, Sequence[tuple[np.ndarray, np.ndarray]]],
    path: str | os.PathLike,
    title: str,
    x: str = 'actor_steps',
    target: float | None = None,
) -> None:
    """Draws for each label the median of its curves, and their range as a band.

    Curves are interpolated between their points, up to where the shortest of a label
    ends. The rest is as for `plot_seeds`.
    """
    figure = _figure(6.0)
    axes = figure.subplots()
    for label, curves in groups.items():
        grid, values = _interpolate(curves)
        label = textwrap.fill(label, _LABEL_CHARACTERS)
        prefix = f'{label}: ' if label else ''
        single = len(curves) == 1
        [line] = axes.plot(
            grid,
            np.median(values, axis=0),
            label=label or 'one seed' if single else f'{prefix}median of {len(curves)}',
        )
        if not single:
            axes.fill_between(
                grid,
                values.min(axis=0),
                values.max(axis=0),
                alpha=0.25,
                color=line.get_color(),
                label=None if label else 'range',
            )
    if target is not None:
        axes.axhline(target, color='tab:gray', linestyle='--', label=f'{target:g}')
    _label(axes, x)
    # Below the axes: names of settings may be long, and would hide the curves.
    figure.legend(loc='outside lower left', fontsize='small')
    axes.set_title(textwrap.fill(title, _LABEL_CHARACTERS))
    _save(figure, pathlib.Path(path))


def _interpolate(
    curves: Sequence[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """Returns points [200] of x, and each curve's values there, [curves, 200]."""
    lengths = [len(xs) for xs, _ in curves]
    if not lengths or not all(lengths):
        raise ValueError(
            f'curves must hold at least one point each, got {lengths} points.'
        )
    begin = max(xs[0] for xs, _ in curves)
    end = min(xs[-1] for xs, _ in curves)
    grid = np.linspace(min(begin, end), end, 200)
    return grid, np.stack([np.interp(grid, xs, ys) for xs, ys in curves])


def _nothing_to_draw(folder: run_folder.RunFolder) -> str:
    return (
        f'{folder.csv} must hold the return of an episode to draw, got none; '
        'wait for the first, or resume a run that was stopped before it, or turn `csv` '
        'logging on.'
    )


def _means(
    curves: Sequence[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """Returns all curves' points in order of x, as means where there are many."""
    xs, ys = (np.concatenate(values) for values in zip(*curves, strict=True))
    order = np.argsort(xs, kind='stable')
    parts = np.array_split(order, min(len(order), _BINS))
    return (
        np.array([xs[part].mean() for part in parts]),
        np.array([ys[part].mean() for part in parts]),
    )


def _figure(width: float):
    # Not pyplot, which keeps state for the process and may want a display.
    from matplotlib import figure

    return figure.Figure(figsize=(width, 4.0), layout='constrained')


def _label(axes, x: str) -> None:
    axes.set_xlabel(_LABELS.get(x, x))
    axes.set_ylabel(_LABELS['episode_return'])
    axes.grid(alpha=0.3)
    axes.locator_params(axis='x', nbins=6)


def _save(figure, path: pathlib.Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f'{path.name}.tmp')
    figure.savefig(partial, format='png', dpi=120)
    os.replace(partial, path)
