"""The command begins anew, once, where it learns in its own process."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from repertory.components import allocator
from repertory.launch.cli import command
from tests import needs

MODULE = [sys.executable, '-X', 'utf8', '-u', '-m', 'repertory']
SCRIPT = [str(pathlib.Path(sys.executable).with_name('repertory'))]
CALLED = [
    *(sys.executable, '-c'),
    'import sys; from repertory.launch.cli import main; sys.exit(main.main())',
]
PROGRAM = [
    *(sys.executable, '-c'),
    'import sys; from repertory.launch.cli import command; sys.exit(command.main())',
]
# What each interpreter does as it starts; it is found by PYTHONPATH.
STARTING = """
import os
with open('starts', 'a') as file:
    print(os.getpid(), file=file)
"""
DROPPING = STARTING + "os.environ.pop('LD_PRELOAD', None)\n"
ENVIRONMENT = """
import json, os, pathlib, time
from repertory.components.environments import catch
def make(seed):
    maps = pathlib.Path('/proc/self/maps').read_text()
    names = sorted(name for name in os.environ if 'ANEW' in name)
    pathlib.Path('seen').write_text(json.dumps(['jemalloc' in maps, names]))
    while not os.path.exists('go'):
        time.sleep(0.01)
    if os.path.exists('broken'):
        raise ValueError('it is broken.')
    return catch.Catch(seed)
