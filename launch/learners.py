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

from repertory.launch import nodes, progress, remote

if TYPE_CHECKING:
    from repertory.components import collectives

_WATCH_SECONDS = 0.5


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
        group = _meet(meeting, 0, coordinator)
        from repertory.launch import learning

        resolved = [address.resolve() for address in addresses]
        self._replays = []
        if plan.topology.replay == 'learner':
            self._replays = [
                nodes.Replay(plan, f'replay_{index}', address, coordinator)
                for index, address in enumerate(resolved)
            ]
        self._control = nodes.make_control('learner', coordinator)
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
    group = _meet(meeting, rank, coordinator)
    assert group is not None  # There are two or more.
    from repertory.launch import learning

    resolved = [address.resolve() for address in addresses]
    with nodes.make_control(f'learner_{rank}', coordinator) as control:
        learning.build_follower(
            plan.experiment, plan.topology, resolved, control, group
        ).run()


def _meet(
    meeting: Sequence[lp.Address], rank: int, coordinator: Any
) -> collectives.Group | None:
    """Returns the group of all learners, before TensorFlow is used; None for one."""
    if not meeting:
        return None
    from repertory.components import collectives

    group = collectives.Group([address.resolve() for address in meeting], rank)
    threading.Thread(target=_watch, args=(group, coordinator), daemon=True).start()
    return group


def _watch(group: collectives.Group, coordinator: Any) -> None:
    """Ends the waits for other learners once one of them is lost."""
    while True:
        time.sleep(_WATCH_SECONDS)
        try:
            status = coordinator.status()
        except Exception:  # Courier's own type, where the coordinator is gone.
            continue
        gone = [role for role in status['lost'] if progress.group_of(role) == 'learner']
        if gone:
            group.abort(f'{", ".join(gone)} is gone')
            return
