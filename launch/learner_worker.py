"""What the learner's node does: learn, publish, save, export."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from repertory.components import checkpointing, collectives, core, joint_samples, types
from repertory.launch import control as control_lib
from repertory.launch import experiment as experiment_lib
from repertory.launch import run_folder, workers
from repertory.replay import info, prefetching, server

_logger = logging.getLogger(__name__)

_PUBLISH_SECONDS = 0.1
_LOST_SECONDS = 10.0  # For the launcher to notice who is gone, and to say so.


class LearnerWorker(core.VariableSource):
    """Learns, publishes parameters, writes checkpoints and exports the policy."""

    def __init__(
        self,
        learner: core.Learner,
        samples: Iterator[types.Sample],
        updates_per_call: int,
        items_per_call: int,
        save_policy: Any,
        replay_addresses: Sequence[str],
        control: control_lib.NodeControl,
        logger: core.Logger,
        folder: run_folder.RunFolder,
        experiment: experiment_lib.ExperimentConfig,
        joint: joint_samples.JointSamples | None = None,
    ):
        """With `joint` it leads others, which take their samples when it does."""
        self.learner = learner
        self._joint = joint
        self._samples = samples
        self._steps_per_call, self.items_per_call = updates_per_call, items_per_call
        self._save_policy = save_policy
        self._replay_addresses = replay_addresses
        self._control = control
        self._logger = logger
        self._period = experiment.logging.period_seconds
        self._next_log = 0.0
        self._save_replay = experiment.checkpoint.replay
        self._checkpointer = checkpointing.Checkpointer(
            folder.checkpoints,
            experiment.checkpoint.period_seconds,
            experiment.checkpoint.keep,
        )
        self._to_redo: int | None = None
        self._published = learner.get_variables()
        self._published_at = time.monotonic()

    def get_variables(self) -> tuple[int, Sequence[np.ndarray]]:
        """Returns the last published parameters; safe from any thread."""
        return self._published

    def publish(self) -> None:
        """Publishes the newest parameters; to be called in the learner's thread."""
        self._published_at = time.monotonic()
        if self._published[0] != self.learner.steps:
            self._published = self.learner.get_variables()

    def step(self) -> bool:
        """Does one learner call; False if the run is ending."""
        if not self._control.take_steps(self._steps_per_call):
            return False
        if self._to_redo is None:
            # What a learner that died had done since its checkpoint is done again, and
            # counted once: counts stay those of the parameters.
            done = int(self._control.counts.get('learner_steps', 0))
            self._to_redo = max(0, done - self.learner.steps)
        metrics = self.learner.step()
        redone = min(self._to_redo, self._steps_per_call)
        self._to_redo -= redone
        self._control.count_steps(self._steps_per_call - redone)
        now = time.monotonic()
        if now - self._published_at >= _PUBLISH_SECONDS:
            self.publish()
        if now >= self._next_log:
            self._next_log = now + self._period
            workers.log(self._logger, self._control, metrics)
        if self._checkpointer.due():
            self.save()
        return True

    def save(self) -> None:
        """Begins to write a checkpoint."""
        self._checkpointer.save(
            self.learner.steps,
            self.learner.state(),
            {'counts': {**self._control.counts, 'learner_steps': self.learner.steps}},
            then=self._checkpoint_replay if self._save_replay else None,
        )

    def _checkpoint_replay(self) -> None:
        for address in self._replay_addresses:
            server.checkpoint(address)

    def finish(self) -> None:
        """Writes the last checkpoint and the policy."""
        self.publish()
        self._control.wait_until('save')
        if self._control.phase == 'save':
            self.learner.flush()
            self.save()
            self._checkpointer.wait()
            if self._checkpointer.error is not None:
                raise RuntimeError(
                    'the last checkpoint was not written; the one before it is what '
                    f'can be resumed: {self._checkpointer.error}'
                )
            self._save_policy()
            self._warn_if_untrained()
        self._control.done()

    def _warn_if_untrained(self) -> None:
        """Says so where actors have acted and nothing was learned: all else looks well.

        Replay is there still: it ends after the learner.
        """
        if self.learner.steps or not self._control.counts.get('actor_steps'):
            return
        held = []
        with contextlib.suppress(ConnectionError):  # All that counts is saved.
            held = [
                f'{table.size} of min_replay_size {table.min_size}'
                for address in self._replay_addresses
                for table in info.table_statistics(address, timeout=2.0)
                if table.size < table.min_size
            ]
        _logger.warning(
            'nothing was learned: replay %s, so the policy is untrained; act for more '
            'steps%s.',
            f'holds {", ".join(held)} items'
            if held
            else 'gave no batch before the end',
            ', or lower min_replay_size' if held else '',
        )

    def run(self) -> None:
        try:
            if not self._control.stopping:
                self.learner.prepare()
            while self.step():
                pass
            if self._joint is not None:
                self._joint.stop()
        except core.Stopped:
            pass
        except collectives.PeerLostError as error:
            _await_end(self._control, error)
        self.finish()
        self._control.wait_until('exit')
        self.close()

    def close(self) -> None:
        """Ends the threads; may be called twice."""
        self._checkpointer.close()
        self._logger.close()
        self.learner.close()
        if isinstance(self._samples, prefetching.Prefetcher):
            self._samples.close()


class Follower:
    """A learner after the first: takes each step with it, and does nothing else."""

    def __init__(
        self,
        learner: core.Learner,
        samples: Iterator[types.Sample],
        control: control_lib.NodeControl,
    ):
        """Takes a learner that has joined the others, and what it samples."""
        self._learner = learner
        self._samples = samples
        self._control = control

    def run(self) -> None:
        """Learns until the first learner stops, or the run ends."""
        try:
            while True:
                self._learner.step()
        except core.Stopped:
            pass
        except collectives.PeerLostError as error:
            _await_end(self._control, error)
        self._learner.flush()
        self._control.done()
        self._control.wait_until('exit')
        self._learner.close()
        if isinstance(self._samples, prefetching.Prefetcher):
            self._samples.close()


def join(
    learner: core.Learner,
    group: collectives.Group | None,
    control: control_lib.NodeControl,
) -> None:
    """Has `learner` learn as one with the others of `group`, unless the run ends.

    Raises:
        as `SGDLearner.join` does.
    """
    if group is None:
        return
    try:
        learner.join(group)
    except collectives.PeerLostError as error:
        _await_end(control, error)


def _await_end(
    control: control_lib.NodeControl, error: collectives.PeerLostError
) -> None:
    """Returns once the run ends for what `error` tells; raises it if the run goes on.

    Where learners are restarted, all are: the launcher ends this one meanwhile.
    """
    if not control.wait_until('drain', _LOST_SECONDS):
        raise error
