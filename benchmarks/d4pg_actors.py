"""Wall time in which D4PG learns Pendulum-v1 with 1 and with 4 actor processes.

Each environment step also sleeps, as a slow simulator would keep its caller waiting,
so that two cores can show what more actors bring. The time counts from the first
environment step until the last ten episodes, exploring, have the mark as their mean.
Where evaluations reach -200, exploring costs another 300 to 450.

    python -m benchmarks.d4pg_actors
"""

from __future__ import annotations

import argparse
import functools
import statistics
import tempfile
import time

import dm_env
import numpy as np

from benchmarks import harness
from repertory.agents import d4pg
from repertory.components.environments import registry
from repertory.components.environments.wrappers import base
from repertory.launch import experiment, launcher, plots, program, run_folder

_WINDOW = 10


class Slow(base.EnvironmentWrapper):
    """Sleeps at each step."""

    def __init__(self, environment: dm_env.Environment, seconds: float):
        super().__init__(environment)
        self._seconds = seconds

    def step(self, action) -> dm_env.TimeStep:
        time.sleep(self._seconds)
        return self._environment.step(action)


def make_environment(seed: int, sleep_seconds: float) -> dm_env.Environment:
    return Slow(registry.make_environment('gym:Pendulum-v1', seed), sleep_seconds)


def measure(num_actors: int, args: argparse.Namespace, seed: int) -> dict:
    """Returns seconds and environment steps to the mark; None if it was not reached."""
    config = experiment.ExperimentConfig(
        agent=d4pg.PENDULUM,
        environment=functools.partial(
            make_environment, sleep_seconds=args.sleep_seconds
        ),
        seed=seed,
        max_actor_steps=args.max_actor_steps,
        logging=experiment.LoggingConfig(tensorboard=False, period_seconds=0.1),
    )
    topology = experiment.Topology(
        num_actors=num_actors, envs_per_actor=1, evaluators=0
    )
    with tempfile.TemporaryDirectory() as scratch:
        run_dir = f'{scratch}/run'
        run_folder.open_folder(config, topology, run_dir)
        run = launcher.launch(
            program.make_program(config, topology, run_dir),
            'processes',
            run_dir,
            program.process_environments(topology),
        )
        run.wait().check()
        curves = []
        for index in range(num_actors):
            path = f'{run_dir}/csv/actor_{index}.csv'
            columns = [plots.read_curve(path, x) for x in ('seconds', 'actor_steps')]
            curves.append(np.stack([columns[0][0], columns[1][0], columns[0][1]]))
    seconds, steps, returns = np.concatenate(curves, axis=1)
    order = np.argsort(seconds, kind='stable')
    means = np.convolve(returns[order], np.ones(_WINDOW) / _WINDOW, 'valid')
    reached = np.flatnonzero(means >= args.mark)
    # The first episode's 200 steps took no longer than sleeping did, or a little.
    start = seconds.min() - 200 * args.sleep_seconds
    last = order[_WINDOW - 1 :][reached[0]] if len(reached) else None
    return {
        'num_actors': num_actors,
        'seed': seed,
        'seconds': None if last is None else float(seconds[last] - start),
        'actor_steps': None if last is None else int(steps[last]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--sleep-seconds', type=float, default=0.015)
    parser.add_argument('--mark', type=float, default=-650.0)
    parser.add_argument('--max-actor-steps', type=int, default=9_000)
    parser.add_argument('--pairs', type=int, default=1)
    parser.add_argument('--seed', type=int, default=0)
    args = parser.parse_args()

    def run(num_actors: int, pair: int) -> dict:
        result = measure(num_actors, args, args.seed + pair)
        print(result, flush=True)
        return result

    pairs = harness.run_pairs(
        args.pairs, lambda pair: run(4, pair), lambda pair: run(1, pair)
    )
    if any(side['seconds'] is None for pair in pairs for side in pair):
        raise SystemExit(
            f'the mark of {args.mark:g} was not reached by all; see above.'
        )
    ratios = [four['seconds'] / one['seconds'] for four, one in pairs]
    values = {
        'unit': 'seconds to the mark',
        'mark': args.mark,
        'sleep_seconds': args.sleep_seconds,
        'first': '4 actors',
        'second': '1 actor',
        'pairs': pairs,
        'median_ratio': statistics.median(ratios),
    }
    path = harness.write('d4pg_actors', args.seed, values)
    print(f'{values["median_ratio"]:.2f} of the time of 1 actor; written to {path}')


if __name__ == '__main__':
    main()
