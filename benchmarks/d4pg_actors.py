"""Wall time in which D4PG learns Pendulum-v1 with 1 and with 4 actor processes.

Each environment step of an actor also sleeps, as a slow simulator would keep its caller
waiting, so that two cores can show what more actors bring. The time counts from the
first environment step until an evaluation, which does not sleep, has
the mark as its mean return.

    python -m benchmarks.d4pg_actors
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time

import dm_env
import numpy as np

from benchmarks import harness, records
from repertory.agents import d4pg
from repertory.components.environments import registry
from repertory.components.environments.wrappers import base
from repertory.launch import curves, experiment, launcher, program, run_folder

_SLEEP = 'BENCHMARK_SLEEP_SECONDS'


class Slow(base.EnvironmentWrapper):
    """Sleeps at each step."""

    def step(self, action) -> dm_env.TimeStep:
        time.sleep(float(os.environ[_SLEEP]))
        return self._environment.step(action)


def make_environment(seed: int) -> dm_env.Environment:
    """Returns Pendulum-v1, which is slow in the processes of actors alone."""
    environment = registry.make_environment('gym:Pendulum-v1', seed)
    return Slow(environment) if _SLEEP in os.environ else environment


def measure(num_actors: int, args: argparse.Namespace, seed: int) -> dict:
    """Returns seconds and environment steps to the mark; None if it was not reached."""
    config = experiment.ExperimentConfig(
        agent=d4pg.PENDULUM,
        environment=make_environment,
        seed=seed,
        max_actor_steps=args.max_actor_steps,
        target_return=args.mark,
        evaluation_episodes=10,
        evaluation_period_seconds=1.0,
        logging=experiment.LoggingConfig(tensorboard=False, period_seconds=0.1),
    )
    topology = experiment.Topology(num_actors=num_actors, envs_per_actor=1)
    with tempfile.TemporaryDirectory() as scratch:
        run_dir = f'{scratch}/run'
        run_folder.open_folder(config, topology, run_dir)
        environments = program.process_environments(config, topology)
        environments['actor'][_SLEEP] = str(args.sleep_seconds)
        run = launcher.launch(
            program.make_program(config, topology, run_dir),
            'processes',
            run_dir,
            environments,
        )
        run.wait().check()
        path = f'{run_dir}/csv/evaluator.csv'
        steps, returns = curves.read_curve(path)
        seconds, _ = curves.read_curve(path, 'seconds')
        starts = [
            curves.read_curve(f'{run_dir}/csv/actor_{i}.csv', 'seconds')[0].min()
            for i in range(num_actors)
        ]
    reached = np.flatnonzero(returns >= args.mark)
    # The first episode's 200 steps took no longer than sleeping did, or a little.
    start = min(starts) - 200 * args.sleep_seconds
    first = reached[0] if len(reached) else None
    return {
        'num_actors': num_actors,
        'seed': seed,
        'seconds': None if first is None else float(seconds[first] - start),
        'actor_steps': None if first is None else int(steps[first]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--sleep-seconds', type=float, default=0.015)
    parser.add_argument('--mark', type=float, default=-200.0)
    parser.add_argument('--max-actor-steps', type=int, default=20_000)
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
    path = records.write('d4pg_actors', args.seed, values)
    print(f'{values["median_ratio"]:.2f} of the time of 1 actor; written to {path}')


if __name__ == '__main__':
    main()
