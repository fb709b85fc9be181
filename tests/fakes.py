"""Environments whose every step is known beforehand, and an actor that is idle."""

from __future__ import annotations

from collections.abc import Sequence

import dm_env
import numpy as np
from dm_env import specs

from repertory.components import core


class _Fake(dm_env.Environment):
    """Keeps the actions that it was given; `_start` and `_advance` do the rest."""

    def __init__(self):
        self.actions = []
        self._ended = True

    def reset(self) -> dm_env.TimeStep:
        self._ended = False
        return dm_env.restart(self._start())

    def step(self, action) -> dm_env.TimeStep:
        if self._ended:
            return self.reset()
        self.action_spec().validate(action)
        self.actions.append(action)
        timestep = self._advance(action)
        self._ended = timestep.last()
        return timestep

    def action_spec(self):
        return specs.DiscreteArray(2, name='action')


class ScriptedEnvironment(_Fake):
    """Plays given episodes over and over.

    The observation is float32 [2]: the number of the episode, counted from 0 without
    end, and of the step in it.

    Args:
        rewards: of each episode, one a step.
        truncated: whether each episode is cut (discount 1) or terminates (0).
    """

    def __init__(
        self, rewards: Sequence[Sequence[float]], truncated: Sequence[bool] | bool
    ):
        super().__init__()
        self._rewards = [tuple(episode) for episode in rewards]
        if isinstance(truncated, bool):
            truncated = [truncated] * len(self._rewards)
        self._truncated = list(truncated)
        self._episode = -1
        self._step = 0

    def observation_spec(self):
        return specs.Array((2,), np.float32, 'tag')

    def _start(self):
        self._episode += 1
        self._step = 0
        return self._tag()

    def _advance(self, action):
        index = self._episode % len(self._rewards)
        reward = self._rewards[index][self._step]
        self._step += 1
        if self._step < len(self._rewards[index]):
            return dm_env.transition(reward, self._tag())
        if self._truncated[index]:
            return dm_env.truncation(reward, self._tag())
        return dm_env.termination(reward, self._tag())

    def _tag(self) -> np.ndarray:
        return np.array([self._episode, self._step], np.float32)


class NestedEnvironment(_Fake):
    """Gives dicts in tuples in dicts, of many dtypes and with unsorted keys.

    Also takes such actions. All values tell the seed, the episode and the step.
    """

    def __init__(self, seed: int = 0, episode_length: int = 3):
        super().__init__()
        self._seed = seed
        self._length = episode_length
        self._episode = -1
        self._step = 0

    def observation_spec(self):
        return {
            'pixels': specs.BoundedArray((4, 3, 1), np.uint8, 0, 255, 'pixels'),
            'body': (
                specs.Array((), np.int32, 'count'),
                {
                    'velocity': specs.Array((2,), np.float64, 'velocity'),
                    'contact': specs.Array((3,), bool, 'contact'),
                },
            ),
            'angle': specs.BoundedArray((1,), np.float32, -1e3, 1e3, 'angle'),
            'tick': specs.Array((1,), np.int64, 'tick'),
        }

    def action_spec(self):
        return {
            'push': specs.BoundedArray((1,), np.float32, -1, 1, 'push'),
            'jump': specs.DiscreteArray(2, np.int64, name='jump'),
        }

    def step(self, action):
        if self._ended:
            return self.reset()
        for name, spec in self.action_spec().items():
            spec.validate(action[name])
        self.actions.append(action)
        timestep = self._advance(action)
        self._ended = timestep.last()
        return timestep

    def _start(self):
        self._episode += 1
        self._step = 0
        return self._observation()

    def _advance(self, action):
        self._step += 1
        reward = float(self._step)
        if self._step < self._length:
            return dm_env.transition(reward, self._observation())
        if self._episode % 2:
            return dm_env.truncation(reward, self._observation())
        return dm_env.termination(reward, self._observation())

    def _observation(self):
        step = self._step
        return {
            'pixels': np.full((4, 3, 1), (10 * self._episode + step) % 256, np.uint8),
            'body': (
                np.int32(self._seed),
                {
                    'velocity': np.array([0.1 * step, -step], np.float64),
                    'contact': np.arange(3) == step,
                },
            ),
            'angle': np.array([self._episode + step / 8], np.float32),
            'tick': np.array([2**40 + step], np.int64),
        }


class NaNEnvironment(ScriptedEnvironment):
    """Gives `value` in `field` ('observation', 'reward') at step `at_step` of each
    episode; episodes last 10 steps."""

    def __init__(
        self, at_step: int, field: str = 'observation', value: float = float('nan')
    ):
        super().__init__([[1.0] * 10], truncated=False)
        self._at_step = at_step
        self._field = field
        self._value = value

    def _advance(self, action):
        timestep = super()._advance(action)
        if self._step != self._at_step:
            return timestep
        if self._field == 'reward':
            return timestep._replace(reward=self._value)
        return timestep._replace(observation=np.array([self._value, 0], np.float32))


class CliffWalk(_Fake):
    """The blind cliff-walk of n states.

    In each state one of two actions is right, by turns 0 and 1; it leads on, and out
    of the last state to the end with reward 1. The wrong one ends the episode with
    reward 0. The observation is float32 [n], one-hot, zeros at the end.

    Reference: Schaul et al. (2016), "Prioritized Experience Replay", sec. 3.1.
    """

    def __init__(self, num_states: int):
        super().__init__()
        self._num_states = num_states
        self._state = 0

    def observation_spec(self):
        return specs.BoundedArray((self._num_states,), np.float32, 0, 1, 'state')

    def _start(self):
        self._state = 0
        return self._one_hot()

    def _advance(self, action):
        if action != self._state % 2:
            self._state = self._num_states
            return dm_env.termination(0.0, self._one_hot())
        self._state += 1
        if self._state < self._num_states:
            return dm_env.transition(0.0, self._one_hot())
        return dm_env.termination(1.0, self._one_hot())

    def _one_hot(self) -> np.ndarray:
        return (np.arange(self._num_states) == self._state).astype(np.float32)


class Forever(dm_env.Environment):
    """Rewards of 1, cut after 10 steps though nothing has ended."""

    def __init__(self, seed):
        del seed
        self._time = 0

    def reset(self):
        self._time = 0
        return dm_env.restart(np.zeros(1, np.float32))

    def step(self, action):
        self._time += 1
        observation = np.full(1, self._time / 10, np.float32)
        if self._time < 10:
            return dm_env.transition(1.0, observation)
        return dm_env.truncation(1.0, observation)

    def observation_spec(self):
        return dm_env.specs.Array((1,), np.float32)

    def action_spec(self):
        return dm_env.specs.BoundedArray((1,), np.float32, -1, 1)


class Idle(core.Actor):
    """Always takes action 0; keeps the steps it is given."""

    def __init__(self, lanes):
        self._lanes = lanes
        self.steps = []

    def observe_first(self, timestep):
        self.steps = [timestep]

    def select_action(self, observation):
        return np.zeros(self._lanes, np.int32)

    def observe(self, action, next_timestep):
        self.steps.append(next_timestep)

    def update(self, wait=False):
        pass


def no_wait(reason, waited_seconds):
    """A `core.Wait` for what is not to wait long."""
    assert waited_seconds < 20, reason
