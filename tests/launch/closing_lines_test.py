"""What `repertory train` tells the user to type next."""

import json
import os
import pty
import shlex
import subprocess
import sys

import pytest

from repertory.launch import run_folder
from repertory.launch.cli import request, train


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Makes `tmp_path/.venv/bin/repertory`, which is not on the PATH; goes there."""
    folder = tmp_path / '.venv' / 'bin'
    folder.mkdir(parents=True)
    (folder / 'repertory').write_text('#!/bin/sh\n')
    (folder / 'repertory').chmod(0o755)
    monkeypatch.setattr(sys, 'executable', str(folder / 'python'))
    monkeypatch.setenv('PATH', '/usr/bin')
    monkeypatch.chdir(tmp_path)
    return folder


def lines(path, capsys):
    folder = run_folder.RunFolder(path)
    folder.policy.mkdir(parents=True)
    train._print_last_lines(folder)
    return capsys.readouterr().out.splitlines()


def test_paths_below_the_working_directory_are_short(installed, tmp_path, capsys):
    assert lines(tmp_path / 'runs' / 'catch', capsys) == [
        'logs:     runs/catch/logs',
        'evaluate: .venv/bin/repertory eval runs/catch',
    ]


def test_a_run_at_the_end_of_its_budget_is_resumed_with_a_larger_one(
    installed, tmp_path, capsys
):
    folder = run_folder.RunFolder(tmp_path / 'runs')
    folder.path.mkdir()
    folder.run.touch()
    budget = {'actor_steps': 2_000_000, 'learner_steps': None, 'seconds': 60.0}
    status = {'budget': budget, 'reason': 'max_actor_steps of 2000000 reached'}
    folder.status.write_text(json.dumps(status))
    resume = 'resume:   .venv/bin/repertory train --resume runs'
    assert f'{resume} --max-actor-steps 4000000' in lines(folder.path, capsys)
    folder.policy.rmdir()
    status['reason'] = 'interrupted by SIGINT'
    folder.status.write_text(json.dumps(status))
    assert resume in lines(folder.path, capsys)


def test_an_active_environment_needs_no_path(installed, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv('PATH', str(installed))
    assert 'evaluate: repertory eval runs/catch' in lines('runs/catch', capsys)


def test_another_installation_on_the_path_is_not_named(
    installed, tmp_path, capsys, monkeypatch
):
    other = tmp_path / 'other'
    other.mkdir()
    (other / 'repertory').write_text('#!/bin/sh\n')
    (other / 'repertory').chmod(0o755)
    monkeypatch.setenv('PATH', str(other))
    assert 'evaluate: .venv/bin/repertory eval runs' in lines('runs', capsys)


def test_a_path_with_a_space_can_be_pasted(installed, tmp_path, capsys, monkeypatch):
    (tmp_path / 'elsewhere').mkdir()
    monkeypatch.chdir(tmp_path / 'elsewhere')
    (line,) = (x for x in lines(tmp_path / 'my runs', capsys) if 'eval ' in x)
    assert shlex.split(line.partition(' ')[2]) == [
        str(installed / 'repertory'),
        'eval',
        str(tmp_path / 'my runs'),
    ]


def test_without_the_script_the_module_is_run(installed, capsys):
    (installed / 'repertory').unlink()
    assert 'evaluate: .venv/bin/python -m repertory eval runs' in lines('runs', capsys)


_ENDING = """
import atexit, sys
from repertory.launch.cli import request, train
atexit.register(print, 'destructors')
train._run_here = train._run_program = lambda *_: train._End(143, 'has failed')
sys.exit(train.main(sys.argv[1:]))
"""


@pytest.mark.parametrize('launch', ['threads', 'sync', 'processes'])
def test_after_its_last_line_a_run_in_this_process_ends_at_once(tmp_path, launch):
    flags = f'apex-dqn --env catch --run-dir run --launch {launch}'.split()
    command = [sys.executable, '-c', _ENDING, *flags]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 143 and done.stderr == 'has failed\n'
    assert 'logs:     run/logs\n' in done.stdout
    # A destructor may wait for a replay server that is gone; processes have none here.
    assert ('destructors' in done.stdout) == (launch == 'processes')


_EARLY = """
import os, signal, sys
from repertory.launch import run_folder
from repertory.launch.cli import request, train

def interrupt(*_, **__):
    os.kill(os.getpid(), signal.SIGTERM)

if sys.argv[1] == 'opening':
    whole = run_folder.provenance.describe_start
    run_folder.provenance.describe_start = lambda *a: [interrupt(), whole(*a)][1]
else:
    train._run_program = interrupt
sys.exit(train.main(sys.argv[2:]))
"""


@pytest.mark.parametrize('moment', ['opening', 'starting'])
def test_an_interruption_before_the_start_leaves_what_can_be_resumed(tmp_path, moment):
    flags = [moment, *'apex-dqn --env catch --run-dir run'.split()]
    command = [sys.executable, '-c', _EARLY, *flags]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (143, '')
    assert 'interrupted before anything was saved' in done.stdout
    assert ' train --resume run\n' in done.stdout
    asked = request.parse(['--resume', str(tmp_path / 'run')])
    assert asked.experiment.environment == 'catch'


@pytest.mark.parametrize('launch', ['threads', 'processes'])
def test_a_run_on_a_terminal_ends_with_them(tmp_path, launch):
    main, terminal = pty.openpty()
    command = f'train apex-dqn --env catch --launch {launch} --max-actor-steps 400'
    process = subprocess.Popen(
        [sys.executable, '-m', 'repertory', *command.split(), '--run-dir', 'run'],
        cwd=tmp_path,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    shown = b''
    try:
        while part := os.read(main, 65536):
            shown += part
    except OSError:  # So a terminal ends.
        pass
    finally:
        os.close(main)
    assert process.wait(timeout=60) == 0
    assert b'400 reached' in shown and b'plot: ' in shown
