"""A whole sweep, and one that is stopped."""

import csv
import json
import signal
import subprocess
import sys
import time

import pytest

_COMMAND = (
    '-m repertory sweep apex-dqn --env catch --launch sync --min-replay-size 50 '
    '--evaluation-episodes 2 --logging.no-tensorboard'
).split()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_sweep_ends_with_a_table_and_a_picture(tmp_path):
    flags = '--vary n_step 1 3 --seeds 0 1 --parallel 2 --max-actor-steps 300 -o s'
    done = subprocess.run(
        [sys.executable, *_COMMAND, *flags.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    with open(tmp_path / 's' / 'sweep.csv', newline='') as file:
        rows = list(csv.DictReader(file))
    found = {(row['n_step'], row['seed'], row['exit_code']) for row in rows}
    assert found == {(n, s, '0') for n in '13' for s in '01'}
    assert all(int(row['actor_steps']) >= 300 for row in rows)
    assert 'n_step 1' in done.stdout and 'n_step 3' in done.stdout
    assert (tmp_path / 's' / 'sweep.png').stat().st_size > 10_000
    again = subprocess.run(
        [sys.executable, *_COMMAND, *flags.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert again.returncode == 2
    assert 'output must be a new or empty folder' in again.stderr
    assert '--resume' in again.stderr


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_sweep_that_is_stopped_saves_its_runs(tmp_path):
    flags = '--vary n_step 1 3 --max-actor-steps 10000000 -o s'
    process = subprocess.Popen(
        [sys.executable, *_COMMAND, *flags.split()],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    run_dir = tmp_path / 's' / 'n_step_1-seed_0'
    evaluator = run_dir / 'csv' / 'evaluator.csv'
    end = time.monotonic() + 100
    while not evaluator.exists() or not evaluator.stat().st_size:
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=100)
    assert process.returncode == 128 + signal.SIGTERM
    assert 'n_step 1' in output
    assert ', interrupted' in output and 'failed' not in output
    assert '--resume goes on with the 2 of 2 runs' in output
    assert list((run_dir / 'checkpoints').iterdir())
    assert not (tmp_path / 's' / 'n_step_3-seed_0').exists()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_sweep_that_was_stopped_goes_on(tmp_path):
    flags = '--vary n_step 1 3 --max-actor-steps 600 -o s'.split()
    command = [sys.executable, *_COMMAND, *flags]
    process = subprocess.Popen(command, cwd=tmp_path)
    first = tmp_path / 's' / 'n_step_1-seed_0'
    end = time.monotonic() + 100
    while not (first / 'run.json').exists():
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(100) == 130
    other = subprocess.run(
        [*command, '--resume', '--batch-size', '8'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert 'agent.batch_size must be 64' in other.stderr
    for finished in ('', '2 of 2: finished before'):
        again = subprocess.run(
            [*command, '--resume'], cwd=tmp_path, capture_output=True, text=True
        )
        assert again.returncode == 0, again.stderr + again.stdout
        assert finished in again.stdout
    with open(tmp_path / 's' / 'sweep.csv', newline='') as file:
        rows = list(csv.DictReader(file))
    assert [(row['n_step'], row['state']) for row in rows] == [
        ('1', 'finished'),
        ('3', 'finished'),
    ]
    assert len(json.loads((first / 'run.json').read_text())['starts']) == 2
