"""Processes have jemalloc where one can be loaded, and only there."""

from __future__ import annotations

import importlib.util
import pathlib
import shutil
import subprocess
import sys
import types

import pytest

from repertory.components import allocator
from tests import needs

OWN = pathlib.Path(sys.executable).resolve().read_bytes()
AARCH64 = (183).to_bytes(2, 'little')  # Of an ELF header, at 18.


@pytest.fixture
def unset(monkeypatch):
    monkeypatch.delenv(allocator.VARIABLE, raising=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The only place where one is looked for."""
    made = tmp_path / 'lib'
    made.mkdir()
    monkeypatch.setattr(allocator, '_FOLDERS', (str(made),))
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    return made


@needs.jemalloc
def test_a_process_has_what_is_found(unset):
    code = (
        'import sys\n'
        'from repertory.components import allocator\n'
        'path = allocator.find()\n'
        'assert path in open("/proc/self/maps").read()\n'
        'assert allocator.variables() == {}\n'
        'assert not {"ray", "tensorflow"} & sys.modules.keys()\n'
    )
    done = subprocess.run(
        [sys.executable, '-c', code],
        env={'PATH': '', **allocator.variables()},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, '')


@pytest.mark.parametrize('own', ['', '/usr/lib/libmine.so'])
def test_what_the_user_has_set_stays(monkeypatch, own):
    monkeypatch.setenv(allocator.VARIABLE, own)
    assert allocator.variables() == {}


def test_without_one_nothing_is_set(unset, folder):
    assert allocator.find() is None
    assert allocator.variables() == {}


@pytest.mark.parametrize(
    'content',
    [b'', b'INPUT(-ljemalloc)\n', OWN[:4096], OWN[:18] + AARCH64 + OWN[20:]],
    ids=['empty', 'script', 'half', 'foreign'],
)
def test_what_cannot_be_loaded_is_not_taken(unset, folder, content):
    (folder / 'libjemalloc.so.2').write_bytes(content)
    assert allocator.variables() == {}


@needs.jemalloc
def test_the_systems_comes_first_if_it_works(tmp_path, monkeypatch):
    found, others = tmp_path / 'libjemalloc.so.2', allocator.find()
    monkeypatch.setattr(allocator, '_FOLDERS', (str(tmp_path), *allocator._FOLDERS))
    found.write_bytes(b'')
    assert allocator.find() == others
    shutil.copy(others, found)
    assert allocator.find() == str(found)


@needs.jemalloc
@pytest.mark.parametrize('character', ' :$')
def test_a_path_that_the_loader_would_part_is_not_taken(
    tmp_path, monkeypatch, character
):
    path = tmp_path / f'a{character}b.so'
    shutil.copy(allocator.find(), path)
    assert not allocator._works(str(path))


def test_a_made_up_ray_is_not_the_package(monkeypatch):
    monkeypatch.setattr(allocator, '_FOLDERS', ())
    monkeypatch.setitem(sys.modules, 'ray', types.ModuleType('ray'))
    assert allocator.find() is None


def test_an_interpreter_that_cannot_be_started_is_no_error(unset, folder, monkeypatch):
    (folder / 'libjemalloc.so.2').write_bytes(OWN)
    for executable in ('', '/nowhere/python'):
        monkeypatch.setattr(sys, 'executable', executable)
        assert allocator.find() is None


def test_a_folder_named_ray_is_not_the_package(tmp_path, monkeypatch):
    (tmp_path / 'ray').mkdir()
    monkeypatch.setattr(allocator, '_FOLDERS', ())
    monkeypatch.setattr(sys, 'path', [str(tmp_path)])
    monkeypatch.delitem(sys.modules, 'ray', raising=False)
    assert allocator.find() is None
