"""Our side of benchmarks/whole.py: a whole run, from its command to the mark.

`learn` prints when an evaluation first had the mark, and how fast the run was.
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import tempfile
import time

from benchmarks import timing
from repertory.agents import apex_dqn, impala
from repertory.components import core
from repertory.launch import experiment, launcher, program, run_folder

_AGENTS = {
    ('apex_dqn', 'catch'): apex_dqn.Config(),
    ('apex_dqn', 'cartpole'): apex_dqn.CARTPOLE,
    ('impala', 'catch'): impala.Config(),
}
_RATES_AFTER_SECONDS = 1.0  # Of the first row, which comes once all is compiled.


class _Rows(core.Logger):
    """Keeps each row with its time, in a file."""

    def __init__(self, path: pathlib.Path):
        self._file = path.open('a')

    def write(self, values) -> None:
        row = {name: float(value) for name, value in values.items()}
        print(json.dumps({**row, 'time': time.time()}), file=self._file, flush=True)

    def close(self) -> None:
        self._file.close()


def _make_logger(folder: str, role: str) -> core.Logger:
    return _Rows(pathlib.Path(folder) / f'{role}.json')


def _read(path: pathlib.Path) -> list[dict]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def _rate(rows: list[dict], count: str) -> float | None:
    """Returns the growth of a count per second, once all is compiled."""
    begin = rows[0]['time'] + _RATES_AFTER_SECONDS if rows else 0.0
    later = [row for row in rows if row['time'] > begin]
    if len(later) < 2:
        return None
    first, last = later[0], later[-1]
    return (last[count] - first[count]) / (last['time'] - first['time'])


def learn(args: argparse.Namespace) -> None:
    """Runs until two evaluations in a row have the mark, or for `--seconds`."""
    with tempfile.TemporaryDirectory() as scratch:
        rows = f'{scratch}/rows'
        pathlib.Path(rows).mkdir()
        config = experiment.ExperimentConfig(
            agent=_AGENTS[args.agent, args.task],
            environment={'catch': 'catch', 'cartpole': 'gym:CartPole-v1'}[args.task],
            seed=args.seed,
            max_actor_steps=None,
            max_seconds=args.seconds,
            target_return=args.mark,
            evaluation_episodes=args.episodes,
            evaluation_period_seconds=args.period_seconds,
            logger=functools.partial(_make_logger, rows),
            logging=experiment.LoggingConfig(tensorboard=False),
        )
        # In one process there is no other place.
        apart = args.launch == 'processes'
        topology = experiment.Topology(
            envs_per_actor=args.lanes, replay=args.replay if apart else 'separate'
        )
        _run(config, topology, f'{scratch}/run', args.launch)
        evaluations = _read(pathlib.Path(rows) / 'evaluator.json')
        reached = [
            row
            for row in evaluations
            if args.mark is not None and row['episode_return'] >= args.mark
        ]
        learner = _read(pathlib.Path(rows) / 'learner.json')
        actor = _read(pathlib.Path(rows) / 'actor_0.json')
    shown = reached or evaluations[-1:]
    timing.report(
        {
            'reached_at': reached[0]['time'] if reached else None,
            'actor_steps': shown[0]['actor_steps'] if shown else None,
            'environment_steps_per_second': _rate(actor, 'actor_steps'),
            'learner_steps_per_second': _rate(learner, 'learner_steps'),
        }
    )


def _run(config, topology, run_dir: str, launch: str) -> None:
    if launch == 'sync':
        from repertory.launch import local  # Imports TensorFlow.

        local.run_experiment(config, topology, run_dir)
        return
    run_folder.open_folder(config, topology, run_dir)
    run = launcher.launch(
        program.make_program(config, topology, run_dir),
        launch,
        run_dir,
        program.process_environments(config, topology),
    )
    run.wait().check()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--agent', choices=('apex_dqn', 'impala'), default='apex_dqn')
    parser.add_argument('--lanes', type=int, default=16)
    parser.add_argument(
        '--launch', choices=('sync', 'threads', 'processes'), default='processes'
    )
    parser.add_argument('--replay', choices=('separate', 'learner'), default='separate')
    command = parser.add_subparsers(required=True).add_parser('learn')
    timing.add_mark_arguments(command)
    learn(parser.parse_args())


if __name__ == '__main__':
    main()
