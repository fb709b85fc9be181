"""Draws docs/pictures/*.svg: `python docs/pictures.py`."""

from __future__ import annotations

import pathlib

import matplotlib
from matplotlib import figure as figure_lib
from matplotlib import patches

FOLDER = pathlib.Path(__file__).parent / 'pictures'
_COLOURS = {
    'actor': '#cfe3f7',
    'replay': '#f9e0c0',
    'learner': '#d5efd0',
    'evaluator': '#e6dcf3',
    'coordinator': '#eeeeee',
    'inference': '#f7d9e3',
}

# Name -> boxes (text, x, y), arrows (from, to), frames (text, x, y, width, height).
PICTURES = {
    'sync': (
        [('actor', 1, 1), ('replay', 4, 1), ('learner', 7, 1), ('evaluator', 10, 1)],
        [(0, 1), (1, 2), (2, 0), (2, 3)],
        [('one thread', 0, 0, 11.8, 2.2)],
    ),
    'program': (
        [
            ('actor 0', 1, 3.4),
            ('actor 1', 1, 1),
            ('replay', 4, 2.2),
            ('learner', 7, 2.2),
            ('evaluator', 10, 3.4),
            ('coordinator', 10, 1),
        ],
        [(0, 2), (1, 2), (2, 3), (3, 0), (3, 1), (3, 4)],
        [],
    ),
    'shards': (
        [
            ('actor 0', 1, 3.4),
            ('actor 1', 1, 1),
            ('replay 0', 4, 3.4),
            ('replay 1', 4, 1),
            ('learner', 7, 2.2),
            ('evaluator', 10, 2.2),
        ],
        [(0, 2), (1, 3), (2, 4), (3, 4), (4, 0), (4, 1), (4, 5)],
        [],
    ),
    'together': (
        [
            ('actor 0', 1, 3.4),
            ('actor 1', 1, 1),
            ('replay', 4, 2.2),
            ('learner', 7, 2.2),
            ('evaluator', 10, 2.2),
        ],
        [(0, 2), (1, 2), (2, 3), (3, 0), (3, 1), (3, 4)],
        [('one process: replay = learner', 3, 1.2, 5.8, 2.4)],
    ),
    'central': (
        [
            ('actor 0', 1, 3.4),
            ('actor 1', 1, 1),
            ('inference', 4, 2.2),
            ('replay', 7, 3.4),
            ('learner', 10, 2.2),
        ],
        [(0, 2), (1, 2), (2, 0), (2, 1), (0, 3), (1, 3), (3, 4), (4, 2)],
        [],
    ),
}


def draw(name: str) -> pathlib.Path:
    """Draws one picture; returns its path."""
    boxes, arrows, frames = PICTURES[name]
    figure = figure_lib.Figure(figsize=(7, 3), layout='constrained')
    axes = figure.subplots()
    for text, x, y, width, height in frames:
        axes.add_patch(
            patches.Rectangle((x, y), width, height, fill=False, linestyle='--')
        )
        axes.text(x + 0.1, y + height + 0.1, text, fontsize=9, color='#555555')
    for begin, end in arrows:
        (_, x0, y0), (_, x1, y1) = boxes[begin], boxes[end]
        forth = x1 > x0
        # Forth in the boxes' upper half, back in the lower, so that both are seen.
        shift = 0.15 if forth else -0.25
        axes.annotate(
            '',
            (x1 - 0.8 if forth else x1 + 0.8, y1 + shift),
            (x0 + 0.8 if forth else x0 - 0.8, y0 + shift),
            arrowprops={'arrowstyle': '->', 'color': '#333333'},
            zorder=1,
        )
    for text, x, y in boxes:
        colour = _COLOURS[text.split()[0]]
        axes.add_patch(
            patches.FancyBboxPatch(
                (x - 0.75, y - 0.35),
                *(1.5, 0.7),
                boxstyle='round,pad=0.05',
                facecolor=colour,
                zorder=2,  # Above arrows that pass.
            )
        )
        axes.text(x, y, text, ha='center', va='center', fontsize=9, zorder=3)
    axes.set(xlim=(-0.1, 12), ylim=(-0.2, 4.4), aspect='equal')
    axes.axis('off')
    matplotlib.rcParams['svg.hashsalt'] = 'repertory'  # The same file each time.
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f'{name}.svg'
    figure.savefig(path, metadata={'Date': None})
    return path


if __name__ == '__main__':
    for picture in PICTURES:
        print(draw(picture))
