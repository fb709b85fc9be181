"""Learning curves, read from the CSV files of runs."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence

import numpy as np

from repertory.launch import run_folder

Curve = tuple[np.ndarray, np.ndarray]


def read_curve(
    path: str | os.PathLike, x: str = 'actor_steps', y: str = 'episode_return'
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the columns `x` and `y` of a CSV file where a row has both.

    A resumed run goes back to its checkpoint: rows that it then wrote again are
    left out.

    Returns:
        float64 [rows] each, x never decreasing.

    Raises:
        ValueError: if the file has no such column, naming those it has.
    """
    with open(path, newline='', encoding='utf-8') as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or []
        for name in (x, y):
            if name not in columns:
                raise ValueError(
                    f'{path} must have a column {name!r}, got {", ".join(columns)}.'
                )
        rows = [(row[x], row[y]) for row in reader]
    points = np.array([row for row in rows if all(row)], float).reshape(-1, 2)
    points = points[np.isfinite(points[:, 0])]
    lowest_later = np.minimum.accumulate(points[::-1, 0])[::-1]
    points = points[points[:, 0] <= lowest_later]
    return points[:, 0], points[:, 1]


def read_curves(
    folder: run_folder.RunFolder, group: str, x: str = 'actor_steps'
) -> list[Curve]:
    """Returns the returns of each actor or evaluator that has any, against `x`.

    Args:
        folder: the run's.
        group: `actor` or `evaluator`.
        x: a column's name.
    """
    curves = []
    for path in sorted(folder.csv.glob(f'{group}*.csv')):
        with open(path, newline='', encoding='utf-8') as file:
            columns = next(csv.reader(file), [])
        if x in columns and 'episode_return' in columns:
            curves.append(read_curve(path, x))
    return [curve for curve in curves if len(curve[0])]


def read_evaluations(folder: run_folder.RunFolder, x: str = 'actor_steps') -> Curve:
    """Returns a run's evaluations against `x`: the mean of its evaluators.

    Returns:
        float64 [points] each, as `read_curve` returns them; empty if there are none.
    """
    curves = read_curves(folder, 'evaluator', x)
    return mean(curves) if curves else (np.empty(0), np.empty(0))


def mean(curves: Sequence[Curve]) -> Curve:
    """Returns the mean of several curves at every point that one of them has.

    Between its points a curve is taken to be straight; before its first and after its
    last it does not count.

    Args:
        curves: x and y of each, at least one point long; x never decreases.
    """
    if len(curves) == 1:
        return curves[0]
    points = np.unique(np.concatenate([xs for xs, _ in curves]))
    total, number = np.zeros(len(points)), np.zeros(len(points))
    for xs, ys in curves:
        inside = (xs[0] <= points) & (points <= xs[-1])
        total[inside] += np.interp(points[inside], xs, ys)
        number += inside
    return points, total / number
