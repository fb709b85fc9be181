"""Drives an actor through a vector environment, and tells of finished episodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from repertory.components import core, types


@dataclasses.dataclass(frozen=True)
class Episode:
    """One finished episode: `length` in environment steps, the plain sum of rewards."""

    lane: int
    episode_return: float
    length: int


def summarize(episodes: Sequence[Episode]) -> dict[str, float]:
    """Returns mean return and length, and the number of episodes."""
    returns = [episode.episode_return for episode in episodes]
    return {
        'episode_return': float(np.mean(returns)),
        'episode_return_min': float(np.min(returns)),
        'episode_return_max': float(np.max(returns)),
        'episode_length': float(np.mean([episode.length for episode in episodes])),
        'episodes': len(episodes),
    }


class EnvironmentLoop:
    """Steps all lanes at once; one call of `step` is one vector step.

    Args:
        environment: N lanes.
        actor: acts in them.
        on_episode: is called with each finished episode.
    """

    def __init__(
        self,
        environment: core.VectorEnvironment,
        actor: core.Actor,
        on_episode: Callable[[Episode], None],
    ):
        self._environment = environment
        self._actor = actor
        self._on_episode = on_episode
        self._returns = np.zeros(environment.num_lanes)
        self._lengths = np.zeros(environment.num_lanes, np.int64)
        self._timestep: types.TimeStep | None = None

    def reset(self) -> types.TimeStep:
        """Starts a new episode in each lane, and returns its first step."""
        self._returns[:] = 0.0
        self._lengths[:] = 0
        timestep = self._timestep = self._environment.reset()
        self._actor.observe_first(timestep)
        return timestep

    def step(self) -> int:
        """Takes one vector step; returns how many environment steps it was.

        A lane that begins anew takes no environment step.
        """
        before = self.reset() if self._timestep is None else self._timestep
        action = self._actor.select_action(before.observation)
        if self._environment.begin_step(action):
            self._actor.record(action)
        timestep = self._environment.end_step()
        self._actor.observe(action, timestep)
        self._timestep = timestep
        moved = timestep.step_type != types.StepType.FIRST
        self._returns += timestep.reward
        self._lengths += moved
        if timestep.step_type.max() == types.StepType.LAST:
            for lane in np.flatnonzero(timestep.step_type == types.StepType.LAST):
                episode = Episode(
                    int(lane), float(self._returns[lane]), int(self._lengths[lane])
                )
                self._returns[lane] = 0.0
                self._lengths[lane] = 0
                self._on_episode(episode)
        return int(np.count_nonzero(moved))


def run_episodes(
    environment: core.VectorEnvironment,
    actor: core.Actor,
    num_episodes: int,
    keep_going: Callable[[], None] = lambda: None,
) -> list[Episode]:
    """Runs whole episodes and returns them.

    Each lane plays its share, and no more is counted: taking whichever episodes end
    first would prefer short ones.

    Args:
        environment: N lanes, which are reset.
        actor: acts in them.
        num_episodes: at least 1.
        keep_going: is called at each vector step; it may raise to end the run early.
    """
    if num_episodes < 1:
        raise ValueError(f'num_episodes must be >= 1, got {num_episodes}.')
    lanes = environment.num_lanes
    share = [num_episodes // lanes + (i < num_episodes % lanes) for i in range(lanes)]
    episodes: list[Episode] = []

    def on_episode(episode: Episode) -> None:
        if share[episode.lane] > 0:
            share[episode.lane] -= 1
            episodes.append(episode)

    loop = EnvironmentLoop(environment, actor, on_episode)
    loop.reset()
    while any(share):
        keep_going()
        loop.step()
    return episodes
