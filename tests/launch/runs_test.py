"""Whole runs of the command, ended in every way."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from repertory.agents.apex_dqn import config
from repertory.launch import experiment as experiment_lib
from repertory.launch import launcher, program, progress, run_folder
from tests import fakes

# Two whole runs, on a machine that others use too.
pytestmark = pytest.mark.timeout(300)

_SMALL = (
    '--min-replay-size 100 --batch-size 16 --envs-per-actor 4 '
    '--evaluation-episodes 4 --logging.no-tensorboard'
).split()


def start(run_dir, *flags):
    command = [sys.executable, '-m', 'repertory', 'train']
    if '--resume' not in flags:
        command += ['apex-dqn', '--env', 'catch', '--run-dir', str(run_dir), *_SMALL]
    return subprocess.Popen(
        [*command, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process, seconds=100):
    """Returns the exit code and the output."""
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, output


def wait_for(condition, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, 'waited in vain'
        time.sleep(0.05)


def count(run_dir, name):
    return progress.read(run_dir / 'status.json').get('counts', {}).get(name, 0)


def descendants(pid):
    """Returns the ids of all processes below `pid`."""
    parents = {}
    for path in pathlib.Path('/proc').glob('[0-9]*/stat'):
        try:
            fields = path.read_text().rpartition(')')[2].split()
        except OSError:
            continue
        if fields[0] != 'Z':
            parents[int(path.parent.name)] = int(fields[1])
    found, frontier = [], {pid}
    while frontier:
        frontier = {p for p, parent in parents.items() if parent in frontier}
        found += frontier
    return found


def node_pid(pid, name):
    for child in descendants(pid):
        command = pathlib.Path(f'/proc/{child}/cmdline').read_text()
        if f'{name}.job' in command:
            return child
    raise AssertionError(f'no process of {name}')


def alive(pids):
    return [pid for pid in pids if pathlib.Path(f'/proc/{pid}/cmdline').exists()]


@pytest.mark.parametrize(
    'launch',
    [
        'processes',
        *(pytest.param(m, marks=pytest.mark.slow) for m in ('threads', 'sync')),
    ],
)
def test_a_budget_of_five_steps_ends_with_everything_written(tmp_path, launch):
    run_dir = tmp_path / 'run'
    flags = '--max-actor-steps', '5', '--launch', launch
    actors = () if launch == 'sync' else ('--num-actors', '2')
    code, output = finish(start(run_dir, *flags, *actors))
    assert code == 0, output
    status = progress.read(run_dir / 'status.json')
    assert 5 <= status['counts']['actor_steps'] <= 5 + 2 * 4
    assert status['reason'] == 'max_actor_steps of 5 reached'
    assert status['nodes']['evaluator']['metrics']['final'] == 1
    assert list((run_dir / 'checkpoints').glob('*.ckpt'))
    assert (run_dir / 'policy').exists()
    assert (run_dir / 'learning_curve.png').exists()
    assert f'repertory eval {run_dir}' in output
    assert f'repertory train --resume {run_dir}' in output


@pytest.mark.slow
@pytest.mark.parametrize(
    'victim', ['coordinator', 'replay_0', 'learner', 'actor_1', 'evaluator']
)
def test_a_killed_node_ends_the_run_by_name(tmp_path, victim):
    run_dir = tmp_path / 'run'
    process = start(run_dir, '--num-actors', '2', '--max-actor-steps', '1000000')
    wait_for(lambda: count(run_dir, 'learner_steps') > 0)
    everybody = descendants(process.pid)
    begin = time.monotonic()
    os.kill(node_pid(process.pid, victim), signal.SIGKILL)
    code, output = finish(process, 60)
    assert time.monotonic() - begin < 30
    assert code == 1
    headline = f'{victim} was killed by signal 9 (SIGKILL)'
    assert headline in output
    # It comes last: only the end of the node's log follows.
    assert 'repertory train --resume' not in output.partition(headline)[2]
    assert not alive(everybody)


@pytest.mark.slow
@pytest.mark.parametrize('moment', ['start', 'middle', 'checkpoint'])
@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_cleanly(tmp_path, moment, number):
    run_dir = tmp_path / 'run'
    flags = ['--max-actor-steps', '1000000', '--num-actors', '2']
    if moment == 'checkpoint':  # One is always being written.
        flags += ['--checkpoint.period-seconds', '0.01']
    process = start(run_dir, *flags)
    if moment == 'start':
        wait_for((run_dir / 'status.json').exists)
    else:
        wait_for(lambda: count(run_dir, 'learner_steps') > 100)
    everybody = descendants(process.pid)
    begin = time.monotonic()
    process.send_signal(number)
    code, output = finish(process, 60)
    assert time.monotonic() - begin < 20
    assert code == 128 + number
    assert 'Traceback' not in output
    assert not alive(everybody)
    if moment != 'start':
        folder = run_folder.RunFolder(run_dir)
        status = progress.read(folder.status)
        assert not status['failure']
        saved = folder.saved_counts()
        assert saved['actor_steps'] == status['counts']['actor_steps']
        assert saved['learner_steps'] == status['counts']['learner_steps']


@pytest.mark.slow
@pytest.mark.parametrize('launch', ['threads', 'processes'])
def test_a_second_ctrl_c_ends_the_run_at_once(tmp_path, launch):
    process = start(tmp_path / 'run', '--num-actors', '2', '--launch', launch)
    wait_for(lambda: count(tmp_path / 'run', 'actor_steps') > 0)
    everybody = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, output = finish(process, 20)
    assert code == 130 and 'what was not yet saved is lost' in output
    assert time.monotonic() - begin < 10
    assert not alive(everybody)


@pytest.mark.slow
def test_a_killed_launcher_leaves_no_process(tmp_path):
    run_dir = tmp_path / 'run'
    process = start(
        run_dir, '--max-actor-steps', '1000000', '--environments', 'processes'
    )
    wait_for(lambda: count(run_dir, 'actor_steps') > 0)
    everybody = descendants(process.pid)
    assert len(everybody) >= 5
    process.kill()
    process.communicate()
    wait_for(lambda: not alive(everybody), 15)


@pytest.mark.slow
def test_a_resumed_run_continues_its_counts(tmp_path):
    run_dir = tmp_path / 'run'
    code, output = finish(start(run_dir, '--max-actor-steps', '1000'))
    assert code == 0, output
    folder = run_folder.RunFolder(run_dir)
    before = folder.saved_counts()
    code, output = finish(
        start(run_dir, '--resume', str(run_dir), '--max-actor-steps', '2000')
    )
    assert code == 0, output
    after = folder.saved_counts()
    assert 2000 <= after['actor_steps'] < 2000 + 16
    assert after['learner_steps'] > before['learner_steps']
    assert after['seconds'] > before['seconds']
    starts = json.loads(folder.run.read_text())['starts']
    assert len(starts) == 2
    log = (folder.logs / 'learner.log').read_text()
    assert f'restored learner step {before["learner_steps"]}' in log
    # Each run inserts some 900 items: the replay holds those of both.
    nodes = progress.read(folder.status)['nodes']
    assert nodes['replay_0']['metrics']['size'] > 1500


def make_nan(seed):
    del seed
    return fakes.NaNEnvironment(at_step=3)


@pytest.mark.slow
def test_a_nan_observation_ends_the_run_and_says_where(tmp_path):
    experiment = experiment_lib.ExperimentConfig(
        agent=config.Config(), environment=make_nan
    )
    topology = experiment_lib.Topology(envs_per_actor=2)
    made = program.make_program(experiment, topology, tmp_path)
    result = launcher.launch(made, 'processes', tmp_path).wait(timeout=100)
    assert result.exit_code == 1
    assert result.failed_node in ('actor_0', 'evaluator')
    assert 'FloatingPointError' in result.failure
    assert 'observation' in result.failure.splitlines()[-1]
