"""How our speeds grow: with lanes, actors, batch, observation size and replay size.

Ape-X DQN on Catch, or where the observation's size changes, on random arrays. There is
nothing to compare with: each line is a median of its own.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from concurrent import futures

from benchmarks import harness, records

_LANES = 1, 4, 16, 64, 128
_ACTORS = 1, 2, 4
_BATCHES = 32, 128, 512
_SIZES = 16, 256, 4_096  # float32 of an observation.
_ITEMS = 1_000, 30_000, 1_000_000


def run(args: argparse.Namespace) -> list[dict]:
    """Measures our side alone."""

    def own(script: str, *flags: object) -> harness.Side:
        return harness.own_side(script, ['--lanes', '16', *map(str, flags)])

    def learn(*flags: object) -> Callable[[int], float]:
        side = own('learner', '--data', 'replay', *flags)
        return lambda pair: _rate(side, 'learn', args, pair)

    def sample(*flags: object) -> Callable[[int], float]:
        side = own('learner', '--data', 'replay', *flags)
        return lambda pair: _rate(side, 'sample', args, pair)

    steps, learned, batches = 'environment steps/s', 'learner steps/s', 'batches/s'
    cases: list[tuple[str, str, Callable[[int], float]]] = []
    for lanes in _LANES:
        act = _acting(own('actor', '--lanes', lanes), 1, args)
        cases.append((f'growth_lanes_{lanes}', steps, act))
    for actors in _ACTORS:
        cases.append(
            (f'growth_actors_{actors}', steps, _acting(own('actor'), actors, args))
        )
    for size in _BATCHES:
        cases.append((f'growth_batch_{size}', learned, learn('--batch-size', size)))
    for size in _SIZES:
        flags = '--observation-size', size
        cases.append((f'growth_observation_{size}', learned, learn(*flags)))
    for items in _ITEMS[:1] if args.quick else _ITEMS:
        # More lanes fill a large table sooner.
        flags = '--items', items, '--lanes', 128
        cases.append((f'growth_replay_{items}', batches, sample(*flags)))
    return [measure(args, *case) for case in cases]


def measure(
    args: argparse.Namespace, name: str, unit: str, once: Callable[[int], float]
) -> dict:
    """Returns and writes the median of what `once` returns for each pair's number."""
    found = [once(pair) for pair in range(args.pairs)]
    values = {
        'unit': unit,
        'median_first': statistics.median(found),
        'runs': found,
    }
    records.write(name, args.seed, values, args.results)
    print(f'{name}: {values["median_first"]:.4g} {unit}', flush=True)
    return {'name': name, **values}


def _rate(side: harness.Side, subcommand: str, args, pair: int) -> float:
    result = side.run(subcommand, harness.timing_flags(args, pair), 600.0)
    return result['steps_per_second']


def _acting(side: harness.Side, num_actors: int, args) -> Callable[[int], float]:
    def once(pair: int) -> float:
        with side.serve() as server, futures.ThreadPoolExecutor() as pool:
            options = ['--address', server['address']]
            options += harness.timing_flags(args, pair)
            acting = [
                pool.submit(side.run, 'act', options, args.seconds)
                for _ in range(num_actors)
            ]
            return sum(one.result()['steps_per_second'] for one in acting)

    return once
