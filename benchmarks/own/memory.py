"""Our side of benchmarks/memory.py: an actor's process in a run of processes.

`remember` prints the most memory that it had, and the most that was its share where
what several processes have in common is divided among them (`Pss`).
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import tempfile

import psutil

from benchmarks import timing
from benchmarks.own import configs
from repertory.launch import experiment, launcher, program, run_folder

_EVERY_SECONDS = 0.5
_START_SECONDS = 10.0  # Imports and compilation.


def remember(args: argparse.Namespace) -> None:
    """Runs replay, learner and one actor for `--seconds`."""
    config = experiment.ExperimentConfig(
        agent=configs.make_config(args),
        environment='control:cartpole:swingup' if args.agent == 'd4pg' else 'catch',
        seed=args.seed,
        max_actor_steps=None,
        max_seconds=args.seconds + _START_SECONDS,
    )
    topology = experiment.Topology(envs_per_actor=args.lanes, evaluators=0)
    resident, shares = [], []
    with tempfile.TemporaryDirectory() as scratch:
        folder = run_folder.open_folder(config, topology, pathlib.Path(scratch) / 'run')
        run = launcher.launch(
            program.make_program(config, topology, folder.path),
            'processes',
            folder.path,
            program.process_environments(config, topology),
        )
        (actor,) = (node for node in run.nodes if node.name.startswith('actor'))
        while run.alive:
            try:
                run.wait(_EVERY_SECONDS).check()
            except TimeoutError:
                if actor.pid is None:  # Not forked yet.
                    continue
                with contextlib.suppress(psutil.Error):  # It may end before the rest.
                    memory = psutil.Process(actor.pid).memory_full_info()
                    resident.append(memory.rss / 1e6)
                    shares.append(memory.pss / 1e6)
    timing.report({'resident_megabytes': max(resident), 'share_megabytes': max(shares)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    configs.add_arguments(parser)
    command = parser.add_subparsers(required=True).add_parser('remember')
    command.add_argument('--seconds', type=float, default=20.0)
    command.add_argument('--seed', type=int, default=0)
    remember(parser.parse_args())


if __name__ == '__main__':
    main()
