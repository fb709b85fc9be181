import dm_env
import numpy as np
import pytest

from repertory.components.environments import registry, rendering
from tests import fakes


def _render(environment):
    timestep = environment.reset()
    try:
        return rendering.render(environment, timestep.observation)
    finally:
        environment.close()


def test_a_board_is_enlarged():
    picture = _render(registry.make_environment('catch', seed=0))
    assert picture.shape == (240, 120, 3)
    assert picture.dtype == np.uint8
    # Ball and paddle are each a square of 24 pixels.
    assert (picture[..., 0] == 255).sum() == 2 * 24 * 24
    assert (picture == picture[..., :1]).all()


def test_a_stack_shows_its_newest_frame():
    picture = rendering.render(
        dm_env.Environment, np.dstack([np.zeros((84, 84)), np.eye(84)]).astype(np.uint8)
    )
    assert picture.shape == (252, 252, 3)
    assert picture[0, 0].tolist() == [1, 1, 1]


def test_an_atari_game_is_drawn_in_its_own_colours():
    pytest.importorskip('ale_py')
    picture = _render(registry.make_environment('atari:Pong', seed=0))
    assert picture.shape == (210, 160, 3)
    assert len({tuple(pixel) for pixel in picture.reshape(-1, 3)}) > 2


def test_a_gymnasium_environment_draws_itself():
    pytest.importorskip('pygame')
    picture = _render(registry.make_environment('gym:CartPole-v1', seed=0))
    assert picture.shape == (400, 600, 3)
    assert picture.std() > 0


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match='must have render.* or observations that are'):
        _render(fakes.ScriptedEnvironment([[1.0]], truncated=False))

    class Broken(fakes.ScriptedEnvironment):
        def render(self):
            raise RuntimeError('no display')

    with pytest.raises(ValueError, match='must be able to draw, .*no display; pip'):
        _render(Broken([[1.0]], truncated=False))

    class Grey(fakes.ScriptedEnvironment):
        def render(self):
            return np.zeros((4, 4), np.uint8)

    with pytest.raises(ValueError, match=r'must return uint8 \[H, W, 3\], got uint8'):
        _render(Grey([[1.0]], truncated=False))
