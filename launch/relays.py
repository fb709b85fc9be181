"""Passes the learner's parameters on, so that it does not serve each actor itself."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import launchpad as lp
import numpy as np

from repertory.components import core
from repertory.launch import control as control_lib
from repertory.launch import remote

_PERIOD_SECONDS = 0.1  # The learner publishes no more often.


class Relay(core.VariableSource):
    """Serves the newest parameters that it has fetched; never blocks who asks.

    Args:
        source: of the parameters.
    """

    def __init__(self, source: core.VariableSource):
        self._source = source
        self._published: tuple[int, Sequence[np.ndarray]] = -1, ()

    def fetch(self) -> None:
        """Takes the newest parameters; blocks until the source answers."""
        self._published = self._source.get_variables()

    def get_variables(self) -> tuple[int, Sequence[np.ndarray]]:
        """Returns what the last fetch brought; (-1, ()) before the first one."""
        return self._published


class RelayNode:
    """Serves a relay of the learner's parameters until the run is over."""

    def __init__(self, role: str, learner: Any, coordinator: Any):
        self._control = control_lib.NodeControl(
            role, coordinator, asked_to_stop=lp.stop_event().is_set
        )
        self._relay = Relay(remote.RemoteVariables(learner, self._control))
        self.get_variables = remote.versioned(self._relay)

    def run(self) -> None:
        """Fetches until the run is over."""
        with self._control:
            with contextlib.suppress(core.Stopped):
                while not self._control.wait_until('save', _PERIOD_SECONDS):
                    self._relay.fetch()
            self._control.wait_until('exit')
