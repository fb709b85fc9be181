"""The learner of D4PG: it says once where the support is too narrow."""

from __future__ import annotations

import logging

from repertory.agents.d4pg import config as d4pg_config
from repertory.components import learner

_LOGGER = logging.getLogger(__name__)
# Of the targets' probability, on an average over about this many learner calls.
_MAX_MASS = 0.1
_CALLS = 200


class D4PGLearner(learner.SGDLearner):
    """Warns when more than a tenth of the targets' mass is outside the support."""

    def __init__(self, *, config: d4pg_config.Config, **kwargs):
        super().__init__(config=config, **kwargs)
        self._ends = (
            ('mass_below_vmin', 'vmin', config.vmin, 'lower it'),
            ('mass_above_vmax', 'vmax', config.vmax, 'raise it'),
        )
        self._mass = {name: 0.0 for name, *_ in self._ends}
        self._warned = False

    def step(self) -> dict[str, float]:
        metrics = super().step()
        if not self._warned:
            self._check(metrics)
        return metrics

    def _check(self, metrics: dict[str, float]) -> None:
        for name, end, bound, remedy in self._ends:
            # D3PG's scalar critic has no support.
            self._mass[name] += (metrics.get(name, 0.0) - self._mass[name]) / _CALLS
            if self._mass[name] > _MAX_MASS:
                self._warned = True
                _LOGGER.warning(
                    '%s must bound the discounted returns, got %g while %.0f %% of the '
                    'last targets lie beyond it (learner step %d, mean q %.3g); values '
                    'there cannot be told apart: %s, or scale the rewards by '
                    'reward_scale.',
                    *(end, bound, 100 * metrics[name], self.steps, metrics['mean_q']),
                    remedy,
                )
