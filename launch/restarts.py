"""Which nodes are started again when they fail, and how often."""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping

_MAX_BACKOFF_SECONDS = 30.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class RestartPolicy:
    """How often a node that fails is started again."""

    max_restarts: int = 5
    """Restarts of one node within the window; the failure after them ends the run."""

    window_seconds: float = 300.0
    """Seconds for which a restart counts."""

    backoff_seconds: float = 1.0
    """Seconds from a failure to the restart; doubled by each that counts, up to 30."""

    def __post_init__(self) -> None:
        if isinstance(self.max_restarts, bool) or not isinstance(
            self.max_restarts, int
        ):
            raise TypeError(
                f'max_restarts must be an integer, got {self.max_restarts!r}.'
            )
        if self.max_restarts < 1:
            raise ValueError(
                f'max_restarts must be >= 1, got {self.max_restarts}; leave a group '
                'out where it is not to be restarted.'
            )
        if not self.window_seconds > 0:
            raise ValueError(f'window_seconds must be > 0, got {self.window_seconds}.')
        if not self.backoff_seconds >= 0:
            raise ValueError(
                f'backoff_seconds must be >= 0, got {self.backoff_seconds}.'
            )


class TogetherPolicy(RestartPolicy):
    """The same for a group none of whose nodes can go on without the others.

    Where one fails, all of them are ended and started again; it counts once. Where the
    program ends already, the others are left to end, and it is started again alone.
    """


class RestartBudget:
    """The restarts of one node that are left."""

    def __init__(
        self, policy: RestartPolicy, clock: Callable[[], float] = time.monotonic
    ):
        """Begins with all of them; `clock` gives seconds, for tests."""
        self._policy = policy
        self._clock = clock
        self._times: collections.deque[float] = collections.deque()

    def spend(self) -> float | None:
        """Takes one; returns the seconds to wait first, or None if none is left."""
        now = self._clock()
        while self._times and now - self._times[0] > self._policy.window_seconds:
            self._times.popleft()
        if len(self._times) >= self._policy.max_restarts:
            return None
        self._times.append(now)
        delay = self._policy.backoff_seconds * 2 ** (len(self._times) - 1)
        return min(delay, _MAX_BACKOFF_SECONDS)

    def __str__(self) -> str:
        return (
            f'restart {len(self._times)} of {self._policy.max_restarts} within '
            f'{self._policy.window_seconds:g} s'
        )


def check_threads(groups: Iterable[str], where: str) -> None:
    """Refuses to restart `groups` where nodes are no processes.

    Raises:
        ValueError: if there are any; `where` says why, such as `in threads`.
    """
    if names := sorted(groups):
        raise ValueError(
            f'restart must be empty {where}, got {", ".join(names)}; what is no '
            'process of its own cannot be ended to start it again: launch processes.'
        )


def check(
    restarts: Mapping[str, RestartPolicy], mode: str, sizes: Mapping[str, int]
) -> None:
    """Refuses policies that a program cannot have.

    Args:
        restarts: by group.
        mode: how it is launched.
        sizes: nodes of each group.

    Raises:
        ValueError: if threads are to be restarted, or one of several learners alone.
    """
    if mode == 'threads':
        check_threads(restarts, 'in threads')
    policy = restarts.get('learner')
    is_alone = policy is not None and not isinstance(policy, TogetherPolicy)
    if is_alone and sizes.get('learner', 0) > 1:
        raise ValueError(
            'restarts must have a TogetherPolicy for several learners, got '
            f'{policy}; the others would wait for ever: program.restart_policies.'
        )
