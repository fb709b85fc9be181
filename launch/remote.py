"""Calls to other nodes that wait politely while those start, or start again.

And of the launcher to the coordinator, which do not.
"""

from __future__ import annotations

import functools
import logging
import pickle
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import TYPE_CHECKING, Any

import launchpad as lp
import numpy as np

from repertory.components import core
from repertory.launch import channels
from repertory.launch import control as control_lib
from repertory.replay import info

if TYPE_CHECKING:
    from repertory.components import actor as actor_lib

# The coordinator notices sooner who is lost, and ends the run. Who builds networks, or
# meets other learners, has no server yet and is not.
_GIVE_UP_SECONDS = 900.0
_POLL_SECONDS = 60.0  # For a learner to listen for the first time.
_PAUSE_SECONDS = 0.1  # Between a call that failed and the next.
_ASK_SECONDS = 3.0

_logger = logging.getLogger(__name__)


def call(start: Callable[[], futures.Future], wait: Callable[[float], None]) -> Any:
    """Returns the result of a call, begun anew where it fails.

    Args:
        start: begins the call.
        wait: takes the seconds waited, each second or more often; may raise.

    Raises:
        Exception: what the last call raised, after 15 minutes.
    """
    begin = time.monotonic()
    future = start()
    while True:
        waited = time.monotonic() - begin
        try:
            return future.result(timeout=1.0)
        except futures.TimeoutError:
            pass
        except Exception:  # Courier's own type, for a call whose time is over as well.
            if waited > _GIVE_UP_SECONDS:
                raise
            wait(waited)
            time.sleep(_PAUSE_SECONDS)
            future = start()
            continue
        wait(waited)


def versioned(
    source: core.VariableSource,
) -> Callable[[int], tuple[int, Sequence[np.ndarray]]]:
    """Returns what a node serves as `get_variables`.

    It takes the version that the caller has, and returns that of `source` with its
    arrays, or with none where the two are the same.
    """

    def get_variables(known: int) -> tuple[int, Sequence[np.ndarray]]:
        version, arrays = source.get_variables()
        return version, () if version == known else arrays

    return get_variables


class RemoteVariables(core.VariableSource):
    """The learner's parameters, or a relay's, over Courier.

    Arrays are sent only where there are newer ones.
    """

    def __init__(self, client: lp.CourierClient, control: control_lib.NodeControl):
        self._client = client
        self._control = control
        self._newest: tuple[int, Sequence[np.ndarray]] = -1, ()

    def get_variables(self) -> tuple[int, Sequence[np.ndarray]]:
        def wait(seconds: float) -> None:
            if self._control.phase != 'final_evaluation':
                self._control.wait('parameters from the learner', seconds)

        def ask() -> futures.Future:
            return self._client.futures.get_variables(self._newest[0])

        begin = time.monotonic()
        # gRPC looks but once a second for a learner that starts, then more seldom.
        while self._newest[0] < 0 and not info.is_listening(self._client.address):
            waited = time.monotonic() - begin
            if waited > _POLL_SECONDS:
                break
            wait(waited)
            time.sleep(_PAUSE_SECONDS)
        while True:
            answer = call(ask, wait)
            if answer[0] != self._newest[0]:
                self._newest = answer
            if self._newest[0] >= 0:
                return self._newest
            wait(time.monotonic() - begin)  # A relay has none before its first fetch.
            time.sleep(_PAUSE_SECONDS)


class RemoteInference:
    """What an `actor.AskingActor` asks: the inference server in another process."""

    def __init__(
        self,
        client: channels.Client,
        control: control_lib.NodeControl,
        actor: int,
        run: str,
    ):
        """Asks as the actor of index `actor`, in the process that `run` names.

        Args:
            client: its calls need a time-out of a second or so, since `control` is
                asked between two of them whether the run goes on.
        """
        self._client = client
        self._control = control
        self._actor = actor
        self._run = run
        self._step = 0

    def __call__(
        self, observation: list[np.ndarray], first: np.ndarray
    ) -> Callable[[], actor_lib.Answer]:
        """Asks, and returns at once what waits for the answer.

        That asks again as long as there is none, and raises `core.Stopped` if the run
        is ending, RuntimeError if there is none for 15 minutes.
        """
        # A call that has arrays among its arguments never reaches a Courier server.
        asked = self._actor, self._run, self._step, observation, first
        packed = pickle.dumps(asked, protocol=5)
        answer = self._client.act(packed)
        wait = functools.partial(self._wait_for, answer, packed, self._step)
        self._step += 1
        return wait

    def _wait_for(
        self, answer: Callable[[], bytes], packed: bytes, step: int
    ) -> actor_lib.Answer:
        begin = time.monotonic()
        while True:
            try:
                return pickle.loads(answer())
            except Exception as error:  # Courier's own type, for anything at all.
                waited = time.monotonic() - begin
                if waited > _GIVE_UP_SECONDS:
                    raise RuntimeError(
                        f'the inference server must answer actor {self._actor} within '
                        f'{_GIVE_UP_SECONDS:g} s, got no answer to step {step} in '
                        f'{waited:.0f} s: {error}'
                    ) from error
                self._control.wait('actions from the inference server', waited)
                time.sleep(_PAUSE_SECONDS)
                # The server knows the step by its number, and takes it once.
                answer = self._client.act(packed)


class RemoteCoordinator:
    """Asks the coordinator of a program, as a launcher does: at once or not at all."""

    def __init__(self, node: lp.CourierNode):
        self._handle = node.create_handle()
        self._handle.set_client_kwargs(call_timeout=_ASK_SECONDS)

    def ask(self, method: str, *arguments: str) -> Any:
        """Returns what it answers, or True; False if it does not within 3 s."""
        try:
            # Where it is now: it may have moved.
            answer = getattr(self._handle.dereference(), method)(*arguments)
        except Exception as error:  # Courier's own type, for anything at all.
            _logger.warning('The coordinator does not answer: %s', error)
            return False
        return True if answer is None else answer
