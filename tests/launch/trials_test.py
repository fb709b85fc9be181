"""How a sweep tells the ends of its runs apart, and goes on with some of them."""

import csv
import json
import subprocess
import sys
from contextlib import nullcontext

import pytest

from repertory.launch import run_folder
from repertory.launch.cli import request, sweep, trials

_EXIT = 'import os, sys; n = int(sys.argv[1]); os.kill(0, -n) if n < 0 else sys.exit(n)'


def make(folder, number):
    return [trials.Trial('apex-dqn', {}, i, folder / f's{i}') for i in range(number)]


def write_status(trial, **changes):
    trial.run_dir.mkdir(parents=True)
    (trial.run_dir / 'run.json').touch()
    (trial.run_dir / 'csv').mkdir()
    (trial.run_dir / 'csv' / 'evaluator.csv').touch()
    budget = {'actor_steps': 100}
    status = {'phase': 'exit', 'failure': '', 'hurry': False, 'budget': budget}
    status |= {'counts': {'actor_steps': 50, 'seconds': 1.0}}
    (trial.run_dir / 'status.json').write_text(json.dumps(status | changes))


@pytest.fixture
def ends(monkeypatch):
    """Has the trial of each seed end with the code of that index; returns the codes."""
    codes = []

    def start(trial, flags):
        command = [sys.executable, '-c', _EXIT, str(codes[trial.seed])]
        (trial.run_dir / 'csv').mkdir(parents=True, exist_ok=True)
        (trial.run_dir / 'csv' / 'evaluator.csv').touch()
        return subprocess.Popen(command, start_new_session=True)

    monkeypatch.setattr(trials, '_start', start)
    return codes


def test_a_run_that_was_stopped_is_not_said_to_have_failed(ends, tmp_path, capsys):
    ends += [0, 143, 130, -15, -2, 1, -9]
    assert trials.run_all(make(tmp_path, 7), [], 7, tmp_path) == 1
    output = capsys.readouterr().out
    with open(tmp_path / 'sweep.csv', newline='') as file:
        states = [row['state'] for row in csv.DictReader(file)]
    assert states == ['finished', *['interrupted'] * 4, *['failed'] * 2]
    for seed in range(1, 5):
        assert f's{seed}: no evaluation, interrupted\n' in output
    assert 'failed with exit code 1: see ' in output
    assert '--resume goes on with the 6 of 7 runs that are not finished' in output


def test_runs_that_have_finished_are_left(ends, tmp_path, capsys):
    made = make(tmp_path, 6)
    write_status(made[0])
    write_status(made[1], hurry=True)
    write_status(made[2], hurry=True, counts={'actor_steps': 100, 'seconds': 1.0})
    write_status(made[3], phase='run')
    write_status(made[4], failure='actor_0: is gone', hurry=True)
    assert [trial.finished for trial in made] == [True, False, True, *[False] * 3]
    ends += [1, 0, 1, 0, 0, 0]  # Of which the first and third are not used.
    assert trials.run_all(made, [], 2, tmp_path) == 0
    output = capsys.readouterr().out
    assert output.startswith('2 of 6: finished before\n')
    assert 'resume:' not in output
    with open(tmp_path / 'sweep.csv', newline='') as file:
        assert len(list(csv.DictReader(file))) == 6


def test_a_run_that_failed_with_its_budget_spent_is_not_tried_for_ever(
    ends, tmp_path, capsys
):
    made = make(tmp_path, 2)
    spent = {'actor_steps': 100, 'seconds': 1.0}
    write_status(made[0], failure='evaluator: is gone', hurry=True, counts=spent)
    ends += [0, 0]
    assert trials.run_all(made, [], 2, tmp_path) == 1
    output = capsys.readouterr().out
    assert f's0: failed as it ended, with its budget spent; delete {tmp_path}' in output
    assert 'resume:' not in output


@pytest.mark.parametrize(
    'changed, message',
    [
        ('', None),
        ('--seed 1', r'seed must be 0 to resume .*, got 1'),
        ('--num-actors 2', r'num_actors must be 1 to resume .*, got 2'),
        ('--launch sync', r"launch must be 'a program' to resume .*, got 'sync'"),
    ],
)
def test_a_sweep_goes_on_with_the_settings_of_before_alone(tmp_path, changed, message):
    flags = 'apex-dqn --env catch --launch processes --seed 0'
    asked = request.parse(flags.split())
    [trial] = make(tmp_path, 1)
    run_folder.open_folder(asked.experiment, asked.topology, trial.run_dir)
    other = request.parse(f'{flags} {changed}'.split())
    with pytest.raises(ValueError, match=message) if message else nullcontext():
        sweep._check_same(trial, other)


def test_a_run_that_has_begun_is_resumed_as_it_was_launched(tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr(
        trials.subprocess, 'Popen', lambda command, **_: commands.append(command[4:])
    )
    begun, new = make(tmp_path, 2)
    write_status(begun, hurry=True)
    flags = ['--env', 'catch', '--launch', 'threads']
    trials._start(begun, flags)
    trials._start(new, flags)
    resumed = ['--resume', str(begun.run_dir), '--launch', 'threads']
    assert commands == [resumed, new.arguments(flags)]
