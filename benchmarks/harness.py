"""Runs two sides in turn, in processes of their own, and keeps what they measured."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / 'benchmarks' / 'results'
OWN_PYTHON = sys.executable
PEERS = {'acme': 'dm-acme 0.4.0'}
_START_SECONDS = 300.0


def peer_python(name: str) -> str:
    """Returns the Python of a peer's environment, which is made if it is absent."""
    subprocess.run(
        ['sh', str(ROOT / 'benchmarks' / 'peers' / name / 'setup_peer.sh')], check=True
    )
    return str(ROOT / 'build' / f'peer-{name}' / 'bin' / 'python')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two that are compared.

    Attributes:
        name: in results.
        command: what starts it, before the subcommand (`serve` or `act`).
    """

    name: str
    command: Sequence[str]

    @contextlib.contextmanager
    def serve(self) -> Iterator[dict[str, Any]]:
        """Runs the server for as long as the context is open.

        Yields:
            what it printed when it was ready, and, once the context is left, what it
            printed last.

        Raises:
            RuntimeError: if it ends without having said where it listens, with what it
                wrote last.
        """
        with tempfile.TemporaryFile('w+') as errors:
            process = subprocess.Popen(
                [*self.command, 'serve'],
                cwd=ROOT,
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            try:
                line = process.stdout.readline()
                if not line:
                    errors.seek(0)
                    raise RuntimeError(f'{self.name} failed:\n{errors.read()[-4000:]}')
                said = json.loads(line)
                yield said
                said.update(json.loads(process.communicate(timeout=60)[0]))
            finally:
                process.kill()
                process.wait()

    def act(self, options: Sequence[str], timeout_seconds: float) -> dict[str, Any]:
        """Returns what the actor measured.

        Raises:
            RuntimeError: if it fails, with what it wrote last.
        """
        done = subprocess.run(
            [*self.command, 'act', *options],
            cwd=ROOT,
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=_START_SECONDS + timeout_seconds,
        )
        if done.returncode:
            raise RuntimeError(f'{self.name} failed:\n{done.stderr[-4000:]}')
        return json.loads(done.stdout.strip().splitlines()[-1])


def own_side(script: str, flags: Sequence[str]) -> Side:
    """Returns ours, benchmarks/own/SCRIPT.py."""
    return Side(
        name='repertory', command=[OWN_PYTHON, '-m', f'benchmarks.own.{script}', *flags]
    )


def peer_side(peer: str, script: str, flags: Sequence[str]) -> Side:
    """Returns the peer's, benchmarks/peers/PEER/SCRIPT.py in its own environment."""
    path = f'benchmarks/peers/{peer}/{script}.py'
    return Side(name=PEERS[peer], command=[peer_python(peer), path, *flags])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what all comparisons of an agent's parts take."""
    agents = ('apex_dqn', 'd4pg', 'r2d2', 'impala')
    parser.add_argument('--agent', choices=agents, default='apex_dqn')
    parser.add_argument(
        '--frames', action='store_true', help="observations of Atari's shapes"
    )
    parser.add_argument(
        '--units', type=int, default=64, help='of recurrent networks on Catch'
    )
    parser.add_argument('--pairs', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=10.0)
    parser.add_argument('--seed', type=int, default=0)


def agent_flags(args: argparse.Namespace) -> list[str]:
    """Returns the options of `add_arguments` that both sides take."""
    frames = ['--frames'] if args.frames else []
    return ['--agent', args.agent, '--units', str(args.units), *frames]


def compare(
    args: argparse.Namespace,
    unit: str,
    own: Side,
    peer: Side,
    run: Callable[[Side, int], dict],
    suffix: str = '',
) -> None:
    """Runs both sides in turn and writes the results, named by script and agent."""
    pairs = run_pairs(
        args.pairs, lambda pair: run(own, pair), lambda pair: run(peer, pair)
    )
    rates = [(a['steps_per_second'], b['steps_per_second']) for a, b in pairs]
    values = {
        'unit': unit,
        'first': own.name,
        'second': peer.name,
        'pairs': pairs,
        **summary(rates),
    }
    frames = '_frames' if args.frames else ''
    script = pathlib.Path(sys.argv[0]).stem
    units = f'_{args.units}' if args.agent in ('r2d2', 'impala') else ''
    name = f'{script}_{args.agent}{units}{frames}{suffix}'
    path = write(name, args.seed, values)
    print(f'{values["median_ratio"]:.2f} times the peer; written to {path}')


def run_pairs(
    num_pairs: int, first: Callable[[int], dict], second: Callable[[int], dict]
) -> list[tuple[dict, dict]]:
    """Returns what `first` and `second` measured, run in turn, who begins changing.

    Args:
        num_pairs: at least 1.
        first, second: measure once, given the number of the pair.
    """
    pairs = []
    for index in range(num_pairs):
        results: dict[int, dict] = {}
        for side in (0, 1) if index % 2 == 0 else (1, 0):
            results[side] = (first, second)[side](index)
        pairs.append((results[0], results[1]))
    return pairs


def summary(rates: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Returns medians of both sides and of their ratio, first over second."""
    ratios = [first / second for first, second in rates]
    return {
        'median_first': statistics.median(first for first, _ in rates),
        'median_second': statistics.median(second for _, second in rates),
        'median_ratio': statistics.median(ratios),
        'min_ratio': min(ratios),
        'max_ratio': max(ratios),
    }


def write(name: str, seed: int, values: dict[str, Any]) -> pathlib.Path:
    """Writes results/NAME.json: the values, and what they were measured with."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f'{name}.json'
    module = pathlib.Path(sys.argv[0]).stem  # Not always the name of the results.
    record = {
        'command': ' '.join(['python', '-m', f'benchmarks.{module}', *sys.argv[1:]]),
        'commit': _git('rev-parse', 'HEAD'),
        'uncommitted_changes': bool(_git('status', '--porcelain', '-uno')),
        'date': time.strftime('%Y-%m-%d', time.gmtime()),
        'seed': seed,
        'hardware': hardware(),
        **values,
    }
    path.write_text(json.dumps(record, indent=1) + '\n')
    return path


def hardware() -> dict[str, Any]:
    """Returns processor, cores, memory in GiB, and how busy the machine was."""
    processor = platform.processor()
    for line in pathlib.Path('/proc/cpuinfo').read_text().splitlines():
        if line.startswith('model name'):
            processor = line.split(':', 1)[1].strip()
            break
    pages = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
    return {
        'processor': processor,
        'cores': len(os.sched_getaffinity(0)),
        'memory_gib': round(pages / 2**30, 1),
        'load_average_1_min': round(os.getloadavg()[0], 2),
        'python': platform.python_version(),
    }


def _environment() -> dict[str, str]:
    environment = {
        **os.environ,
        'TF_CPP_MIN_LOG_LEVEL': '2',
        'CUDA_VISIBLE_DEVICES': '-1',
    }
    # Peers' scripts import what both sides step.
    environment['PYTHONPATH'] = str(ROOT)
    # Importing TensorFlow takes four times as long where bytecode may not be kept.
    environment.pop('PYTHONDONTWRITEBYTECODE', None)
    return environment


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ['git', *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
