"""Runs benchmarks, ours and the peers' in turn, and prints a table of their medians.

    python -m benchmarks                              all of them
    python -m benchmarks actor learner --agent r2d2
    python -m benchmarks learner --data replay --quick

Each comparison writes `benchmarks/results/NAME.json`; README.md says what they measure.
"""

from __future__ import annotations

import argparse
import importlib
import pathlib

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


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Returns the options, shared by all benchmarks."""
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add('names', nargs='*', metavar='NAME', help=f'of {", ".join(NAMES)}; all if none')
    add('--quick', action='store_true', help='1 pair of 2 s, written to build/')
    add('--agent', nargs='+', choices=harness.AGENTS, default=harness.AGENTS)
    add('--frames', action='store_true', help="observations of Atari's shapes")
    add('--units', type=int, help='of recurrent networks on Catch')
    add('--lanes', type=int, help='of our actors')
    add('--data', nargs='+', choices=('memory', 'replay'), default=('memory', 'replay'))
    add('--items', type=int, help='that a learner has to sample')
    add('--updates-per-call', type=int, help='of ours')
    add(
        '--task',
        nargs='+',
        choices=('catch', 'cartpole'),
        default=('catch', 'cartpole'),
    )
    add('--launch', nargs='+', choices=_LAUNCHES, default=_LAUNCHES, help='of ours')
    add(
        '--replay',
        choices=('separate', 'learner'),
        default='learner',
        help='where it is, in a whole run of processes',
    )
    add('--limit-seconds', type=float, default=180.0, help='of a whole run')
    add('--pairs', type=int, default=3)
    add('--seconds', type=float, default=8.0)
    add('--warm-up-seconds', type=float, default=2.0)
    add('--seed', type=int, default=0)
    add('--results', type=pathlib.Path, default=records.RESULTS)
    parser.set_defaults(**harness.DEFAULTS)
    args = parser.parse_args(arguments)
    unknown = sorted(set(args.names) - set(NAMES))
    if unknown:
        parser.error(f'NAME must be of {", ".join(NAMES)}, got {", ".join(unknown)}.')
    if args.frames and 'd4pg' in args.agent:
        if args.agent is not harness.AGENTS:
            parser.error('--agent must be without d4pg where --frames is, got d4pg.')
        args.agent = tuple(name for name in harness.AGENTS if name != 'd4pg')
    if args.quick:
        args.pairs, args.seconds, args.warm_up_seconds = 1, 2.0, 1.0
        args.limit_seconds = min(args.limit_seconds, 30.0)
        args.results = records.ROOT / 'build' / 'benchmarks'
    return args


def main() -> None:
    args, rows = parse(), []
    for name in args.names or NAMES:
        rows += importlib.import_module(f'benchmarks.{name}').run(args)
    print(f'\n{records.table(rows)}\n\nwritten to {args.results}')


if __name__ == '__main__':
    main()
