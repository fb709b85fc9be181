"""Histograms of what an evaluator acts with, and films of it, in TensorBoard."""

from __future__ import annotations

import io
import pathlib
import time

import dm_env
import numpy as np
import tree

from repertory.components import loggers, policies
from repertory.components.environments import rendering
from repertory.components.environments.wrappers import single_precision
from repertory.launch import experiment as experiment_lib

_MAX_FRAMES = 1000  # Of a film.
_FPS = 15


class EvaluationRecorder:
    """Records after an evaluation what `LoggingConfig` asks for, when it is due.

    Args:
        experiment: says what, and makes the environment that is filmed.
        policy: of one lane, with the evaluator's parameters.
        seed: of the environment that is filmed.
        folder: takes an event file.
    """

    def __init__(
        self,
        experiment: experiment_lib.ExperimentConfig,
        policy: policies.Policy,
        seed: int,
        folder: pathlib.Path,
    ):
        self._experiment = experiment
        self._policy = policy
        self._seed = seed
        self._logger = loggers.TensorBoardLogger(folder)
        config = experiment.logging
        self._periods = {
            self._write_histograms: config.histogram_period_seconds,
            self._write_film: config.video_period_seconds,
        }
        self._next = dict.fromkeys(self._periods, 0.0)

    def record(self, actor_steps: int) -> None:
        """Writes what is due, at this step of TensorBoard's."""
        for write, period in self._periods.items():
            if period is not None and time.monotonic() >= self._next[write]:
                self._next[write] = time.monotonic() + period
                write(actor_steps)

    def close(self) -> None:
        """Closes the event file; may be called twice."""
        self._logger.close()

    def _write_histograms(self, step: int) -> None:
        for variable in self._policy.variables:
            name = f'parameters/{variable.name.partition(":")[0]}'
            self._logger.write_histogram(name, variable.numpy(), step)

    def _write_film(self, step: int) -> None:
        from imageio import v2 as imageio

        environment = single_precision.wrap(
            self._experiment.make_environment(self._seed)
        )
        try:
            frames = self._play(environment)
        finally:
            environment.close()
        file = io.BytesIO()
        # Its stubs know no names of formats.
        imageio.mimwrite(  # type: ignore[call-overload]
            file, frames, format='GIF', duration=1000 / _FPS, loop=0
        )
        shape = frames[0].shape[:2]
        self._logger.write_gif('evaluation', file.getvalue(), shape, step)

    def _play(self, environment: dm_env.Environment) -> list[np.ndarray]:
        timestep, state = environment.reset(), self._policy.initial_state(1)
        frames = [rendering.render(environment, timestep.observation)]
        while not timestep.last() and len(frames) < _MAX_FRAMES:
            observation = tree.map_structure(
                lambda leaf: np.asarray(leaf)[None], timestep.observation
            )
            output = self._policy(observation, state)
            state = output.state
            action = tree.map_structure(lambda leaf: leaf.numpy()[0], output.action)
            timestep = environment.step(action)
            frames.append(rendering.render(environment, timestep.observation))
        return frames
