from __future__ import annotations

import os
import pickle
import signal
import threading

import pytest

from repertory.components.environments import control_suite

suite = pytest.importorskip('dm_control.suite')
_render = pytest.importorskip('dm_control._render')
glfw = pytest.importorskip('glfw')
STOCK_WIDTH = 800


def width(environment):
    return int(environment.physics.model.tex_width[0])


@pytest.fixture
def during_load(monkeypatch):
    """Calls a function while this thread loads `cartpole`; returns what it returned."""

    def call(function):
        found = []
        stock = suite.cartpole.get_model_and_assets

        def get_model_and_assets(*args):
            if not found:
                found.append(function())
            return stock(*args)

        monkeypatch.setattr(
            suite.cartpole, 'get_model_and_assets', get_model_and_assets
        )
        assert width(control_suite.load('cartpole', 'swingup', 0)) < STOCK_WIDTH
        return found[0]

    return call


def test_every_domain_asks_by_thread():
    for domain, task in (('dog', 'walk'), ('walker', 'walk'), ('quadruped', 'walk')):
        assert width(control_suite.load(domain, task, 0)) < STOCK_WIDTH
    assert width(suite.load('walker', 'walk')) == STOCK_WIDTH


def test_another_thread_has_dm_controls_sky_meanwhile(during_load):
    def in_thread():
        widths = []
        thread = threading.Thread(
            target=lambda: widths.append(width(suite.load('walker', 'walk')))
        )
        thread.start()
        thread.join()
        return widths

    assert during_load(in_thread) == [STOCK_WIDTH]


def test_a_process_forked_meanwhile_can_load(during_load):
    def forked():
        """Forks in another thread: the child knows nothing of this one's load."""
        codes = []

        def fork():
            child = os.fork()
            if not child:
                signal.alarm(50)
                ours = width(control_suite.load('walker', 'walk', 0))
                stock = width(suite.load('walker', 'walk'))
                os._exit(ours < STOCK_WIDTH == stock)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

        thread = threading.Thread(target=fork, daemon=True)
        thread.start()
        thread.join(timeout=60)
        return codes

    assert during_load(forked) == [1]


def test_a_load_that_fails_leaves_dm_controls_sky():
    control_suite.load('cartpole', 'swingup', 0)
    before = pickle.dumps(suite.common.ASSETS)
    with pytest.raises(TypeError):
        control_suite.load('cartpole', 'swingup', {})
    assert pickle.dumps(suite.common.ASSETS) == before
    assert width(suite.load('cartpole', 'swingup')) == STOCK_WIDTH
    with pytest.raises(AttributeError, match='no attribute asset'):
        suite.common.asset  # noqa: B018


def fail(*unused):
    raise OSError('no platform\nat all')


@pytest.mark.parametrize(
    ('backend', 'patched', 'said'),
    [
        ('egl', (suite.quadruped.Physics, 'contexts', property(fail)), 'no platform'),
        ('glfw', (glfw, 'init', lambda: False), 'GLFW finds no display'),
    ],
)
def test_a_task_that_cannot_draw_says_what_to_set(monkeypatch, backend, patched, said):
    monkeypatch.setattr(_render, 'BACKEND', backend)
    monkeypatch.setattr(*patched)
    with pytest.raises(ValueError, match=rf'escape must .*{said}\).*MUJOCO_GL=egl'):
        control_suite.load('quadruped', 'escape', 0)
    control_suite.load('quadruped', 'walk', 0)
