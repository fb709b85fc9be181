"""A logger of one's own: each role's rows as lines of JSON, beside the other records.

python examples/own_logger.py
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib

from repertory.agents import apex_dqn
from repertory.components import core
from repertory.launch import experiment, local


class JSONLogger(core.Logger):
    """Appends each row to a file; rows may hold numbers, strings and mappings."""

    def __init__(self, path: pathlib.Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, 'a')  # noqa: SIM115

    def write(self, values) -> None:
        self._file.write(json.dumps(values, default=float) + '\n')
        self._file.flush()  # A process that is killed loses what it has not flushed.

    def close(self) -> None:
        self._file.close()


def make_logger(folder: str, role: str) -> JSONLogger:
    """Returns the logger of a role, such as `learner`; called in its own process."""
    return JSONLogger(pathlib.Path(folder) / f'{role}.jsonl')


def make_experiment(max_actor_steps: int, folder: str) -> experiment.ExperimentConfig:
    """Returns what is run."""
    return experiment.ExperimentConfig(
        agent=apex_dqn.Config(),
        environment='catch',
        logger=functools.partial(make_logger, folder),
        max_actor_steps=max_actor_steps,
    )


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--max-actor-steps', default=5_000, type=int)
    parser.add_argument('--folder', default='rows')
    flags = parser.parse_args()
    print(local.run_experiment(make_experiment(flags.max_actor_steps, flags.folder)))
    print((pathlib.Path(flags.folder) / 'evaluator.jsonl').read_text())
