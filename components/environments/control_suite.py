"""dm_control's suite, with a sky that costs little."""

from __future__ import annotations

import threading
import types
import warnings

import dm_env

_ASSETS, _SKY_FILE = 'ASSETS', './common/skybox.xml'
# dm_control's sky has stars, keeps 11 MB and takes 60 ms in each environment. This one
# has none; `fish` keeps its own.
_SKY = (
    b'<mujoco><asset><texture name="skybox" type="skybox" builtin="gradient" '
    b'rgb1=".4 .6 .8" rgb2="0 0 0" width="64" height="64"/></asset></mujoco>'
)
_here = threading.local()  # `loads` says whether this thread is within `load`.
_DRAWN = {('quadruped', 'escape')}  # Each reset looks whether there is a picture.


def import_suite() -> types.ModuleType:
    """Returns dm_control.suite.

    Raises:
        ImportError: if it is not installed.
        ValueError: if MUJOCO_GL asks for what is not there.
    """
    try:
        with warnings.catch_warnings():
            # Of a display, which only rendering needs.
            warnings.simplefilter('ignore')
            from dm_control import suite
    except (AttributeError, RuntimeError) as error:  # Of OpenGL's own modules.
        raise _cannot_draw('dm_control', error) from error
    return suite


def load(domain: str, task: str, seed: int) -> dm_env.Environment:
    """Returns a task of the suite, which is the stock one but for its sky.

    Raises:
        ValueError: if its episodes cannot begin without a way to draw, and there is
            none.
    """
    suite = import_suite()
    _give_assets_by_thread(suite.common)
    _here.loads = True
    try:
        environment = suite.load(domain, task, task_kwargs={'random': seed})
    finally:
        _here.loads = False
    if (domain, task) in _DRAWN:
        try:
            _try_to_draw(environment.physics)
        except Exception as error:  # Of whatever library draws.
            raise _cannot_draw(f'control:{domain}:{task}', error) from error
    return environment


def _try_to_draw(physics) -> None:
    from dm_control import _render

    if _render.BACKEND == 'glfw':  # What is taken where nothing is asked for.
        import glfw

        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            if not glfw.init():  # Else a context is half made, which fails in the end.
                raise RuntimeError('GLFW finds no display')
    physics.contexts  # noqa: B018, made when it is asked for.


def _give_assets_by_thread(common: types.ModuleType) -> None:
    """Lets the suite's modules, which ask for `common.ASSETS`, find ours in `load`.

    Other threads find dm_control's, at any time, and so does a process forked in
    between: nothing is swapped, and no lock is held.
    """
    assets = vars(common).get(_ASSETS)
    if assets is None:
        return  # it is done.

    def find(name: str):
        if name != _ASSETS:
            raise AttributeError(f'module {common.__name__} has no attribute {name}')
        is_ours = getattr(_here, 'loads', False)
        return {**assets, _SKY_FILE: _SKY} if is_ours else assets

    # In this order: a thread that asks in between finds one of them.
    vars(common)['__getattr__'] = find
    vars(common).pop(_ASSETS, None)


def _cannot_draw(name: str, error: Exception) -> ValueError:
    first = (str(error) or type(error).__name__).splitlines()[0]
    return ValueError(
        f'{name} must be able to draw, got an error of OpenGL ({first}); without a '
        'display, set MUJOCO_GL=egl, or osmesa, and install what that needs.'
    )
