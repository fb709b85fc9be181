"""The interfaces between parts. All parts are batched over lanes.

Nothing here imports TensorFlow, Reverb or Launchpad.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from repertory.components import specs, types

if TYPE_CHECKING:
    from repertory.components import collectives


class Stopped(Exception):  # noqa: N818
    """Raised out of a wait when the run is being stopped."""


class Wait(Protocol):
    """Is called each second or more often by whatever blocks.

    It reports, after some seconds, what is waited for and why; it raises Stopped
    when the run is being stopped.
    """

    def __call__(self, reason: str, waited_seconds: float) -> None: ...


@dataclasses.dataclass(frozen=True)
class Role:
    """Which actor a policy or an adder is made for.

    Attributes:
        actor_index: in [0, num_actors); of an evaluator, which one it is.
        num_actors: actors of the run, at least 1.
        evaluation: True for an evaluator.
        num_lanes: environments that the actor drives in lockstep.
        seed: of this role's random numbers; differs by (experiment seed, role).
    """

    actor_index: int = 0
    num_actors: int = 1
    evaluation: bool = False
    num_lanes: int = 1
    seed: int = 0

    @property
    def name(self) -> str:
        if self.evaluation:
            return f'evaluator_{self.actor_index}' if self.actor_index else 'evaluator'
        return f'actor_{self.actor_index}'


class VectorEnvironment(abc.ABC):
    """N environments stepped in lockstep, a context manager.

    See `types.TimeStep` for episode ends.
    """

    num_lanes: int
    spec: specs.EnvironmentSpec
    _begun = False

    @abc.abstractmethod
    def reset(self) -> types.TimeStep:
        """Starts a new episode in each lane; every step is FIRST."""

    @abc.abstractmethod
    def step(self, action: types.Nest) -> types.TimeStep:
        """Steps each lane by its row of `action` [N, ...]; a LAST lane is reset.

        The arrays of the returned step are not written to by later steps.
        """

    def begin_step(self, action: types.Nest) -> bool:
        """Begins what `step` does; returns whether it goes on without this thread.

        Nothing but `end_step` and `close` may be called next.

        Raises:
            RuntimeError: if a step is begun already.
        """
        self._note_begun(True)
        self._action = action
        return False

    def end_step(self) -> types.TimeStep:
        """Returns what `step` does, once the step that was begun is done.

        Raises:
            RuntimeError: if none is.
        """
        self._note_begun(False)
        return self.step(self._action)

    def _refuse_if_begun(self) -> None:
        if self._begun:
            self._note_begun(True)

    def _note_begun(self, begun: bool) -> None:
        if begun == self._begun:
            got = 'another call' if begun else 'end_step without one'
            raise RuntimeError(
                f'begin_step must be followed by end_step, got {got}; lanes would be '
                'out of step.'
            )
        self._begun = begun

    @abc.abstractmethod
    def close(self) -> None:
        """Ends processes and environments; may be called twice."""

    def __enter__(self):
        return self

    def __exit__(self, *unused) -> None:
        self.close()


class Actor(abc.ABC):
    """Acts in N lanes and records what it sees."""

    @abc.abstractmethod
    def observe_first(self, timestep: types.TimeStep) -> None:
        """Takes the first step after a reset of all lanes."""

    @abc.abstractmethod
    def select_action(self, observation: types.Nest) -> types.Nest:
        """Returns actions [N, ...] for the observations [N, ...] last observed."""

    def record(self, action: types.Nest) -> None:
        """Records the action just selected; what is left out here, `observe` does.

        It is called while the lanes step, where `begin_step` has returned True.
        """
        del action

    @abc.abstractmethod
    def observe(self, action: types.Nest, next_timestep: types.TimeStep) -> None:
        """Takes the step that the action led to, and records the action if need be."""

    @abc.abstractmethod
    def update(self, wait: bool = False) -> None:
        """Takes newer parameters if there are any; blocks for them only if `wait`."""

    def close(self) -> None:  # noqa: B027
        """Ends what runs beside the caller's thread; may be called twice."""


class Adder(abc.ABC):
    """Turns the rows of N lanes into items of a replay table.

    A context manager: leaving it closes the writers.
    """

    @property
    @abc.abstractmethod
    def num_items(self) -> int:
        """Items created since the start."""

    @abc.abstractmethod
    def add(self, row: types.Row) -> None:
        """Appends one row for each lane, [N, ...]; may block on the rate limiter."""

    @abc.abstractmethod
    def flush(self) -> None:
        """Returns when every item created is in its table."""

    @abc.abstractmethod
    def close(self) -> None:
        """Drops what is not flushed and closes the writers; may be called twice."""

    def __enter__(self):
        return self

    def __exit__(self, *unused) -> None:
        self.close()


class VariableSource(abc.ABC):
    """Publishes the parameters that actors act with."""

    @abc.abstractmethod
    def get_variables(self) -> tuple[int, Sequence[np.ndarray]]:
        """Returns their version, in learner steps, and the arrays; never blocks."""


class PriorityUpdater(Protocol):
    """Takes the new priorities of sampled items; see `replay.priorities`."""

    def __call__(self, keys: np.ndarray, priorities: np.ndarray) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class Learner(VariableSource):
    """Learns from sampled batches."""

    @property
    @abc.abstractmethod
    def steps(self) -> int:
        """Learner steps done, resumed ones included."""

    @abc.abstractmethod
    def step(self) -> Mapping[str, float]:
        """Does a call's worth of learner steps; returns their mean metrics."""

    def prepare(self) -> None:
        """Traces ahead what the first `step` needs, while its sample is waited for.

        It takes no sample and changes no variable. To be called after `join` and
        `restore`, or not at all.
        """

    def join(self, group: collectives.Group) -> None:
        """Learns as one with the others of `group` from now on; see `SGDLearner.join`.

        Raises:
            TypeError: if it cannot.
        """
        raise TypeError(
            f'num_learners must be 1 for {type(self).__name__}, got {group.size}; it '
            'has no `join`, by which a learner learns as one with others.'
        )

    def flush(self) -> None:
        """Returns when the priorities of all steps done are written."""

    def close(self) -> None:
        """Ends what runs in the background; may be called twice."""

    @abc.abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """Returns copies of all that a resumed run needs, by name."""

    @abc.abstractmethod
    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Takes what `state` returned.

        Raises:
            ValueError: if a name, shape or dtype does not fit, naming it.
        """


class Logger(abc.ABC):
    """Takes rows of named values; a context manager."""

    @abc.abstractmethod
    def write(self, values: Mapping[str, Any]) -> None:
        """Records one row; names may differ from row to row."""

    @abc.abstractmethod
    def close(self) -> None:
        """Writes out what is held; may be called twice."""

    def __enter__(self):
        return self

    def __exit__(self, *unused) -> None:
        self.close()
