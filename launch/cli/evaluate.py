"""`repertory eval RUN_DIR`."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Sequence

import tyro

from repertory.components import kernels
from repertory.launch import run_folder
from repertory.launch.cli import calling, names


def evaluate(
    run_dir: tyro.conf.Positional[pathlib.Path],
    episodes: int = 20,
    env: str | None = None,
    seed: int = 0,
    video: pathlib.Path | None = None,
    fps: float = 15.0,
) -> int:
    """Plays episodes with the policy that a run has exported.

    Args:
        run_dir: the run's folder.
        episodes: how many.
        env: an environment's name, or MODULE:FUNCTION; by default that of the run.
        seed: of the environment.
        video: films the episodes into this file, .mp4 or .gif.
        fps: environment steps that a second of the video shows.
    """
    folder = run_folder.open_run(run_dir)
    changed = {} if env is None else {'environment': names.environment(env)}
    experiment = folder.load_config(**changed)
    kernels.set_here(experiment.kernel_variables())

    from repertory.launch import exported, videos

    policy = exported.load_policy(folder.policy)
    with contextlib.ExitStack() as stack:
        record = None
        if video is not None:
            record = stack.enter_context(videos.VideoWriter(video, fps)).record
        returns = exported.evaluate(
            policy, experiment.make_environment, episodes, seed, record
        )
    print(
        f'return over {len(returns)} episodes: mean {returns.mean():.4g}, '
        f'standard deviation {returns.std():.4g}, min {returns.min():.4g}, '
        f'max {returns.max():.4g}'
    )
    if video is not None:
        print(f'video: {video}')
    return 0


def main(arguments: Sequence[str]) -> int:
    return calling.call(
        evaluate,
        'repertory eval',
        arguments,
        [
            'repertory eval runs/...',
            'repertory eval runs/... --episodes 3 --video out.mp4',
            'repertory eval runs/... --env my_environments:Guess',
        ],
    )
