"""Pictures of what goes on in an environment."""

from __future__ import annotations

import dm_env
import numpy as np
import tree

from repertory.components import types

_LEAST_HEIGHT = 240  # Of a picture made of an observation, which may be tiny.


def render(environment: dm_env.Environment, observation: types.Nest) -> np.ndarray:
    """Returns a picture of the environment as it is, uint8 [H, W, 3].

    It is made by the environment's own `render()`, or by dm_control's physics; else it
    is the first leaf of the observation that is a picture or a board, enlarged.

    Args:
        environment: wrapped or not.
        observation: the latest.

    Raises:
        ValueError: if there is none of these, or the environment cannot draw.
    """
    if hasattr(environment, 'render'):
        picture = _call('render()', environment.render)
    elif hasattr(environment, 'physics'):
        draw = environment.physics.render
        picture = _call('physics.render()', lambda: draw(_LEAST_HEIGHT, 320, 0))
    else:
        picture = _from_observation(observation)
    picture = np.asarray(picture)
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[-1] != 3:
        raise ValueError(
            'render() of the environment must return uint8 [H, W, 3], got '
            f'{picture.dtype} {list(picture.shape)}.'
        )
    return picture


def _call(name, draw) -> np.ndarray:
    try:
        return draw()
    except Exception as error:  # Of whatever library draws.
        raise ValueError(
            f'the environment must be able to draw, got an error from its {name}: '
            f"{error}; pip install 'repertory[video]' for gymnasium's, and set "
            'MUJOCO_GL=egl or osmesa for MuJoCo without a display.'
        ) from error


def _from_observation(observation: types.Nest) -> np.ndarray:
    for leaf in map(np.asarray, tree.flatten(observation)):
        if leaf.ndim == 2 or (leaf.ndim == 3 and leaf.shape[-1] <= 4):
            break
    else:
        raise ValueError(
            'environment must have render() -> uint8 [H, W, 3] or observations that '
            'are pictures, got neither; give it the method.'
        )
    picture = leaf if leaf.ndim == 3 else leaf[..., None]
    if picture.shape[-1] != 3:
        picture = np.repeat(picture[..., -1:], 3, axis=-1)  # A stack's newest.
    if picture.dtype != np.uint8:
        low, high = float(picture.min()), float(picture.max())
        scaled = (picture - low) / (high - low or 1.0)
        picture = (255 * scaled).astype(np.uint8)
    factor = -(-_LEAST_HEIGHT // picture.shape[0])
    return picture.repeat(factor, axis=0).repeat(factor, axis=1)
