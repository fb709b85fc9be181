"""Brings newer parameters from a learner to an actor, off the actor's path."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from repertory.components import compiled, core

_GIVE_UP_SECONDS = 30.0
_Fetched = tuple[int, Sequence[np.ndarray]]


class _Fetcher:
    """Answers each request by what was fetched or by the error, in a thread."""

    def __init__(self, fetch: Callable[[], _Fetched]):
        self.requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue = queue.SimpleQueue()
        self._fetch = fetch
        threading.Thread(target=self._run, name='variables', daemon=True).start()

    def _run(self) -> None:
        while self.requests.get():
            try:
                self.answers.put((self._fetch(), None))
            except Exception as error:  # Handed to the actor's thread in update().
                self.answers.put((None, error))


class VariableClient:
    """Copies a source's parameters into an actor's variables now and then.

    Fetches run in a thread, and `update` assigns what has come, in one compiled call:
    an actor's step never waits for the network. In one thread (`background=False`) the
    source is asked directly.

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
        self._failing_since: float | None = None
        self._fetcher: _Fetcher | None = None
        self._is_fetching = False
        self.version = -1
        self._assign = compiled.Compiled(
            self._assign_all,
            [[tf.TensorSpec(v.shape, v.dtype) for v in variables]],
            small=True,
        )

    def _assign_all(self, values: Sequence[tf.Tensor]) -> tuple:
        for variable, value in zip(self._variables, values):
            variable.assign(value)
        return ()

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
        if self._fetcher is None:
            self._fetcher = _Fetcher(self._source.get_variables)
            # The thread does not know of this object, and ends with it.
            weakref.finalize(self, self._fetcher.requests.put, False)
        if self._is_fetching and not self._fetcher.answers.empty():
            self._is_fetching = False
            self._take_answer(*self._fetcher.answers.get())
        if self._steps_left <= 0 and not self._is_fetching:
            self._steps_left = self._period
            self._is_fetching = True
            self._fetcher.requests.put(True)

    def _join(self) -> None:
        if self._fetcher is not None and self._is_fetching:
            self._fetcher.answers.get()
            self._is_fetching = False

    def _take_answer(self, fetched: _Fetched | None, error: Exception | None) -> None:
        if fetched is not None:
            self._failing_since = None
            self._take(fetched)
            return
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since > _GIVE_UP_SECONDS:
            raise RuntimeError(
                f'the variable source has not answered for {_GIVE_UP_SECONDS:.0f} '
                'seconds; is the learner alive?'
            ) from error

    def _take(self, fetched: _Fetched) -> None:
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
