"""Re-makes a baseline: `python -m baselines.run apex_dqn_catch`.

A baseline is a module of this folder with

    TARGET: float                 the return to be reached
    VARIANTS: dict[str, make]     make(seed) -> (ExperimentConfig, Topology)
    NUM_SEEDS: int                how many are run; 5 if left out
    measure(run_dir) -> dict      of what else is recorded for a seed; may be left out

of which the first variant is the baseline and the others are controls. Each variant
and seed runs in one thread of a process of its own. `results/NAME/` receives the
evaluator's CSV of each, a picture for each variant, and `result.json` with the
command and the configs, and of each seed the commit and the hardware. Seeds and
variants that are not run stay as they are. `python -m baselines.report` puts all
results into README.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

RESULTS = pathlib.Path(__file__).parent / 'results'


def run_seed(name: str, variant: str, seed: int, run_dir: pathlib.Path) -> None:
    """Runs one variant with one seed in this process."""
    from repertory.launch import local

    baseline = load(name)
    experiment, topology = baseline.VARIANTS[variant](seed)
    local.run_experiment(experiment, topology, run_dir)


def load(name: str) -> Any:
    """Returns a baseline's module."""
    return importlib.import_module(f'baselines.{name}')


def summarize(evaluator: pathlib.Path, target: float) -> dict[str, Any]:
    """Returns of a CSV the last and best return, and what it took to reach `target`.

    What an untrained policy returns does not count as reaching it.
    """
    from repertory.launch import curves

    steps, returns = curves.read_curve(evaluator)
    seconds, _ = curves.read_curve(evaluator, x='seconds')
    learner_steps, _ = curves.read_curve(evaluator, x='learner_steps')
    reached = np.flatnonzero((returns >= target) & (learner_steps > 0))
    return {
        'final_return': float(returns[-1]),
        'best_return': float(max(returns)),
        'actor_steps_to_target': int(steps[reached[0]]) if reached.size else None,
        'actor_steps': int(steps[-1]),
        'seconds': float(seconds[-1]),
    }


def run_baseline(
    name: str,
    seeds: list[int],
    variants: list[str],
    results: pathlib.Path = RESULTS,
) -> None:
    """Runs all seeds of the variants, and writes `results`/NAME/ after each."""
    from repertory.launch import provenance

    baseline = load(name)
    folder = results / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / 'result.json'
    record = json.loads(path.read_text()) if path.exists() else {'variants': {}}
    record['command'] = f'python -m baselines.run {name}'
    record['target'] = baseline.TARGET
    for variant in variants:
        part = record['variants'].setdefault(variant, {'seeds': []})
        for seed in seeds:
            # Of what is run: that earlier seeds have changed results does not count.
            source = provenance.describe_source(but_for=RESULTS)
            with tempfile.TemporaryDirectory() as scratch:
                run_dir = pathlib.Path(scratch) / 'run'
                command = [sys.executable, '-m', 'baselines.run', name]
                command += ['--one', variant, str(seed), str(run_dir)]
                subprocess.run(command, check=True)
                evaluator = run_dir / 'csv' / 'evaluator.csv'
                row = {'seed': seed, **summarize(evaluator, baseline.TARGET), **source}
                if hasattr(baseline, 'measure'):
                    row |= baseline.measure(run_dir)
                csv = folder / f'{variant}_seed_{seed}.csv'
                shutil.copy(evaluator, csv)
                config = json.loads((run_dir / 'config.json').read_text())
                del config['seed']
            if part.get('config') != config:
                # Nor are their curves to be drawn beside a peer's.
                for other in part['seeds']:
                    print(f'{name} {variant}: seed {other["seed"]} had another config')
                    if other['seed'] != seed:
                        stale = folder / f'{variant}_seed_{other["seed"]}.csv'
                        stale.unlink(missing_ok=True)
                part |= {'config': config, 'seeds': []}
            others = [other for other in part['seeds'] if other['seed'] != seed]
            part['seeds'] = sorted([*others, row], key=lambda row: row['seed'])
            path.write_text(json.dumps(record, indent=1) + '\n')
            draw(folder, variant, part['seeds'], baseline.TARGET)
            print(f'{name} {variant}: {row}', flush=True)


def draw(
    folder: pathlib.Path, variant: str, rows: list[dict[str, Any]], target: float
) -> None:
    """Draws the curves of all of a variant's seeds."""
    from repertory.launch import curves, plots

    plots.plot_seeds(
        [
            curves.read_curve(folder / f'{variant}_seed_{row["seed"]}.csv')
            for row in rows
        ],
        folder / f'{variant}.png',
        f'{folder.name}: {variant}, {len(rows)} seeds',
        target=target,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description='Re-makes a baseline.')
    parser.add_argument('name', help='a module of baselines/')
    parser.add_argument('--seeds', type=int, nargs='+', help="default: the baseline's")
    parser.add_argument('--variants', nargs='+', help='default: all')
    parser.add_argument('--one', nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        variant, seed, run_dir = args.one
        run_seed(args.name, variant, int(seed), pathlib.Path(run_dir))
        return
    baseline = load(args.name)
    seeds = args.seeds or list(range(getattr(baseline, 'NUM_SEEDS', 5)))
    run_baseline(args.name, seeds, args.variants or list(baseline.VARIANTS))


if __name__ == '__main__':
    main()
