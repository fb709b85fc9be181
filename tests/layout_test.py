"""The package is one: all of it is mapped, and no second copy can be imported."""

from __future__ import annotations

import importlib
import importlib.metadata
import pathlib
import subprocess
import sys
import sysconfig

import cloudpickle
import pytest

import repertory
from repertory.components import core

ROOT = pathlib.Path(__file__).resolve().parents[1]
PARTS = ('agents', 'components', 'replay', 'launch')


@pytest.mark.parametrize('part', PARTS)
def test_a_second_copy_is_refused(part, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    with pytest.raises(ImportError, match=f'import repertory.{part}'):
        importlib.import_module(part)
    assert part not in sys.modules


@pytest.mark.parametrize('part', PARTS)
def test_every_folder_with_code_is_a_package(part):
    for file in (ROOT / part).rglob('*.py'):
        assert (file.parent / '__init__.py').is_file(), (
            f'{file.parent} would be left out of the wheel'
        )


@pytest.mark.parametrize('part', PARTS)
def test_type_checkers_see_the_same_files(part):
    assert (ROOT / 'typings' / 'repertory' / part).resolve() == ROOT / part


def test_modules_come_from_this_checkout():
    assert pathlib.Path(core.__file__) == ROOT / 'components' / 'core.py'


def test_nothing_but_the_package_is_installed():
    # In site-packages: a build leaves its own record of the files beside this one.
    found = importlib.metadata.distributions(
        name='repertory', path=[sysconfig.get_path('purelib')]
    )
    names = {f.parts[0] for one in found for f in one.files if f.suffix == '.py'}
    assert names
    assert all(name.startswith(('repertory', '__editable__')) for name in names), names


def test_classes_pickle_by_reference():
    data = cloudpickle.dumps(core.Role)
    assert b'repertory.components.core' in data and len(data) < 200
    code = 'import sys, pickle; print(pickle.load(sys.stdin.buffer).__module__)'
    out = subprocess.run(
        [sys.executable, '-c', code], input=data, capture_output=True, cwd='/'
    )
    assert out.returncode == 0, out.stderr.decode()
    assert out.stdout.decode().strip() == 'repertory.components.core'


def test_the_version_is_the_installed_one():
    assert repertory.__version__ == importlib.metadata.version('repertory')


def test_a_clone_beside_a_script_is_the_whole_package(tmp_path):
    (tmp_path / 'repertory').symlink_to(ROOT)
    code = 'import repertory; print(repertory.load_policy, repertory.__file__)'
    command = [sys.executable, '-c', f'{code}; from repertory.components import core']
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('<function load_policy')
    assert done.stdout.strip().endswith('/repertory/repertory/__init__.py')


def test_locks_name_no_package_index():
    for lock in (*ROOT.glob('requirements/*.txt'), *ROOT.glob('benchmarks/peers/*/*')):
        if lock.suffix == '.txt':
            assert '://' not in lock.read_text(), lock
