"""The one that knows how far a run is, and when it ends: counts, budgets, phases."""

from __future__ import annotations

import collections
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from repertory.launch import progress

_STATUS_SECONDS = 1.0


class Coordinator:
    """Takes the heartbeats of all roles, and answers with the phase and a lease.

    Steps are leased ahead to whoever does them, so that nobody asks before each step
    and the budget is exceeded by at most one vector step (or learner call) a node.
    Counts arrive as totals, so that a heartbeat that comes twice counts once.

    Thread-safe. Nothing here blocks. `tick` must be called now and then where no
    heartbeat arrives, since it is what sees that time has passed.
    """

    def __init__(
        self,
        budget: progress.Budget,
        roles: Sequence[str],
        status_path: str | os.PathLike | None = None,
        patience: progress.Patience | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Begins the phase `run`.

        Args:
            budget: what ends the run.
            roles: names such as `actor_0`, `learner`, `evaluator`; a name that is not
                among them may report, and is not waited for.
            status_path: where `status` is written as JSON about each second.
            patience: time-outs; None for none, as where all runs in one thread.
            clock: seconds, for tests.
        """
        self._budget = budget
        self._roles = tuple(roles)
        self._status_path = status_path
        self._patience = patience or progress.ENDLESS
        self._clock = clock
        self._lock = threading.RLock()
        self._nodes: dict[str, progress.NodeState] = {}
        self._counts: collections.Counter[str] = collections.Counter()
        self._rates = progress.Rates()
        self._begin = self._phase_begin = clock()
        self._seconds_before = 0.0
        self._last_status = float('-inf')
        self._phase = progress.PHASES[0]
        self._reason = ''
        self._evaluate_finally = any(
            progress.group_of(r) == 'evaluator' for r in self._roles
        )
        self._failure = ''
        self._hurry = False
        self._lost: set[str] = set()

    # What roles call.

    def heartbeat(
        self,
        role: str,
        incarnation: str = '',
        counts: Mapping[str, int] | None = None,
        lease: int = 0,
        wanted: int = 0,
        metrics: Mapping[str, Any] | None = None,
        waits_for: str = '',
        done: bool = False,
        leaves: bool = False,
    ) -> dict[str, Any]:
        """Takes one role's news.

        Args:
            role: who reports.
            incarnation: differs after a restart of the role's process.
            counts: totals of this incarnation, such as `{'steps': 160}`.
            lease: steps still held, those of a step in progress included.
            wanted: further steps asked for.
            metrics: newest values by name; kept until overwritten.
            waits_for: what the role waits for at present, if anything.
            done: whether the role has done its part of ending the run.
            leaves: whether this is its last heartbeat.

        Returns:
            `phase`; `granted` steps; `exhausted`, whether no further ones will come;
            the `counts` of the whole run; and the roles that are `lost`.
        """
        with self._lock:
            now = self._clock()
            node = self._nodes.setdefault(role, progress.NodeState(now, incarnation))
            if node.incarnation != incarnation:
                node.incarnation, node.counts = incarnation, {}
            node.last_seen = now
            for name, total in (counts or {}).items():
                added = total - node.counts.get(name, 0)
                self._counts[f'{progress.group_of(role)}_{name}'] += added
                node.counts[name] = total
            node.metrics.update(metrics or {})
            node.waits_for, node.done, node.lease = waits_for, done, lease
            self.tick()
            granted = self._grant(role, wanted)
            node.lease += granted
            node.leaves = leaves or self._phase == 'exit'
            return {
                'phase': self._phase,
                'granted': granted,
                'exhausted': granted < wanted,
                'counts': self.counts(),
                'lost': sorted(self._lost),
            }

    def request_stop(self, reason: str) -> None:
        """Ends the run cleanly: with a checkpoint, without a (further) evaluation."""
        with self._lock:
            self._hurry, self._evaluate_finally = True, False
            if self._phase == 'run':
                self._enter('drain', reason)

    def lose(self, role: str, reason: str) -> None:
        """Notes that `role` is gone: the run is to end, and has failed."""
        with self._lock:
            self._note_loss(role, reason)
            if self._phase == 'run':
                self._enter('drain', self._failure)
            self.tick()

    # What the owner calls.

    def tick(self) -> None:
        """Moves on where a budget is spent, a phase complete or patience at its end."""
        with self._lock:
            now = self._clock()
            if self._phase == 'run':
                self._check_budgets()
            if self._phase == 'run':
                for role, text in self._late(now).items():
                    self.lose(role, f'{text}; see its log.')
            while self._phase not in ('run', 'exit') and self._phase_complete(now):
                following = progress.PHASES[progress.PHASES.index(self._phase) + 1]
                self._enter(following, self._reason)
            if now - self._last_status >= _STATUS_SECONDS:
                self.write_status()

    @property
    def phase(self) -> str:
        """One of `progress.PHASES`."""
        return self._phase

    @property
    def reason(self) -> str:
        """Why the run ends; empty while it goes on."""
        return self._reason

    @property
    def failure(self) -> str:
        """What went wrong; empty if nothing did."""
        return self._failure

    @property
    def finished(self) -> bool:
        """Whether everybody who is alive has been told to exit, or had the time to."""
        with self._lock:
            late = self._clock() - self._phase_begin > self._patience.exit
            told = all(
                node.leaves or role in self._lost for role, node in self._nodes.items()
            )
            return self._phase == 'exit' and (told or late)

    def counts(self) -> dict[str, float]:
        """Returns totals by name and `seconds`; what was resumed is included."""
        with self._lock:
            seconds = self._clock() - self._begin + self._seconds_before
            return {**self._counts, 'seconds': round(seconds, 3)}

    def restore(self, counts: Mapping[str, float]) -> None:
        """Continues from what `counts` returned in an earlier run."""
        with self._lock:
            for name, value in counts.items():
                if name == 'seconds':
                    self._seconds_before = float(value)
                else:
                    self._counts[name] += int(value)

    def continue_from(self, status: Mapping[str, Any]) -> None:
        """Goes on from the last `status` of a coordinator that is gone.

        Heartbeats bring totals: what was done since is counted, and nothing twice.
        """
        with self._lock:
            self.restore(status['counts'])
            self._phase, self._reason = status['phase'], status['reason']
            self._failure, self._lost = status['failure'], set(status['lost'])
            self._hurry = status['hurry']
            self._evaluate_finally = status['evaluate_finally']
            for role, saved in status['nodes'].items():
                self._nodes[role] = progress.NodeState.restore(self._clock(), saved)

    def status(self) -> dict[str, Any]:
        """Returns all that a display and `continue_from` need; JSON can hold it."""
        with self._lock:
            now, counts = self._clock(), self.counts()
            rates = self._rates.update(now, self._counts)
            return {
                'phase': self._phase,
                'reason': self._reason,
                'failure': self._failure,
                'counts': counts,
                'rates': rates,
                'budget': dataclasses.asdict(self._budget),
                'seconds_left': self._budget.seconds_left(counts, rates),
                'nodes': {r: n.describe(now) for r, n in sorted(self._nodes.items())},
                'lost': sorted(self._lost),
                'hurry': self._hurry,
                'evaluate_finally': self._evaluate_finally,
                'starting': sorted(set(self._roles) - set(self._nodes)),
            }

    def write_status(self) -> None:
        """Writes the status file now."""
        with self._lock:
            self._last_status = self._clock()
            if self._status_path is not None:
                progress.write(self._status_path, self.status())

    # The rules; the lock is held.

    def _enter(self, phase: str, reason: str) -> None:
        self._phase, self._reason = phase, reason
        self._phase_begin = self._clock()
        self.write_status()

    def _grant(self, role: str, wanted: int) -> int:
        if self._phase != 'run':
            return 0
        group = progress.group_of(role)
        nodes = [
            n for name, n in self._nodes.items() if progress.group_of(name) == group
        ]
        held = sum(max(node.lease, 0) for node in nodes)
        return self._budget.grant(wanted, group, self._counts[f'{group}_steps'] + held)

    def _check_budgets(self) -> None:
        reason = self._budget.spent(self.counts()) or self._budget.reached(self._nodes)
        if reason:
            self._enter('drain', reason)

    def _late(self, now: float) -> dict[str, str]:
        """Returns who has been silent for too long, and how, in words."""
        late = {}
        for role in self._roles:
            node = self._nodes.get(role)
            if role in self._lost or (node and (node.done or node.leaves)):
                continue
            text = self._patience.lost_with(node, now, self._begin)
            if text:
                late[role] = text
        return late

    def _phase_complete(self, now: float) -> bool:
        """Returns whether nobody is waited for; who is waited for too long is lost."""
        if self._phase == 'final_evaluation' and not self._evaluate_finally:
            return True
        missing = {
            role
            for role in self._roles
            if progress.ends_in(role) == self._phase and not self._did_its_part(role)
        }
        late = {role: text for role, text in self._late(now).items() if role in missing}
        in_phase = now - self._phase_begin
        if in_phase > getattr(self._patience, self._phase):
            text = f'did not end the phase {self._phase} within {in_phase:.0f} s'
            late |= {role: text for role in missing & self._nodes.keys()}
        for role, text in late.items():
            self._note_loss(role, f'{text}; see its log.')
        return not missing - self._lost

    def _did_its_part(self, role: str) -> bool:
        node = self._nodes.get(role)
        if node is None:  # It still starts; who is in a hurry does not wait for it.
            return self._hurry or role in self._lost
        return node.done or node.leaves or role in self._lost

    def _note_loss(self, role: str, text: str) -> None:
        self._lost.add(role)
        self._failure = self._failure or f'{role}: {text}'
        self._hurry, self._evaluate_finally = True, False
