"""The pictures of docs/screenshots.py are of the size asked for, or it fails."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest
from matplotlib import image

_PATH = pathlib.Path(__file__).resolve().parents[1] / 'docs' / 'screenshots.py'
_SPEC = importlib.util.spec_from_file_location('screenshots', _PATH)
screenshots = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(screenshots)


@pytest.mark.skipif(
    screenshots.find_browser() is None,
    reason=f'none of {screenshots.BROWSERS} is installed',
)
def test_a_page_becomes_a_picture(tmp_path):
    page = tmp_path / 'page.html'
    page.write_text('<body style="margin:0;background:rgb(255,0,0)">')
    path = tmp_path / 'page.png'
    screenshots.take(screenshots.find_browser(), page.as_uri(), path, 300, 200)
    pixels = image.imread(path)
    assert pixels.shape[:2] == (200, 300)
    assert (pixels[..., :3] == (1, 0, 0)).all()


def test_a_browser_that_takes_no_picture_is_an_error(tmp_path):
    path = tmp_path / 'page.png'
    path.write_text('an earlier one')
    with pytest.raises(SystemExit, match='true took no picture of about:blank'):
        screenshots.take('true', 'about:blank', path, 300, 200)
    assert not path.exists()


def test_without_a_browser_none_is_found(monkeypatch):
    monkeypatch.setenv('PATH', '/nonexistent')
    assert screenshots.find_browser() is None
