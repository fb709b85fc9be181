"""The peer's side of benchmarks/whole.py: Stable-Baselines3's DQN on CartPole.

With the hyperparameters that RL Baselines3 Zoo tuned for this task. Its exploration
ends after 0.16 of 50,000 steps; where the mark is not reached in those, it goes on.
"""

from __future__ import annotations

import argparse
import time

import gymnasium
from stable_baselines3.common import callbacks, evaluation

from benchmarks import timing
from benchmarks.peers.sb3 import parts

_ROUNDS = 20


class Stop(callbacks.BaseCallback):
    """Evaluates now and then, and ends the run at the mark or when its time is over."""

    def __init__(self, args: argparse.Namespace):
        super().__init__()
        self._args = args
        self._environment = gymnasium.make('CartPole-v1')
        self._environment.reset(seed=args.seed + 1_000)
        self._begin = time.monotonic()
        self._due = self._begin + args.period_seconds
        self.reached: float | None = None

    def _on_step(self) -> bool:
        now = time.monotonic()
        if now >= self._due:
            mean, _ = evaluation.evaluate_policy(
                self.model,
                self._environment,
                n_eval_episodes=self._args.episodes,
                deterministic=True,
                warn=False,
            )
            if mean >= self._args.mark:
                self.reached = time.time()
            self._due = time.monotonic() + self._args.period_seconds
        return self.reached is None and now - self._begin < self._args.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    command = parser.add_subparsers(required=True).add_parser('learn')
    timing.add_mark_arguments(command)
    args = parser.parse_args()
    steps = _ROUNDS * parts.ZOO_STEPS
    model = parts.make_dqn(args.seed, steps)
    stop, begin = Stop(args), time.monotonic()
    model.learn(total_timesteps=steps, callback=stop)
    timing.report(
        {
            'reached_at': stop.reached,
            'actor_steps': model.num_timesteps,
            'environment_steps_per_second': model.num_timesteps
            / (time.monotonic() - begin),
        }
    )


if __name__ == '__main__':
    main()
