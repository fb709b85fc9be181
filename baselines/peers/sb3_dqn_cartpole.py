"""Stable-Baselines3's DQN on CartPole-v1, as RL Baselines3 Zoo runs it; see run.py.

Runs under the environment that benchmarks/peers/sb3/setup_peer.sh makes, for the steps
that the Zoo trains it for; evaluated by 20 greedy episodes, as ours is.
"""

from __future__ import annotations

import csv
import sys
import time

import gymnasium
import torch
from stable_baselines3.common import callbacks, evaluation

from benchmarks.peers.sb3 import parts

_PERIOD, _EPISODES = 2_000, 20


class Evaluation(callbacks.BaseCallback):
    """Writes a row before the first step, every `_PERIOD` steps and after the last."""

    def __init__(self, seed: int, file):
        super().__init__()
        self._environment = gymnasium.make('CartPole-v1')
        self._environment.reset(seed=seed + 1_000)
        self._file, self._writer = file, csv.writer(file)
        self._begin = time.monotonic()
        self._writer.writerow(
            ['actor_steps', 'learner_steps', 'seconds', 'episode_return']
        )

    def evaluate(self) -> None:
        value, _ = evaluation.evaluate_policy(
            self.model,
            self._environment,
            n_eval_episodes=_EPISODES,
            deterministic=True,
            warn=False,
        )
        seconds = round(time.monotonic() - self._begin, 3)
        model = self.model
        self._writer.writerow(
            [model.num_timesteps, model._n_updates, seconds, float(value)]
        )
        self._file.flush()

    def _on_training_start(self) -> None:
        self.evaluate()

    def _on_step(self) -> bool:
        if self.num_timesteps % _PERIOD == 0:
            self.evaluate()
        return True

    def _on_training_end(self) -> None:
        self.evaluate()


def main() -> None:
    seed, path = int(sys.argv[1]), sys.argv[2]
    # Beside other work two threads spend their time waiting for each other.
    torch.set_num_threads(1)
    with open(path, 'w', newline='') as file:
        model = parts.make_dqn(seed, parts.ZOO_STEPS)
        model.learn(parts.ZOO_STEPS, callback=Evaluation(seed, file))


if __name__ == '__main__':
    main()
