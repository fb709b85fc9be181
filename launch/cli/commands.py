"""The commands beside `train`; each imports what it needs when it is called."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Sequence
from typing import Annotated

import tyro


def evaluate(arguments: Sequence[str]) -> int:
    """`repertory eval RUN_DIR`."""

    def command(
        run_dir: tyro.conf.Positional[pathlib.Path],
        episodes: int = 20,
        env: str | None = None,
        seed: int = 0,
    ) -> int:
        """Plays episodes with the policy that a run has exported.

        Args:
            run_dir: the run's folder.
            episodes: how many.
            env: an environment's name; by default that of the run.
            seed: of the environment.
        """
        from repertory.launch import exporting, run_folder

        folder = run_folder.open_run(run_dir)
        policy = exporting.load_policy(folder.policy)
        experiment = folder.load_config()
        if env is not None:
            experiment = dataclasses.replace(experiment, environment=env)
        returns = exporting.evaluate(
            policy, experiment.make_environment, episodes, seed
        )
        print(
            f'return over {len(returns)} episodes: mean {returns.mean():.4g}, '
            f'standard deviation {returns.std():.4g}, min {returns.min():.4g}, '
            f'max {returns.max():.4g}'
        )
        return 0

    return _run(command, 'repertory eval', arguments)


def plot(arguments: Sequence[str]) -> int:
    """`repertory plot RUN_DIR`."""

    def command(run_dir: tyro.conf.Positional[pathlib.Path]) -> int:
        """Draws the learning curve of a run into its folder.

        Args:
            run_dir: the run's folder.
        """
        from repertory.launch import plots

        print(plots.plot_run(run_dir))
        return 0

    return _run(command, 'repertory plot', arguments)


def replay(arguments: Sequence[str]) -> int:
    """`repertory replay serve --config FILE` and `repertory replay info ADDRESS`."""

    def serve(config: pathlib.Path) -> int:
        """Serves the tables of a file until it is stopped.

        Args:
            config: a YAML file that says which tables; see `replay.server.serve`.
        """
        from repertory.replay import server

        server.serve(config)
        return 0

    def info(address: tyro.conf.Positional[str]) -> int:
        """Prints what the tables of a replay server hold and wait for.

        Args:
            address: such as `localhost:8000`.
        """
        from repertory.replay import info

        info.print_info(address)
        return 0

    choices = {'serve': serve, 'info': info}
    if not arguments or arguments[0] not in choices:
        print('usage: repertory replay {serve,info} ...', file=sys.stderr)
        return 0 if arguments and arguments[0] in ('-h', '--help') else 2
    name = arguments[0]
    return _run(choices[name], f'repertory replay {name}', arguments[1:])


# What is built against each other: name -> the version that the others need.
_GOOD = {
    'tensorflow': '2.8.4',
    'dm-reverb': '0.7.2',
    'dm-launchpad': '0.5.2',
}


def doctor(arguments: Sequence[str]) -> int:
    """`repertory doctor`."""

    def command(verbose: Annotated[bool, tyro.conf.arg(aliases=['-v'])] = False) -> int:
        """Checks that the installed versions fit each other, and that they load.

        Args:
            verbose: show what is loaded.
        """
        from repertory.launch.cli import versions

        problems = versions.problems(_GOOD)
        for problem in problems:
            print(problem)
        if verbose or not problems:
            print(versions.describe(_GOOD))
        return 1 if problems else 0

    return _run(command, 'repertory doctor', arguments)


def _run(command, program: str, arguments: Sequence[str]) -> int:
    return tyro.cli(command, prog=program, args=list(arguments))
