"""Films episodes; needs the extra `video`."""

from __future__ import annotations

import os
import pathlib

import dm_env
import numpy as np

from repertory.components.environments import rendering

_SUFFIXES = '.mp4', '.gif'


class VideoWriter:
    """Writes a picture a step into a file; a context manager.

    Args:
        path: ends in .mp4 or .gif; its folder is made if absent.
        fps: environment steps that a second shows.

    Raises:
        ValueError: if `path` ends in something else, or `fps` is not above 0.
        ImportError: if the extra is not installed.
    """

    def __init__(self, path: str | os.PathLike, fps: float = 15.0):
        path = pathlib.Path(path)
        if path.suffix not in _SUFFIXES:
            raise ValueError(f'video must end in .mp4 or .gif, got {path}.')
        if not fps > 0:
            raise ValueError(f'fps must be > 0, got {fps}.')
        try:
            import imageio_ffmpeg  # noqa: F401  # Brings ffmpeg, for .mp4.
            from imageio import v2 as imageio
        except ImportError as error:
            raise ImportError(
                'video needs the packages imageio and imageio-ffmpeg, of which one is '
                "not installed; pip install 'repertory[video]'."
            ) from error
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == '.gif':
            self._writer = imageio.get_writer(path, duration=1000 / fps, loop=0)
        else:
            # Two: the format needs even sizes. Players know no other pixel format.
            self._writer = imageio.get_writer(
                path, fps=fps, macro_block_size=2, pixelformat='yuv420p'
            )

    def record(
        self, environment: dm_env.Environment, timestep: dm_env.TimeStep
    ) -> None:
        """Adds a picture of the environment as it is."""
        picture = rendering.render(environment, timestep.observation)
        self._writer.append_data(np.ascontiguousarray(picture))

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(self, *unused) -> None:
        self._writer.close()
