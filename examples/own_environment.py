"""An environment of one's own: training in it, and using the policy afterwards.

python examples/own_environment.py
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile

import dm_env
import numpy as np
from dm_env import specs

from repertory.agents import apex_dqn
from repertory.launch import experiment, exported, local


class Guess(dm_env.Environment):
    """The observation says which action to take; ten actions make an episode."""

    def __init__(self, seed: int):
        self._random = np.random.default_rng(seed)
        self._symbol = self._left = 0

    def reset(self) -> dm_env.TimeStep:
        self._left = 10
        return dm_env.restart(self._observe())

    def step(self, action: np.ndarray) -> dm_env.TimeStep:
        reward = float(action == self._symbol)
        self._left -= 1
        if self._left:
            return dm_env.transition(reward, self._observe())
        # `truncation` would say that the episode could have gone on.
        return dm_env.termination(reward, self._observe())

    def _observe(self) -> dict[str, np.ndarray]:
        self._symbol = int(self._random.integers(4))
        one_hot = np.eye(4, dtype=np.float32)[self._symbol]
        return {'symbol': one_hot, 'left': np.int32(self._left)}

    def observation_spec(self) -> dict[str, specs.Array]:
        symbol = specs.BoundedArray((4,), np.float32, 0, 1, 'symbol')
        return {'symbol': symbol, 'left': specs.Array((), np.int32, 'left')}

    def action_spec(self) -> specs.DiscreteArray:
        return specs.DiscreteArray(4, name='action')


def make_experiment(max_actor_steps: int) -> experiment.ExperimentConfig:
    """Returns what is run; the class is the function that makes an environment."""
    return experiment.ExperimentConfig(
        agent=apex_dqn.Config(discount=0.9),
        environment=Guess,
        max_actor_steps=max_actor_steps,
        target_return=10.0,
    )


def main() -> None:
    """Trains, then plays five episodes with the exported policy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--max-actor-steps', default=20_000, type=int)
    flags = parser.parse_args()
    run_dir = pathlib.Path(tempfile.mkdtemp())
    local.run_experiment(make_experiment(flags.max_actor_steps), run_dir=run_dir)
    policy = exported.load_policy(run_dir / 'policy')
    print('returns:', exported.evaluate(policy, Guess, episodes=5, seed=1))


if __name__ == '__main__':
    main()
