"""The previous action and reward beside the observation."""

from __future__ import annotations

import dm_env
import numpy as np
import tree
from dm_env import specs

from repertory.components import types
from repertory.components.environments.wrappers import base

_KEYS = {'observation', 'action', 'reward'}


class ObservationActionReward(base.EnvironmentWrapper):
    """Turns an observation into a dict of 'observation', 'action' and 'reward'.

    'action' is what led here: float32 [A], one-hot, for a discrete action of A values,
    else the action itself. 'reward' came with it, in the reward's dtype. At FIRST both
    are zeros. Recurrent agents take these as inputs: Kapturowski et al. (2019),
    "Recurrent Experience Replay in Distributed Reinforcement Learning", app.
    """

    def __init__(self, environment: dm_env.Environment):
        super().__init__(environment)
        self._action_spec = environment.action_spec()
        self._reward_spec = environment.reward_spec()
        self._seen_action_spec = tree.map_structure(_seen, self._action_spec)
        self._zero_action = tree.map_structure(
            lambda spec: np.zeros(spec.shape, spec.dtype), self._seen_action_spec
        )
        self._zero_reward = np.zeros(self._reward_spec.shape, self._reward_spec.dtype)

    def reset(self) -> dm_env.TimeStep:
        return self._first(self._environment.reset())

    def step(self, action) -> dm_env.TimeStep:
        # Copied before: the environment may write to its action.
        seen = tree.map_structure(_see, action, self._action_spec)
        timestep = self._environment.step(action)
        if timestep.first():
            return self._first(timestep)
        reward = np.asarray(timestep.reward, self._reward_spec.dtype)
        return self._extend(timestep, seen, reward)

    def observation_spec(self) -> types.Nest:
        return {
            'observation': self._environment.observation_spec(),
            'action': self._seen_action_spec,
            'reward': self._reward_spec,
        }

    def _first(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
        return self._extend(timestep, self._zero_action, self._zero_reward)

    def _extend(self, timestep: dm_env.TimeStep, action, reward) -> dm_env.TimeStep:
        return timestep._replace(
            observation={
                'observation': timestep.observation,
                'action': action,
                'reward': reward,
            }
        )


def wrap(environment: dm_env.Environment) -> dm_env.Environment:
    """Returns `environment` with action and reward beside the observation.

    It is returned as it is if its observation is such a dict already.
    """
    if is_extended(environment.observation_spec()):
        return environment
    return ObservationActionReward(environment)


def is_extended(observation_spec: types.Nest) -> bool:
    """Says whether observations are dicts as this wrapper makes them."""
    return isinstance(observation_spec, dict) and set(observation_spec) == _KEYS


def _seen(spec: specs.Array) -> specs.Array:
    if isinstance(spec, specs.DiscreteArray):
        return specs.BoundedArray((spec.num_values,), np.float32, 0, 1, spec.name)
    return spec


def _see(action, spec: specs.Array) -> np.ndarray:
    if not isinstance(spec, specs.DiscreteArray):
        return np.array(action, spec.dtype)
    one_hot = np.zeros(spec.num_values, np.float32)
    one_hot[action] = 1
    return one_hot
