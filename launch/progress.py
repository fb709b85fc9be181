"""The words of a run: its phases, budget, patience, rates and status file."""

from __future__ import annotations

import collections
import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from repertory.launch import experiment as experiment_lib

# In this order; none is gone back to.
# run: all work.  drain: actors, and learners after the first, stop, flush and close.
# save: the learner writes its last checkpoint.  final_evaluation: the evaluator runs
# the last parameters.  exit: everybody returns.
PHASES = 'run', 'drain', 'save', 'final_evaluation', 'exit'

_WINDOW_SECONDS = 15.0


def group_of(role: str) -> str:
    """Returns `actor` for `actor_3`, and `learner` for itself."""
    head, _, tail = role.rpartition('_')
    return head if head and tail.isdigit() else role


def ends_in(role: str) -> str:
    """Returns the phase that waits until `role` has done its part; '' for none.

    A learner after the first does so before that one saves: the priorities that it
    writes back are to be in the replay that is saved.
    """
    if role == 'learner':
        return 'save'
    ends = {'actor': 'drain', 'learner': 'drain', 'evaluator': 'final_evaluation'}
    return ends.get(group_of(role), '')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Patience:
    """Seconds until a node that does not answer fails the run, by what it is to do."""

    start: float = 300.0
    answer: float = 60.0
    drain: float = 60.0
    save: float = 600.0
    final_evaluation: float = 3600.0
    exit: float = 5.0

    def lost_with(self, node: NodeState | None, now: float, begin: float) -> str:
        """Returns for how long a node has been silent, in words; '' if not too long."""
        if node is None and now - begin > self.start:
            return f'has not started for {now - begin:.0f} s'
        if node and now - node.last_seen > self.answer:
            return f'has not answered for {now - node.last_seen:.0f} s'
        return ''


STANDARD = Patience()
# Where nodes are started again, which takes longest on another machine.
RESTARTING = Patience(answer=240.0)
ENDLESS = Patience(**{field.name: math.inf for field in dataclasses.fields(Patience)})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """What ends the run, at the first that is reached; None for no limit.

    Attributes:
        actor_steps: environment steps of all actors.
        learner_steps: learner steps.
        seconds: wall clock, that before a resume included.
        target_return: mean return of two evaluations in a row, by one evaluator.
    """

    actor_steps: int | None = None
    learner_steps: int | None = None
    seconds: float | None = None
    target_return: float | None = None

    def grant(self, wanted: int, group: str, spent: int) -> int:
        """Returns how many of `wanted` steps of actors or learners may be done."""
        limit = {'actor': self.actor_steps, 'learner': self.learner_steps}.get(group)
        return wanted if limit is None else max(0, min(wanted, limit - spent))

    def spent(self, counts: Mapping[str, float]) -> str:
        """Returns which count has reached its limit, in words; '' if none has."""
        for name in 'actor_steps', 'learner_steps', 'seconds':
            limit = getattr(self, name)
            if limit is not None and counts.get(name, 0) >= limit:
                return f'max_{name} of {limit:g} reached'
        return ''

    def reached(self, nodes: Mapping[str, NodeState]) -> str:
        """Returns what evaluation has reached the target, in words; '' if none has."""
        for role, node in nodes.items():
            value = node.metrics.get('lower_of_two_returns')
            if self.target_return is None or value is None:
                continue
            if group_of(role) == 'evaluator' and value >= self.target_return:
                return f'target_return of {self.target_return:g} reached: {value:g}'
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


@dataclasses.dataclass
class NodeState:
    """What is known of one role."""

    last_seen: float
    incarnation: str
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    lease: int = 0  # Steps granted that it has not yet counted.
    metrics: dict[str, Any] = dataclasses.field(default_factory=dict)
    waits_for: str = ''
    done: bool = False
    leaves: bool = False  # It hears nothing further, or has been told to exit.

    def describe(self, now: float) -> dict[str, Any]:
        """Returns what a display shows, and what `restore` needs."""
        return {
            'silent_seconds': round(now - self.last_seen, 1),
            'waits_for': self.waits_for,
            'metrics': dict(self.metrics),
            'incarnation': self.incarnation,
            'counts': dict(self.counts),
            'lease': self.lease,
            'done': self.done,
            'leaves': self.leaves,
        }

    @classmethod
    def restore(cls, now: float, saved: Mapping[str, Any]) -> NodeState:
        """Returns what `describe` described, as if it had been heard just now."""
        names = 'incarnation', 'counts', 'lease', 'metrics', 'done', 'leaves'
        return cls(last_seen=now, **{name: saved[name] for name in names})


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
