"""How fast a run goes, when it will end, and the file that says so."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from repertory.launch import experiment as experiment_lib

_WINDOW_SECONDS = 15.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """What ends the run, at the first that is reached; None for no limit.

    Attributes:
        actor_steps: environment steps of all actors.
        learner_steps: learner steps.
        seconds: wall clock, that before a resume included.
        target_return: mean return of one evaluation.
    """

    actor_steps: int | None = None
    learner_steps: int | None = None
    seconds: float | None = None
    target_return: float | None = None

    def limit(self, group: str) -> int | None:
        """Returns the steps that `actor` or `learner` nodes may do in all."""
        return {'actor': self.actor_steps, 'learner': self.learner_steps}.get(group)

    def spent(self, counts: Mapping[str, float]) -> str:
        """Returns which count has reached its limit, in words; '' if none has."""
        for name in 'actor_steps', 'learner_steps', 'seconds':
            limit = getattr(self, name)
            if limit is not None and counts.get(name, 0) >= limit:
                return f'max_{name} of {limit:g} reached'
        return ''

    def seconds_left(
        self, counts: Mapping[str, float], rates: Mapping[str, float]
    ) -> float | None:
        """Returns when the first count will reach its limit; None if unknown."""
        left = [] if self.seconds is None else [self.seconds - counts['seconds']]
        for name in 'actor_steps', 'learner_steps':
            limit = getattr(self, name)
            if limit is not None and rates.get(name, 0) > 0:
                left.append((limit - counts.get(name, 0)) / rates[name])
        return max(0.0, min(left)) if left else None


def budget_of(experiment: experiment_lib.ExperimentConfig) -> Budget:
    """Returns what ends a run of `experiment`."""
    return Budget(
        actor_steps=experiment.max_actor_steps,
        learner_steps=experiment.max_learner_steps,
        seconds=experiment.max_seconds,
        target_return=experiment.target_return,
    )


class Rates:
    """Counts per second over the last 15 seconds or so."""

    def __init__(self):
        self._history: collections.deque = collections.deque()

    def update(self, now: float, counts: Mapping[str, int]) -> dict[str, float]:
        """Takes the counts of `now`, and returns the rates by name."""
        self._history.append((now, dict(counts)))
        while len(self._history) > 2 and now - self._history[1][0] >= _WINDOW_SECONDS:
            self._history.popleft()
        before, old = self._history[0]
        if now <= before:
            return {}
        return {
            name: (value - old.get(name, 0)) / (now - before)
            for name, value in counts.items()
        }


def write(path: str | os.PathLike, status: Mapping[str, Any]) -> None:
    """Writes the status file; a reader never sees half of it."""
    path = pathlib.Path(path)
    partial = path.with_suffix('.partial')
    partial.write_text(json.dumps(status, indent=1, default=float))
    os.replace(partial, path)


def read(path: str | os.PathLike) -> dict[str, Any]:
    """Returns the status file's contents; {} while there is none."""
    try:
        return json.loads(pathlib.Path(path).read_text())
    except FileNotFoundError:
        return {}
