"""Runs benchmarks, ours and the peers' in turn, and prints a table of their medians.

    python -m benchmarks                              all of them
    python -m benchmarks actor learner --agent r2d2
    python -m benchmarks learner --data replay --quick

Each comparison writes `benchmarks/results/NAME.json`; README.md says what they measure.
"""

from __future__ import annotations

import argparse
import importlib
import math
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import harness, records

NAMES = (
    'environment',
    'actor',
    'adder',
    'sampler',
    'learner',
    'fetch',
    'whole',
    'impala',
    'growth',
    'memory',
)
_LAUNCHES = ('sync', 'threads', 'processes')
_FULL = {
    'pairs': 3,
    'seconds': 8.0,
    'warm_up_seconds': 2.0,
    'limit_seconds': 180.0,
    'results': records.RESULTS,
}
_QUICK = {
    'pairs': 1,
    'seconds': 2.0,
    'warm_up_seconds': 1.0,
    'limit_seconds': 30.0,
    'results': records.ROOT / 'build' / 'benchmarks',
}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Returns the options, shared by all benchmarks."""
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add('names', nargs='*', metavar='NAME', help=f'of {", ".join(NAMES)}; all if none')
    add('--quick', action='store_true', help=f'defaults are {_described(_QUICK)}')
    _add_variants(parser)
    count, natural = _at_least(int, 1), _at_least(int, 0)
    add('--pairs', type=count, help=f'times that each side is run{_default("pairs")}')
    seconds = 'that are measured, of each side' + _default('seconds')
    add('--seconds', type=_at_least(float, 0.1), help=seconds)
    warm_up = 'before those' + _default('warm_up_seconds')
    add('--warm-up-seconds', type=_at_least(float, 0), help=warm_up)
    period = 'between evaluations of a whole run (default: 2)'
    add('--period-seconds', type=_at_least(float, 0.1), help=period)
    limit = 'after which a whole run is ended' + _default('limit_seconds')
    add('--limit-seconds', type=_at_least(float, 1), help=limit)
    add('--seed', type=natural, default=0, help='of the first pair (default: 0)')
    results = 'folder for what was measured' + _default('results')
    add('--results', type=_folder, help=results)
    parser.set_defaults(**harness.DEFAULTS)
    args = parser.parse_args(arguments)
    unknown = sorted(set(args.names) - set(NAMES))
    if unknown:
        parser.error(f'NAME must be of {", ".join(NAMES)}, got {", ".join(unknown)}.')
    if args.frames and 'd4pg' in args.agent:
        if args.agent is not harness.AGENTS:
            parser.error('--agent must be without d4pg where --frames is, got d4pg.')
        args.agent = tuple(name for name in harness.AGENTS if name != 'd4pg')
    for name, value in (_QUICK if args.quick else _FULL).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    return args


def _add_variants(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say what is measured."""
    count, defaults = _at_least(int, 1), harness.DEFAULTS

    def choose(flag: str, choices: Sequence[str], text: str) -> None:
        text += ' (default: all)'
        parser.add_argument(
            flag, nargs='+', choices=choices, default=choices, help=text
        )

    def number(name: str, text: str) -> None:
        flag = f'--{name.replace("_", "-")}'
        text += f' (default: {defaults[name]})'
        parser.add_argument(flag, type=count, help=text)

    choose('--agent', harness.AGENTS, 'whose parts are measured')
    parser.add_argument(
        '--frames', action='store_true', help="observations of Atari's shapes"
    )
    number('units', 'of recurrent networks on Catch')
    number('lanes', 'of our actors')
    parser.add_argument(
        '--peer-allocator',
        action='store_true',
        help='peers too have the allocator that ours have',
    )
    choose('--data', ('memory', 'replay'), 'where a learner has its batches from')
    number('items', 'in the table that a learner samples')
    number('updates_per_call', 'of our learners')
    choose('--task', ('catch', 'cartpole'), 'of `environment` and of whole runs')
    choose('--launch', _LAUNCHES, 'of our whole runs')
    parser.add_argument(
        '--replay',
        choices=('separate', 'learner'),
        default='learner',
        help='where it is, in a whole run of processes (default: learner)',
    )


def _at_least(kind: Callable[[str], float], lowest: float) -> Callable[[str], float]:
    """Returns the type of an option that is a finite number of at least `lowest`."""

    def number(text: str) -> float:
        value = kind(text)
        if not lowest <= value < math.inf:
            raise argparse.ArgumentTypeError(
                f'must be finite and >= {lowest:g}, got {text}.'
            )
        return value

    return number


def _folder(text: str) -> pathlib.Path:
    path = pathlib.Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f'must be a folder, got {text}, a file.')
    return path


def _default(name: str) -> str:
    return f' (default: {_described({name: _FULL[name]}).partition(" ")[2]})'


def _described(defaults: Mapping[str, Any]) -> str:
    shown = {
        name: value.relative_to(records.ROOT) if name == 'results' else f'{value:g}'
        for name, value in defaults.items()
    }
    return ', '.join(
        f'--{name.replace("_", "-")} {value}' for name, value in shown.items()
    )


def main() -> None:
    args, rows = parse(), []
    try:
        for name in args.names or NAMES:
            rows += importlib.import_module(f'benchmarks.{name}').run(args)
    except KeyboardInterrupt:
        print('interrupted; what was compared whole is written.', file=sys.stderr)
        sys.exit(130)
    except RuntimeError as error:  # It tells what a side wrote last.
        sys.exit(f'benchmarks: {error}')
    print(f'\n{records.table(rows)}\n\nwritten to {args.results}')


if __name__ == '__main__':
    main()
