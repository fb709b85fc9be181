"""Runs an experiment in one process and one thread, without ever blocking on itself."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import signal
import time
from typing import Any

from repertory.components import core, kernels
from repertory.launch import checks, progress, quiet, run_folder, signals
from repertory.launch import control as control_lib
from repertory.launch import coordinator as coordinator_lib
from repertory.launch import experiment as experiment_lib
from repertory.replay import budget, ports


@dataclasses.dataclass(frozen=True)
class Result:
    """How a run ended.

    Attributes:
        counts: `actor_steps`, `actor_episodes`, `learner_steps`, `seconds`.
        evaluation_return: mean return of the final evaluation; None if the run was
            interrupted.
        samples_per_insert: items that the learner took per item inserted after the
            first `min_size`, resumed ones not included; None before that.
        reason: why it ended.
        run_dir: the folder of the run's records.
        signal: the number of the signal that asked it to stop; 0 if none did.
    """

    counts: dict[str, float]
    evaluation_return: float | None
    samples_per_insert: float | None
    reason: str
    run_dir: pathlib.Path
    signal: int = 0


class _Coordinator(coordinator_lib.Coordinator):
    """Obeys a signal when it is next spoken to, never in the midst of something."""

    received = 0

    def take_signal(self, number: int) -> None:
        """Keeps the signal; a second one ends the run without more ado."""
        if self.received:
            raise KeyboardInterrupt(signals.AT_ONCE)
        self.received = number

    def heartbeat(self, *args: Any, **news: Any) -> dict[str, Any]:
        if self.received:
            self.request_stop(f'interrupted by {signal.Signals(self.received).name}')
        return super().heartbeat(*args, **news)


def run_experiment(
    experiment: experiment_lib.ExperimentConfig,
    topology: experiment_lib.Topology | None = None,
    run_dir: str | os.PathLike | run_folder.RunFolder | None = None,
    resume: bool = False,
) -> Result:
    """Acts and learns in turn until a budget is spent; then evaluates and saves.

    Learner steps are done when they are owed: `samples_per_insert` is kept exactly,
    by `replay.budget.SampleBudget`. In the main thread Ctrl-C and SIGTERM end the run
    cleanly, with a checkpoint; at once when they come again.

    Args:
        experiment: what to run.
        topology: `envs_per_actor` and `environments` are heeded; None for the
            defaults. There is one actor.
        run_dir: the run's folder; None makes one in `runs/`. A `RunFolder` is taken
            as already opened.
        resume: continues what is in `run_dir`.

    Raises:
        ValueError: if `checks.check_one_thread` or `checks.check_together` refuse it.
        KeyboardInterrupt: at a second signal.
    """
    topology = topology or experiment_lib.Topology()
    checks.check_one_thread(topology)
    checks.check_together(experiment, topology)
    folder = (
        run_dir
        if isinstance(run_dir, run_folder.RunFolder)
        else run_folder.open_folder(
            experiment, topology, run_dir, resume, one_thread=True
        )
    )
    coordinator = _Coordinator(
        progress.budget_of(experiment),
        ['actor_0', 'learner', 'evaluator'],
        folder.status,
    )
    if resume:
        coordinator.restore(folder.saved_counts())
    kernels.set_here(experiment.kernel_variables())
    from repertory.launch import wiring  # Imports TensorFlow.

    with (
        signals.handled(coordinator.take_signal),
        quiet.native_errors_to(folder.logs / 'nodes.log'),
        wiring.build_replay(
            experiment, topology, None, folder.path, resume, limited=False
        ) as replay,
    ):
        ports.keep_local_soon([replay.port])
        run = _Run(experiment, topology, folder, coordinator, replay, resume)
        try:
            run.until_the_end()
            return run.finish()
        finally:
            run.close()


class _Run:
    """The workers of one run, and whose turn it is."""

    def __init__(self, experiment, topology, folder, coordinator, replay, resume):
        from repertory.launch import learning, wiring  # Import TensorFlow.

        def control(role: str) -> control_lib.NodeControl:
            return control_lib.NodeControl(role, coordinator, background=False)

        self._folder = folder
        self._coordinator = coordinator
        self._replay = replay
        self._replay_control = control('replay_0')
        [statistics] = replay.statistics()  # Before anything is sampled ahead.
        self._learner = learning.build_learner(
            experiment,
            topology,
            [replay.address],
            control('learner'),
            folder.path,
            resume,
            background=False,
        )
        source = self._learner.learner  # In one thread it can be asked directly.
        self._actor = wiring.build_actor(
            experiment,
            topology,
            0,
            source,
            replay.address,
            control('actor_0'),
            folder.path,
            background=False,
        )
        self._evaluator = wiring.build_evaluator(
            experiment, topology, source, control('evaluator'), folder.path
        )
        [table] = replay.table_specs
        self._items_per_call = self._learner.items_per_call
        self._budget = budget.SampleBudget.for_table(table, self._items_per_call)
        self._restored_items = statistics.inserts
        if resume and experiment.checkpoint.replay:
            steps = statistics.samples // self._items_per_call
            self._budget.restore(
                # What the earlier run had sampled ahead from a queue is gone.
                {'inserted': statistics.size, 'steps': 0}
                if table.is_queue
                else {'inserted': statistics.inserts, 'steps': steps}
            )
        self._table = table
        self._calls = 0
        self._evaluate_at = 0.0

    def until_the_end(self) -> None:
        self._actor.start()
        while self._actor.step():
            owed = self._budget.owed(self._actor.adder.num_items)
            if owed and (self._table.max_times_sampled or not self._calls):
                # What is sampled must be there: a table that has had its min_size, and
                # of which samples take nothing, never blocks again, and a flush each
                # step would cost half the time.
                self._actor.adder.flush()
            for _ in range(owed):
                if not self._learner.step():
                    return
                self._budget.spend(1)
                self._calls += 1
            if self._evaluator.due and time.monotonic() >= self._evaluate_at:
                self._evaluate()

    def _evaluate(self) -> None:
        begin = time.monotonic()
        with contextlib.suppress(core.Stopped):  # A budget ends it as well.
            self._evaluator.step()
        end = time.monotonic()
        # Where an evaluation takes longer than its period, training gets as long.
        self._evaluate_at = end + (end - begin)
        self._report()

    def _samples_per_insert(self) -> float | None:
        limit = self._table.rate_limit
        # Inserts up to min_size are not sampled for; a restored table may have them.
        unsampled = max(0, (limit.min_size if limit else 0) - self._restored_items)
        beyond = self._actor.adder.num_items - unsampled
        return self._calls * self._items_per_call / beyond if beyond > 0 else None

    def _report(self) -> None:
        limit = self._table.rate_limit
        self._replay_control.report(
            {
                'size': self._replay.statistics()[0].size,
                'max_size': self._table.max_size,
                'samples_per_insert': self._samples_per_insert(),
                'samples_per_insert_asked': limit and limit.samples_per_insert,
            }
        )

    def finish(self) -> Result:
        self._actor.finish()
        self._report()
        self._learner.finish()
        evaluation_return = self._evaluator.finish()
        self._coordinator.write_status()
        return Result(
            counts=self._coordinator.counts(),
            evaluation_return=evaluation_return,
            samples_per_insert=self._samples_per_insert(),
            reason=self._coordinator.reason,
            run_dir=self._folder.path,
            signal=self._coordinator.received,
        )

    def close(self) -> None:
        self._actor.close()
        self._learner.close()
        self._evaluator.close()
