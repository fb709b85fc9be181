"""How both sides time what they repeat; imported in the peers' environments as well."""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable

import numpy as np


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--seconds', type=float, default=10.0)
    parser.add_argument('--warm-up-seconds', type=float, default=2.0)


def add_mark_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what ends a whole run: `seconds`, or greedy evaluations with the mark."""
    parser.add_argument('--task', choices=('catch', 'cartpole'), required=True)
    parser.add_argument('--mark', type=float, help='mean return; none if not given')
    parser.add_argument('--episodes', type=int, default=10, help='of an evaluation')
    parser.add_argument('--period-seconds', type=float, default=2.0)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--seconds', type=float, default=300.0)


def measure(
    args: argparse.Namespace,
    step: Callable[[], int],
    end: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """Repeats `step` for a warm-up, then for `args.seconds`.

    Args:
        args: of `add_arguments`.
        step: returns how much it did.
        end: is called after the last step, in the time that is measured.

    Returns:
        steps, the calls of `step` that they took, the steps before these, seconds, the
        quotient of steps and seconds, and the seconds of the first step of all and of
        processor time, all threads together, that the measured ones took.
    """

    def run(seconds: float) -> tuple[int, int, float, float]:
        steps = calls = 0
        begin, busy = time.perf_counter(), time.process_time()
        while time.perf_counter() - begin < seconds:
            steps += step()
            calls += 1
        end()
        taken = time.perf_counter() - begin, time.process_time() - busy
        return steps, calls, *taken

    begin = time.perf_counter()
    first_steps = step()
    first_seconds = time.perf_counter() - begin
    earlier_steps, *_ = run(args.warm_up_seconds)
    steps, calls, seconds, busy_seconds = run(args.seconds)
    return {
        'steps': int(steps),
        'calls': calls,
        'earlier_steps': int(first_steps + earlier_steps),
        'seconds': seconds,
        'steps_per_second': steps / seconds,
        'first_seconds': first_seconds,
        'processor_seconds': busy_seconds,
        'peak_megabytes': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def report(result: dict) -> None:
    """Prints what was measured where the other process reads it."""
    print(json.dumps(result), flush=True)


UPDATE_PERIOD = 100  # Calls of `measure_waits` to one of which parameters are fetched.


def parameters() -> list[np.ndarray]:
    """Returns arrays as large as those of a small recurrent network: 2.3 MB."""
    shapes = (256, 1024), (256, 1024), (1024,), (256, 256), (256,), (256, 6), (6,)
    return [np.full(shape, 0.1, np.float32) for shape in shapes]


def measure_waits(
    args: argparse.Namespace, update: Callable[[], None]
) -> dict[str, float]:
    """Calls `update` every millisecond, and measures how long each call takes.

    Args:
        args: of `add_arguments`.
        update: what an actor calls after each of its steps.

    Returns:
        microseconds of a call, on average and the longest, and the number of calls.
    """
    taken: list[float] = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < args.warm_up_seconds + args.seconds:
        start = time.perf_counter()
        update()
        end = time.perf_counter()
        if start - begin >= args.warm_up_seconds:
            taken.append(end - start)
        # As an actor's own work would: without the interpreter, so that threads run.
        time.sleep(0.001)
    return {
        'microseconds_per_call': 1e6 * sum(taken) / len(taken),
        'longest_microseconds': 1e6 * max(taken),
        'calls': len(taken),
    }
