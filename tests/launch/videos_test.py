import numpy as np
import pytest

from repertory.components.environments import registry
from repertory.launch import videos


@pytest.mark.parametrize('suffix', ['mp4', 'gif'])
def test_a_video_holds_a_picture_a_step(tmp_path, suffix):
    imageio = pytest.importorskip('imageio.v2')
    pytest.importorskip('imageio_ffmpeg')
    path = tmp_path / 'new' / f'catch.{suffix}'
    environment = registry.make_environment('catch', seed=0)
    with videos.VideoWriter(path, fps=10) as writer:
        timestep = environment.reset()
        writer.record(environment, timestep)
        while not timestep.last():
            timestep = environment.step(np.int32(1))
            writer.record(environment, timestep)
    frames = [frame for frame in imageio.get_reader(path)]
    assert len(frames) == 10
    assert frames[0].shape[:2] == (240, 120)
    # The ball is in the top row first, in the bottom row last.
    assert frames[0][:24].max() > 200 and frames[-1][:24].max() < 50


@pytest.mark.parametrize(
    ('name', 'fps', 'message'),
    [
        ('a.avi', 10.0, r'video must end in \.mp4 or \.gif, got .*a\.avi'),
        ('a.mp4', 0.0, r'fps must be > 0, got 0\.0'),
    ],
)
def test_a_wrong_video_is_refused(tmp_path, name, fps, message):
    with pytest.raises(ValueError, match=message):
        videos.VideoWriter(tmp_path / name, fps)
