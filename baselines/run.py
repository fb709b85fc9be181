"""Re-makes a baseline: `python -m baselines.run apex_dqn_catch`.

A baseline is a module of this folder with

    TARGET: float                 the return to be reached
    VARIANTS: dict[str, make]     make(seed) -> (ExperimentConfig, Topology)
    measure(run_dir) -> dict      of what else is recorded for a seed; may be left out

of which the first is the baseline and the others are controls. Each variant and seed
runs in one thread of a process of its own. `results/NAME/` receives the evaluator's
CSV of each, a picture for each variant, and `result.json` with the command, the
commit, the seeds and the hardware.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from typing import Any

RESULTS = pathlib.Path(__file__).parent / 'results'


def run_seed(name: str, variant: str, seed: int, run_dir: pathlib.Path) -> None:
    """Runs one variant with one seed in this process."""
    from repertory.launch import local

    baseline = importlib.import_module(f'baselines.{name}')
    experiment, topology = baseline.VARIANTS[variant](seed)
    local.run_experiment(experiment, topology, run_dir)


def summarize(run_dir: pathlib.Path, target: float) -> dict[str, Any]:
    """Returns the last and best return, and what it took to reach `target`."""
    from repertory.launch import plots

    evaluator = run_dir / 'csv' / 'evaluator.csv'
    steps, returns = plots.read_curve(evaluator)
    seconds, _ = plots.read_curve(evaluator, x='seconds')
    reached = [i for i, value in enumerate(returns) if value >= target]
    return {
        'final_return': float(returns[-1]),
        'best_return': float(max(returns)),
        'actor_steps_to_target': int(steps[reached[0]]) if reached else None,
        'actor_steps': int(steps[-1]),
        'seconds': float(seconds[-1]),
    }


def run_baseline(name: str, seeds: list[int], variants: list[str]) -> None:
    """Runs all seeds of the variants, and writes `results/NAME/`."""
    from repertory.launch import plots, run_folder

    baseline = importlib.import_module(f'baselines.{name}')
    folder = RESULTS / name
    folder.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {
        'command': f'python -m baselines.run {name}',
        'target': baseline.TARGET,
        'variants': {},
    }
    result = folder / 'result.json'
    if result.exists():  # Variants that are not run now stay.
        record['variants'] = json.loads(result.read_text())['variants']
    for variant in variants:
        curves, rows = [], []
        for seed in seeds:
            with tempfile.TemporaryDirectory() as scratch:
                run_dir = pathlib.Path(scratch) / 'run'
                command = [sys.executable, '-m', 'baselines.run', name]
                command += ['--one', variant, str(seed), str(run_dir)]
                subprocess.run(command, check=True)
                row = {'seed': seed, **summarize(run_dir, baseline.TARGET)}
                if hasattr(baseline, 'measure'):
                    row |= baseline.measure(run_dir)
                rows.append(row)
                csv = folder / f'{variant}_seed_{seed}.csv'
                shutil.copy(run_dir / 'csv' / 'evaluator.csv', csv)
                curves.append(plots.read_curve(csv))
                start = run_folder.open_run(run_dir).description()['starts'][0]
                source = {'commit': start['git'], 'host': start['host']}
            print(f'{name} {variant}: {rows[-1]}', flush=True)
        plots.plot_seeds(
            curves,
            folder / f'{variant}.png',
            f'{name}: {variant}, {len(seeds)} seeds',
            target=baseline.TARGET,
        )
        final = [row['final_return'] for row in rows]
        record['variants'][variant] = {
            'median_final_return': statistics.median(final),
            **source,
            'seeds': rows,
        }
        result.write_text(json.dumps(record, indent=1) + '\n')


def main() -> None:
    parser = argparse.ArgumentParser(description='Re-makes a baseline.')
    parser.add_argument('name', help='a module of baselines/')
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2])
    parser.add_argument('--variants', nargs='+', help='default: all')
    parser.add_argument('--one', nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        variant, seed, run_dir = args.one
        run_seed(args.name, variant, int(seed), pathlib.Path(run_dir))
        return
    baseline = importlib.import_module(f'baselines.{args.name}')
    run_baseline(args.name, args.seeds, args.variants or list(baseline.VARIANTS))


if __name__ == '__main__':
    main()
