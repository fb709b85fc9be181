"""Brings newer parameters from a learner to an actor, off the actor's path."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from repertory.components import core

_GIVE_UP_SECONDS = 30.0


class VariableClient:
    """Copies a source's parameters into an actor's variables now and then.

    Each fetch runs in a thread of its own, and `update` assigns what has come, in one
    compiled call: an actor's step never waits for the network. In one thread
    (`background=False`) the source is asked directly.

    Attributes:
        version: learner steps of the parameters in use; -1 before the first.

    Args:
        source: has `get_variables() -> (version, arrays)`.
        variables: to be assigned, in the source's order.
        update_period: environment steps between two fetches, all lanes counted.
        background: False to ask in the caller's thread.

    Raises:
        ValueError: if `update_period` is below 1.
    """

    def __init__(
        self,
        source: core.VariableSource,
        variables: Sequence[tf.Variable],
        update_period: int,
        background: bool = True,
    ):
        if update_period < 1:
            raise ValueError(
                f'update_period must be >= 1 environment steps, got {update_period}.'
            )
        self._source = source
        self._variables = list(variables)
        self._period = update_period
        self._background = background
        self._steps_left = 0
        self._fetched: tuple[int, Sequence[np.ndarray]] | None = None
        self._error: Exception | None = None
        self._failing_since: float | None = None
        self._thread: threading.Thread | None = None
        self.version = -1
        # Concrete: the sixth run of a process is no retracing to be warned of.
        self._assign = tf.function(
            self._assign_all,
            input_signature=[[tf.TensorSpec(v.shape, v.dtype) for v in variables]],
            autograph=False,
        ).get_concrete_function()

    def _assign_all(self, values: Sequence[tf.Tensor]) -> None:
        for variable, value in zip(self._variables, values):
            variable.assign(value)

    def update(self, num_steps: int = 0, wait: bool = False) -> None:
        """Takes a finished fetch, and begins one if `update_period` steps have passed.

        Args:
            num_steps: environment steps since the last call.
            wait: fetch now and return with the newest parameters.

        Raises:
            RuntimeError: if the source has not answered for 30 seconds.
            ValueError: if the arrays do not fit the variables.
        """
        self._steps_left -= num_steps
        if wait or not self._background:
            if wait or self._steps_left <= 0:
                self._join()
                self._take(self._source.get_variables())
                self._steps_left = self._period
            return
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
            self._take_fetched()
        if self._steps_left <= 0 and self._thread is None:
            self._steps_left = self._period
            self._thread = threading.Thread(target=self._fetch, daemon=True)
            self._thread.start()

    def _fetch(self) -> None:
        try:
            self._fetched = self._source.get_variables()
            self._error = None
        except Exception as error:  # Handed to the actor's thread in update().
            self._error = error

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self._fetched = None

    def _take_fetched(self) -> None:
        if self._error is None:
            self._failing_since = None
            fetched, self._fetched = self._fetched, None
            assert fetched is not None
            self._take(fetched)
            return
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since > _GIVE_UP_SECONDS:
            raise RuntimeError(
                f'the variable source has not answered for {_GIVE_UP_SECONDS:.0f} '
                'seconds; is the learner alive?'
            ) from self._error

    def _take(self, fetched: tuple[int, Sequence[np.ndarray]]) -> None:
        version, values = fetched
        if version == self.version:
            return
        shapes = [tuple(v.shape) for v in self._variables]
        if [np.shape(x) for x in values] != shapes:
            raise ValueError(
                f'published parameters must have the shapes {shapes}, got '
                f'{[np.shape(x) for x in values]}; are actor and learner of one '
                'configuration?'
            )
        self._assign([tf.constant(x) for x in values])
        self.version = version
