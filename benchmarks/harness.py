"""Runs two sides in turn, in processes of their own, and keeps what they measured."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks import records
from benchmarks.own import configs

OWN_PYTHON = sys.executable
PEERS = {'acme': 'dm-acme 0.4.0', 'sb3': 'Stable-Baselines3 2.7.0'}
AGENTS = ('apex_dqn', 'r2d2', 'impala', 'd4pg')
# What the names of results leave out.
DEFAULTS: dict[str, float] = {'units': 64, 'lanes': 16, 'items': 1_000}
DEFAULTS |= {'updates_per_call': 4, 'period_seconds': 2.0}
_START_SECONDS = 300.0
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Has the kernel kill this process with the thread that started it.

    In a child before its program, since a peer's has nothing of this package.
    """
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def peer_python(name: str) -> str:
    """Returns the Python of a peer's environment, which is made if it is absent.

    Raises:
        RuntimeError: if it cannot be made, with the last line of the attempt.
    """
    script = records.ROOT / 'benchmarks' / 'peers' / name / 'setup_peer.sh'
    said = ['nothing was said']
    with subprocess.Popen(
        ['sh', str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=die_with_parent,
    ) as setup:
        assert setup.stdout is not None
        for line in setup.stdout:
            print(line, end='', flush=True)
            said += [line.strip()] if line.strip() else []
    if setup.returncode:
        raise RuntimeError(f'{PEERS[name]} could not be made by {script}: {said[-1]}')
    return str(records.ROOT / 'build' / f'peer-{name}' / 'bin' / 'python')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two that are compared.

    Attributes:
        name: in results.
        command: what starts it, before the subcommand (`serve`, `act` ...).
        variables: of its environment, beside those of this process.
    """

    name: str
    command: Sequence[str]
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)

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
                cwd=records.ROOT,
                env={**_environment(), **self.variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                preexec_fn=die_with_parent,
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

    def run(
        self, subcommand: str, options: Sequence[str], timeout_seconds: float
    ) -> dict[str, Any]:
        """Returns what the process measured.

        Raises:
            RuntimeError: if it fails, with what it wrote last.
        """
        done = subprocess.run(
            [*self.command, subcommand, *options],
            cwd=records.ROOT,
            env={**_environment(), **self.variables},
            capture_output=True,
            text=True,
            preexec_fn=die_with_parent,
            timeout=_START_SECONDS + timeout_seconds,
        )
        if done.returncode:
            raise RuntimeError(f'{self.name} failed:\n{done.stderr[-4000:]}')
        return json.loads(done.stdout.strip().splitlines()[-1])


def own_side(script: str, flags: Sequence[str]) -> Side:
    """Returns ours, benchmarks/own/SCRIPT.py, with the variables of programs' nodes."""
    return Side(
        name='repertory',
        command=[OWN_PYTHON, '-m', f'benchmarks.own.{script}', *flags],
        variables=configs.process_variables(flags),
    )


def peer_side(
    args: argparse.Namespace, peer: str, script: str, flags: Sequence[str]
) -> Side:
    """Returns the peer's, benchmarks/peers/PEER/SCRIPT.py in its own environment."""
    return Side(
        name=PEERS[peer],
        command=[peer_python(peer), f'benchmarks/peers/{peer}/{script}.py', *flags],
        variables=records.peer_variables(args.peer_allocator),
    )


def agent_flags(args: argparse.Namespace, agent: str) -> list[str]:
    """Returns the options of `__main__` that both sides take."""
    frames = ['--frames'] if args.frames else []
    return ['--agent', agent, '--units', str(args.units), *frames]


def agent_name(args: argparse.Namespace, agent: str) -> str:
    """Returns the agent with its sizes, for the name of results."""
    units = f'_{args.units}' if agent in ('r2d2', 'impala') and not args.frames else ''
    return agent + units + ('_frames' if args.frames else '')


def variant(args: argparse.Namespace, *options: str) -> str:
    """Returns what tells results of other than the default options from theirs."""
    chosen = {name: getattr(args, name) for name in options}
    return ''.join(
        f'_{name}' if value is True else f'_{name}_{value}'
        for name, value in chosen.items()
        if value != DEFAULTS.get(name, False)
    )


def timing_flags(args: argparse.Namespace, pair: int) -> list[str]:
    """Returns how long to measure, and the seed of a pair."""
    return [
        *('--seconds', str(args.seconds)),
        *('--warm-up-seconds', str(args.warm_up_seconds)),
        *('--seed', str(args.seed + pair)),
    ]


def compare(
    args: argparse.Namespace,
    name: str,
    unit: str,
    sides: tuple[Side, Side],
    run: Callable[[Side, int], dict],
    key: str = 'steps_per_second',
) -> dict[str, Any]:
    """Runs both sides in turn, and returns and writes what they measured.

    Args:
        args: of `__main__`.
        name: of the results.
        unit: of what is compared.
        sides: ours and the other.
        run: measures one side once, given the number of the pair.
        key: what is compared of the measured.
    """

    def run_one(side: Side, pair: int) -> dict:
        result = run(side, pair)
        print(f'{name}: {side.name}: {result[key]:.4g} {unit}', flush=True)
        return result

    first, second = sides
    pairs = run_pairs(
        args.pairs,
        lambda pair: run_one(first, pair),
        lambda pair: run_one(second, pair),
    )
    return summarize(args, name, unit, sides, pairs, key)


def summarize(
    args: argparse.Namespace,
    name: str,
    unit: str,
    sides: tuple[Side, Side],
    pairs: Sequence[tuple[dict, dict]],
    key: str,
    limit: float | None = None,
) -> dict[str, Any]:
    """Returns and writes what `compare` returns, of pairs that were run.

    Args:
        args, name, unit, sides, key: of `compare`.
        pairs: what both sides measured.
        limit: the value of those that were ended before they were done.
    """
    first, second = sides
    values = {
        'unit': unit,
        'first': first.name,
        'second': second.name,
        'versions': {side.name: records.versions(side.command[0]) for side in sides},
        **summary([(a[key], b[key]) for a, b in pairs], limit),
        'pairs': pairs,
    }
    records.write(name, args.seed, values, args.results)
    return {'name': name, **values}


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


def summary(
    rates: Sequence[tuple[float, float]], limit: float | None = None
) -> dict[str, Any]:
    """Returns medians of both sides and of their ratio, first over second.

    With a `limit`, also how many of each side had it, for whom it is a bound.
    """
    ratios = [first / second for first, second in rates]
    found = {
        'median_first': statistics.median(first for first, _ in rates),
        'median_second': statistics.median(second for _, second in rates),
        'median_ratio': statistics.median(ratios),
        'min_ratio': min(ratios),
        'max_ratio': max(ratios),
    }
    if limit is not None:
        found['limit'] = limit
        found['ended_by_limit'] = [
            sum(value >= limit for value in side) for side in zip(*rates, strict=True)
        ]
    return found


def _environment() -> dict[str, str]:
    environment = {
        **os.environ,
        'TF_CPP_MIN_LOG_LEVEL': '2',
        'CUDA_VISIBLE_DEVICES': '-1',
    }
    # Peers' scripts import what both sides step.
    environment['PYTHONPATH'] = str(records.ROOT)
    # Importing TensorFlow takes four times as long where bytecode may not be kept.
    environment.pop('PYTHONDONTWRITEBYTECODE', None)
    return environment
