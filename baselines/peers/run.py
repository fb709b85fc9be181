"""Runs a peer beside a baseline: `python -m baselines.peers.run apex_dqn_catch`.

`results/NAME/` receives a CSV of each seed, `peers.json`, and `peers.png`, in which the
baseline's own seeds are drawn too. A peer's environment is made by its script first.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import subprocess
from typing import Any

from baselines import run

ROOT = pathlib.Path(__file__).parents[2]


@dataclasses.dataclass(frozen=True)
class Peer:
    """Another toolkit's agent: its name, its virtual environment and its module."""

    label: str
    environment: str
    module: str

    @property
    def python(self) -> pathlib.Path:
        return ROOT / 'build' / f'peer-{self.environment}' / 'bin' / 'python'


# By baseline.
PEERS = {
    'apex_dqn_catch': Peer(
        label='dm-acme 0.4.0, DQN',
        environment='acme',
        module='baselines.peers.acme_dqn_catch',
    ),
    'apex_dqn_cartpole': Peer(
        label='Stable-Baselines3 2.7.0, DQN',
        environment='sb3',
        module='baselines.peers.sb3_dqn_cartpole',
    ),
}


def run_peer(name: str, seeds: list[int]) -> None:
    """Runs a baseline's peer with all seeds, and writes what came of it."""
    from repertory.launch import provenance

    peer, target = PEERS[name], run.load(name).TARGET
    if not peer.python.exists():
        raise SystemExit(
            f'{peer.python} must exist, got none; run sh benchmarks/peers/'
            f'{peer.environment}/setup_peer.sh first.'
        )
    folder = run.RESULTS / name
    path = folder / 'peers.json'
    rows = json.loads(path.read_text())['seeds'] if path.exists() else []
    for seed in seeds:
        source = provenance.describe_source(but_for=run.RESULTS)
        csv = folder / f'peer_seed_{seed}.csv'
        command = [str(peer.python), '-m', peer.module, str(seed), str(csv)]
        subprocess.run(command, check=True, cwd=ROOT)
        row = {'seed': seed, **run.summarize(csv, target), **source}
        rows = [other for other in rows if other['seed'] != seed] + [row]
        rows.sort(key=lambda row: row['seed'])
        record = {
            'peer': peer.label,
            'command': f'python -m baselines.peers.run {name}',
            'seeds': rows,
        }
        path.write_text(json.dumps(record, indent=1) + '\n')
        draw(folder, record, target)
        print(f'{name} {peer.label}: {row}', flush=True)


def draw(folder: pathlib.Path, record: dict[str, Any], target: float) -> None:
    """Draws the baseline's first variant and its peer."""
    from repertory.launch import curves, plots

    [variant, *_] = run.load(folder.name).VARIANTS
    patterns = {
        f'repertory, {variant}': f'{variant}_seed_*.csv',
        record['peer']: 'peer_seed_*.csv',
    }
    groups = {
        label: [curves.read_curve(path) for path in sorted(folder.glob(pattern))]
        for label, pattern in patterns.items()
    }
    plots.plot_groups(groups, folder / 'peers.png', folder.name, target=target)


def main() -> None:
    parser = argparse.ArgumentParser(description='Runs a peer beside a baseline.')
    parser.add_argument('name', choices=PEERS)
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2])
    args = parser.parse_args()
    run_peer(args.name, args.seeds)


if __name__ == '__main__':
    main()
