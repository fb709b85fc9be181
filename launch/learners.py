"""What the nodes of the learner, or of several that learn as one, do.

TensorFlow is imported in the functions: the process that makes the program does
without.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import launchpad as lp

from repertory.components import core
from repertory.launch import control as control_lib
from repertory.launch import nodes, progress, remote

if TYPE_CHECKING:
    from repertory.components import collectives

_WATCH_SECONDS = 0.1
_LEAVE_SECONDS = 30.0  # For the step that all do when the run begins to end.


class LearnerNode:
    """Serves the parameters, and replay too if that is to be here."""

    def __init__(
        self,
        plan: nodes.Plan,
        addresses: Sequence[lp.Address],
        meeting: Sequence[lp.Address],
        coordinator: Any,
    ):
        """Connects the learner.

        Args:
            plan: what is run.
            addresses: of the replay servers.
            meeting: where each of several learners is found, this one first; empty for
                one learner.
            coordinator: of the run.
        """
        nodes.configure('learner', plan, 0 if meeting else None)
        self._control = nodes.make_control('learner', coordinator)
        group = _meet(meeting, 0, self._control)
        from repertory.launch import learning

        resolved = [address.resolve() for address in addresses]
        self._replays = []
        if plan.topology.replay == 'learner':
            self._replays = [
                nodes.Replay(plan, f'replay_{index}', address, coordinator)
                for index, address in enumerate(resolved)
            ]
        self._worker = learning.build_learner(
            plan.experiment,
            plan.topology,
            resolved,
            self._control,
            plan.run_dir,
            plan.resumes,
            group=group,
        )
        self.get_variables = remote.versioned(self._worker)

    def run(self) -> None:
        threads = [
            threading.Thread(target=replay.run_in_thread, daemon=True)
            for replay in self._replays
        ]
        for thread in threads:
            thread.start()
        with self._control:
            self._worker.run()
        for thread in threads:
            thread.join()


def run_follower(
    plan: nodes.Plan,
    rank: int,
    addresses: Sequence[lp.Address],
    meeting: Sequence[lp.Address],
    coordinator: Any,
) -> None:
    """Runs the learner of `rank` > 0; see `LearnerNode`."""
    nodes.configure('learner', plan, rank)
    with nodes.make_control(f'learner_{rank}', coordinator) as control:
        group = _meet(meeting, rank, control)
        if group is None:
            control.done()
            control.wait_until('exit')
            return
        from repertory.launch import learning

        resolved = [address.resolve() for address in addresses]
        learning.build_follower(
            plan.experiment, plan.topology, resolved, control, group
        ).run()


def _meet(
    meeting: Sequence[lp.Address], rank: int, control: control_lib.NodeControl
) -> collectives.Group | None:
    """Returns the group of all learners, before TensorFlow is used.

    None where there is one, and where the run ends: as for one that is started again
    then, for whom the others need not be.

    Raises:
        TimeoutError: if another learner does not come.
    """
    while meeting and not control.counts and not control.stopping:
        time.sleep(_WATCH_SECONDS)  # The first answer is on its way.
    if not meeting or control.stopping:
        return None
    from repertory.components import collectives

    where = [address.resolve() for address in meeting]
    try:
        group = collectives.Group(where, rank, control.wait)
    except core.Stopped:
        return None
    threading.Thread(target=_watch, args=(group, control), daemon=True).start()
    return group


def _watch(group: collectives.Group, control: control_lib.NodeControl) -> None:
    """Ends the waits for other learners once they are in vain.

    That is once one of them is lost, or some seconds after the run began to end: one
    that was started again then does not come back to this group.
    """
    end, reason = float('inf'), 'the run ends'
    try:
        while time.monotonic() < end:
            time.sleep(_WATCH_SECONDS)
            lost = [r for r in control.lost if progress.group_of(r) == 'learner']
            if lost:
                reason = f'{", ".join(lost)} is gone'
                break
            if control.stopping:
                end = min(end, time.monotonic() + _LEAVE_SECONDS)
    except RuntimeError as error:  # The coordinator is gone.
        reason = str(error)
    group.abort(reason)