"""


class Run:
    """A command in `folder`, whose environment waits for a file there."""

    def __init__(self, folder, start, launch, variables=None, starting=STARTING):
        self.folder = folder
        (folder / 'sitecustomize.py').write_text(starting)
        (folder / 'env.py').write_text(ENVIRONMENT)
        inherited = {k: v for k, v in os.environ.items() if k != allocator.VARIABLE}
        self.process = subprocess.Popen(
            [*start, *'train apex-dqn --env env.py:make --launch'.split(), launch],
            cwd=folder,
            env={**inherited, 'PYTHONPATH': str(folder), **(variables or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def seen(self):
        """Returns what the environment saw: has jemalloc, variables of beginning."""
        end = time.monotonic() + 60
        while not (path := self.folder / 'seen').exists() or not path.read_text():
            assert time.monotonic() < end and self.process.poll() is None
            time.sleep(0.01)
        return json.loads(path.read_text())

    def end(self):
        """Returns exit code and output, once the environment has gone on."""
        (self.folder / 'go').touch()
        output, _ = self.process.communicate(timeout=60)
        return self.process.returncode, output

    def starts(self):
        """Returns how often it started, always as the same process."""
        pids = (self.folder / 'starts').read_text().split()
        assert set(pids) == {str(self.process.pid)}
        return len(pids)


@needs.jemalloc
@pytest.mark.parametrize(
    ('start', 'launch', 'variables', 'starts'),
    [
        (MODULE, 'threads', {}, 2),
        (MODULE, 'sync', {}, 2),
        (SCRIPT, 'threads', {}, 2),
        (MODULE, 'processes', {}, 1),
        (MODULE, 'sync', {allocator.VARIABLE: ''}, 1),
        (CALLED, 'threads', {}, 1),
        (PROGRAM, 'threads', {}, 1),
    ],
)
def test_a_run_in_the_commands_process_has_the_allocator(
    tmp_path, start, launch, variables, starts
):
    if start is SCRIPT and not os.path.exists(SCRIPT[0]):
        pytest.skip('the package is not installed')
    (tmp_path / 'broken').touch()
    run = Run(tmp_path, start, launch, variables)
    assert run.seen() == [starts == 2, []]
    code, output = run.end()
    assert code == 2
    assert output.startswith('repertory: it is broken.\n')
    assert run.starts() == starts


@needs.jemalloc
def test_it_begins_anew_once_though_the_variable_is_dropped(tmp_path):
    (tmp_path / 'broken').touch()
    run = Run(tmp_path, MODULE, 'sync', starting=DROPPING)
    run.seen()
    assert run.end()[0] == 2
    assert run.starts() == 2


@pytest.mark.parametrize(
    ('number', 'code'), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
@pytest.mark.parametrize('launch', ['threads', 'sync'])
def test_signals_end_it_as_before(tmp_path, launch, number, code):
    run = Run(tmp_path, MODULE, launch)
    run.seen()
    run.process.send_signal(number)
    ended, output = run.end()
    assert ended == code
    assert 'interrupted before anything was saved' in output


def test_a_signal_before_it_begins_anew_is_one_line(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(allocator, 'variables', interrupted)
    monkeypatch.setattr(command, '_is_the_program', lambda: True)
    monkeypatch.setattr(sys, 'argv', 'repertory train d4pg --launch sync'.split())
    assert command.main() == 130
    assert capsys.readouterr().err == 'repertory: interrupted.\n'


def test_without_an_allocator_it_goes_on(monkeypatch):
    monkeypatch.setattr(allocator, 'variables', lambda: {})
    monkeypatch.setattr(os, 'execve', None)
    command._begin_anew()


def test_where_the_kernel_refuses_it_goes_on(monkeypatch):
    asked = []

    def refuse(*arguments):
        asked.append(arguments)
        raise OSError('too long')

    monkeypatch.setattr(allocator, 'variables', lambda: {'LD_PRELOAD': 'x'})
    monkeypatch.setattr(os, 'execve', refuse)
    command._begin_anew()
    [(program, words, environment)] = asked
    assert program == words[0] == sys.executable and environment['LD_PRELOAD'] == 'x'


@pytest.mark.parametrize(
    ('words', 'argv', 'expected'),
    [
        ('python -m repertory train a', '/r/__main__.py train a', True),
        ('python -X dev -Werror -m repertory train', '/r/__main__.py train', True),
        ('python /bin/repertory train', '/bin/repertory train', True),
        ('python -I -u /bin/repertory', '/bin/repertory', True),
        ('python -m cProfile -m repertory train', '/r/__main__.py train', False),
        ('python /debugpy -m repertory train', '/r/__main__.py train', False),
        ('python -m pytest train', '/pytest/__main__.py train', False),
        ('python mine.py train', 'mine.py train', False),
        ('python -m repertory train', '/r/__main__.py train --more', False),
        ('python -m repertory train', '/r/__main__.py eval', False),
        ('python -c code train', '-c train', False),
        ('python', ' ', False),
    ],
)
def test_only_what_was_started_for_it_is_the_program(
    monkeypatch, words, argv, expected
):
    monkeypatch.setattr(sys, 'orig_argv', words.split())
    monkeypatch.setattr(sys, 'argv', argv.split(' '))
    assert command._is_the_program() == expected


@pytest.mark.parametrize(
    ('arguments', 'expected'),
    [
        ('train d4pg --launch threads', True),
        ('train d4pg --seed 1 --launch=sync --num-actors 2', True),
        ('train d4pg --launch processes', False),
        ('train d4pg --launch ray', False),
        ('train d4pg', False),
        ('train --launch', False),
        ('train --resume', False),
        ('train --resume nowhere', False),
        ('train --resume one', True),
        ('train --resume=one --launch processes', False),
        ('train --resume several', False),
        ('train --resume several --launch threads', True),
        ('train --resume other', False),
        ('train --resume damaged', False),
        ('train --resume worse', False),
        ('sweep d4pg --launch threads', False),
        ('eval one', False),
        ('', False),
    ],
)
def test_which_commands_learn_in_their_process(
    tmp_path, monkeypatch, arguments, expected
):
    monkeypatch.chdir(tmp_path)
    descriptions = {
        'one': {'starts': [{}, {'one_thread': True}]},
        'several': {'starts': [{'one_thread': True}, {'one_thread': False}]},
        'other': {'starts': []},
        'damaged': [],
        'worse': {'starts': ['one_thread']},
    }
    for name, description in descriptions.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / 'run.json').write_text(json.dumps(description))
    assert command._learns_here(arguments.split()) == expected
