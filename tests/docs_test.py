"""What docs/run_commands.py runs is all that is marked."""

from __future__ import annotations

import importlib.util
import pathlib
import re

import pytest

_FOLDER = pathlib.Path(__file__).resolve().parents[1] / 'docs'
_SPEC = importlib.util.spec_from_file_location('run_docs', _FOLDER / 'run_commands.py')
run_docs = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(run_docs)


@pytest.mark.parametrize('page', run_docs.pages(), ids=lambda page: page.name)
def test_every_mark_is_above_a_block(page):
    marks = re.findall(r'^<!--', page.read_text(), re.M)
    assert len(marks) == len(run_docs.blocks(page))


def test_a_block_that_fails_is_an_error(tmp_path):
    run_docs.run('sh', 'echo first > file\ncat file', tmp_path)
    assert (tmp_path / 'file').read_text() == 'first\n'
    for language, text in (('sh', 'false\ntrue'), ('python', 'raise SystemExit(3)')):
        with pytest.raises(run_docs.subprocess.CalledProcessError):
            run_docs.run(language, text, tmp_path)
