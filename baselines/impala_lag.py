"""IMPALA on Catch with actors whose parameters are forced to be old.

At a lag of 40 of a run's 690 learner steps V-trace reaches 0.9, and the same agent
without correction stays below 0.6; `impala_lag_sweep` has other lags. Evaluations are
of what acts: the old parameters, drawing actions.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping

from repertory.agents import impala
from repertory.components import core
from repertory.launch import experiment

TARGET = 0.9
NUM_SEEDS = 3
LAG = 40


class LaggedLearner(core.Learner):
    """Publishes the parameters that it had `lag` learner steps ago."""

    def __init__(self, learner: core.Learner, lag: int):
        self._learner = learner
        self._published = collections.deque(maxlen=lag + 1)
        self._published.append(learner.get_variables())

    @property
    def steps(self) -> int:
        return self._learner.steps

    def step(self) -> Mapping[str, float] | None:
        metrics = self._learner.step()
        self._published.append(self._learner.get_variables())
        return metrics

    def get_variables(self):
        return self._published[0]

    def state(self):
        return self._learner.state()

    def restore(self, state) -> None:
        self._learner.restore(state)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(impala.Config):
    """IMPALA's, with a lag."""

    lag: int
    """Learner steps by which the actors' parameters are old."""
    variable_update_period: int = 1
    """Environment steps; 1, so that the lag is the one that is asked for."""

    def make_builder(self):
        from repertory.agents.impala import builder

        class Builder(builder.Builder):
            def make_learner(self, *args, **kwargs):
                return LaggedLearner(
                    super().make_learner(*args, **kwargs), self._config.lag
                )

        return Builder(self)


def maker(correction: str, lag: int):
    """Returns what makes the experiment of a seed."""

    def make(seed: int):
        return experiment.ExperimentConfig(
            agent=Config(correction=correction, lag=lag, evaluation_greedy=False),
            environment='catch',
            seed=seed,
            max_actor_steps=200_000,
            evaluation_episodes=100,
            evaluation_period_seconds=2.0,
        ), experiment.Topology(envs_per_actor=16)

    return make


VARIANTS = {'vtrace': maker('vtrace', LAG), 'none': maker('none', LAG)}
