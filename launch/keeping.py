"""A node that is started again when it fails."""

from __future__ import annotations

import time
from collections.abc import Callable

from repertory.launch import binding, restarts


class KeptNode:
    """Stands for a process of a program, and starts it again as its policy says.

    It is restarted on any failure, on the same ports. Seen from outside it runs until
    it ends well, is asked to stop, or fails once more than the policy allows.
    """

    def __init__(
        self,
        node: binding.Node,
        policy: restarts.RestartPolicy,
        is_over: Callable[[], bool],
        report: Callable[[str, str, str], None],
        clock: Callable[[], float] = time.monotonic,
        others: list[KeptNode] | None = None,
        ends: Callable[[], bool] = lambda: False,
    ):
        """Does not start it yet.

        Args:
            node: may be started again once it has ended.
            policy: how often.
            is_over: whether the program ends, and nothing is to be restarted.
            report: takes the node's name, what failed, and what is done about it.
            clock: seconds, for tests.
            others: of its group, which are started again with it, on one budget, where
                the policy says so; it is appended.
            ends: whether the program begins to end: then each is started again alone,
                for what the others still do, as saving, is not to be lost.
        """
        self.name = node.name
        self.roles = node.roles
        self._node = node
        together = isinstance(policy, restarts.TogetherPolicy)
        self._group = others if together and others is not None else []
        self._group.append(self)
        self._budget: restarts.RestartBudget = (
            restarts.RestartBudget(policy, clock)
            if self._group[0] is self
            else self._group[0]._budget
        )
        self._is_over = is_over
        self._ends = ends
        self._report = report
        self._clock = clock
        self._start_at: float | None = None
        self._asked = False

    @property
    def pid(self) -> int | None:
        """The process id, once started."""
        return self._node.pid

    def start(self) -> None:
        """Starts the process."""
        self._node.start()

    def poll(self) -> str | None:
        """Returns None while it runs or is to run again; see `binding.Node`."""
        if self._start_at is not None:
            if self._asked or self._is_over():
                return ''
            if self._clock() < self._start_at or self._node.poll() is None:
                return None
            self._start_at = None
            self._node.start()
        outcome = self._node.poll()
        if not outcome or self._asked or self._is_over():
            return outcome
        delay = self._budget.spend()
        if delay is None:
            self._report(self.name, outcome, 'it fails too often: the run ends')
            return outcome
        self._report(self.name, outcome, f'starts again in {delay:g} s, {self._budget}')
        alone = len(self._group) > 1 and self._ends()
        for kept in [self] if alone else self._group:
            kept._start_at = self._clock() + delay
            if kept is not self:
                kept._node.kill()
        return None

    def terminate(self) -> None:
        """Asks it to stop, for good; does not wait."""
        self._asked = True
        self._node.terminate()

    def kill(self) -> bool:
        """Ends it for good; returns whether it could."""
        self._asked = True
        return self._node.kill()
