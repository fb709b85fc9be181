"""What actors and evaluators do, once `wiring.py` has connected their parts.

A worker has `run`, which returns when the run is over, and its pieces `start`, `step`
and `finish`, by which one thread takes turns.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

from repertory.components import (
    actor,
    core,
    environment_loop,
    variables,
)
from repertory.launch import control as control_lib
from repertory.launch import evaluation_recorder
from repertory.launch import experiment as experiment_lib

_NO_COUNTS = {'actor_steps': 0, 'learner_steps': 0, 'seconds': 0.0}


class ActorWorker:
    """Acts and records until the budget is spent or the run is ending."""

    def __init__(
        self,
        environment: core.VectorEnvironment,
        one: actor.AskingActor,
        adder: core.Adder,
        control: control_lib.NodeControl,
        logger: core.Logger,
        log_period_seconds: float,
    ):
        self.adder = adder
        self._environment = environment
        self._actor = one
        self._control = control
        self._logger = logger
        self._period = log_period_seconds
        self._next_log = time.monotonic() + log_period_seconds
        self._episodes: list[environment_loop.Episode] = []
        self._ended = 0
        self._loop = environment_loop.EnvironmentLoop(
            environment, one, self._on_episode
        )

    def _on_episode(self, episode: environment_loop.Episode) -> None:
        self._episodes.append(episode)
        self._ended += 1

    def start(self) -> None:
        """Takes the first parameters and resets the lanes."""
        self._actor.update(wait=True)
        self._loop.reset()

    def step(self) -> bool:
        """Takes one vector step; False if the run is ending."""
        if not self._control.take_steps(self._environment.num_lanes):
            return False
        self._actor.update()
        steps = self._loop.step()
        self._control.count_steps(steps, episodes=self._ended)
        self._ended = 0
        if self._episodes and time.monotonic() >= self._next_log:
            self._log()
        return True

    def _log(self) -> None:
        values = environment_loop.summarize(self._episodes)
        version = self._actor.version
        newest = self._control.counts.get('learner_steps', 0)
        # In learner steps: how old the parameters are that it acts with.
        values['policy_lag'] = max(0, newest - version)
        values['policy_version'] = version
        self._episodes.clear()
        self._next_log = time.monotonic() + self._period
        log(self._logger, self._control, values)

    def finish(self) -> None:
        """Writes out what is complete, and closes."""
        if self._episodes:
            self._log()
        try:
            # The limiter may hold back what nobody will sample any more.
            self.adder.flush()
        except core.Stopped:
            pass
        self.close()
        self._control.done()

    def run(self) -> None:
        try:
            self.start()
            while self.step():
                pass
        except core.Stopped:
            pass
        self.finish()

    def close(self) -> None:
        """Closes writers, environments and logs; may be called twice."""
        self.adder.close()
        self._environment.close()
        self._logger.close()
        self._actor.close()


class EvaluatorWorker:
    """Plays evaluations with the newest parameters, and one with the last."""

    def __init__(
        self,
        environment: core.VectorEnvironment,
        one: actor.PolicyActor,
        client: variables.VariableClient,
        control: control_lib.NodeControl,
        logger: core.Logger,
        experiment: experiment_lib.ExperimentConfig,
        recorder: evaluation_recorder.EvaluationRecorder | None = None,
    ):
        self._recorder = recorder
        self._environment = environment
        self._actor = one
        self._client = client
        self._control = control
        self._logger = logger
        self._episodes = experiment.evaluation_episodes
        self._period = experiment.evaluation_period_seconds
        self._next = 0.0
        self._before: float | None = None

    def step(self) -> None:
        """Evaluates once."""
        self._next = time.monotonic() + self._period
        self._evaluate(final=False)

    @property
    def due(self) -> bool:
        return time.monotonic() >= self._next

    def _evaluate(self, final: bool) -> float:
        def keep_going() -> None:
            phase = self._control.phase
            if phase == 'exit' or (phase != 'run' and not final):
                raise core.Stopped

        self._actor.update(wait=True)
        counts = self._control.counts
        episodes = environment_loop.run_episodes(
            self._environment, self._actor, self._episodes, keep_going
        )
        values = {**environment_loop.summarize(episodes), 'final': int(final)}
        # The parameters are those of the start of the evaluation.
        log(self._logger, self._control, values, counts, self._client.version)
        now, before = values['episode_return'], self._before
        self._before = now
        if before is not None:  # A target is compared with it.
            self._control.report({'lower_of_two_returns': min(before, now)})
        if self._recorder is not None:
            self._recorder.record(int(counts.get('actor_steps', 0)))
        return now

    def finish(self) -> float | None:
        """Evaluates the last parameters; None if the run ends without."""
        final_return = None
        self._control.wait_until('final_evaluation')
        if self._control.phase == 'final_evaluation':
            with contextlib.suppress(core.Stopped):  # By a stop asked for late.
                final_return = self._evaluate(final=True)
        self._control.done()
        self.close()
        return final_return

    def run(self) -> None:
        try:
            while not self._control.stopping:
                self.step()
                left = max(0.0, self._next - time.monotonic())
                self._control.wait_until('drain', left)
        except core.Stopped:
            pass
        self.finish()

    def close(self) -> None:
        """Closes environments and logs; may be called twice."""
        self._environment.close()
        self._logger.close()
        self._actor.close()
        if self._recorder is not None:
            self._recorder.close()


def log(
    logger: core.Logger,
    control: control_lib.NodeControl,
    values: Mapping[str, Any],
    counts: dict[str, float] | None = None,
    learner_steps: int | None = None,
) -> None:
    """Records a row beside the run's counts, and reports it."""
    counts = {**_NO_COUNTS, **(control.counts if counts is None else counts)}
    if learner_steps is not None:
        counts['learner_steps'] = max(learner_steps, 0)
    logger.write({**counts, **values})
    control.report(values)
