"""What a run outlives: each of its processes dies, hangs or fails, or a disk is full.

Each test prints the seconds until the run was back: `pytest -s`.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from repertory.components import checkpointing
from repertory.launch import launcher, progress
from tests.integration import fault_runs, fragile

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_SHARDS = 2


@pytest.fixture(scope='module', params=['processes', 'ray'])
def mode(request):
    ray = pytest.importorskip('ray') if request.param == 'ray' else None
    yield request.param
    if ray is not None:
        ray.shutdown()  # The first launch has started it.


def check_outlives(run, victim, what, strike):
    before, incarnation = run.pids(), run.incarnation(victim)
    strike(before[victim])
    seconds = run.seconds_until_back(victim, incarnation)
    print(f'\n{run.mode}, {victim}, {what}: back after {seconds:.1f} s')
    run.check_ratio()
    after = run.pids()
    assert {name for name in after if after[name] != before[name]} == {victim}
    assert set(fault_runs.marked(run.path)) <= set(after.values())  # No orphan.


def test_a_run_outlives_the_death_of_the_inference_server(mode, tmp_path):
    with fault_runs.Run(tmp_path, mode) as run:
        run.launch(checkpoint_seconds=300.0, shards=1, inference='central')
        check_outlives(
            run, 'inference', 'SIGKILL', lambda p: os.kill(p, signal.SIGKILL)
        )
        assert run.stop() == launcher.Result(0)


_DRIVER = """
import pathlib, sys
from tests.integration import fault_runs
run = fault_runs.Run(pathlib.Path(sys.argv[1]), sys.argv[2])
run.launch(checkpoint_seconds=1.0, shards=1)
run.run.wait()
"""


def seconds_until_gone(path, patience, **which):
    begin = time.monotonic()
    while left := fault_runs.marked(path, **which):
        assert time.monotonic() < begin + patience, f'{left} outlived the launcher'
        time.sleep(0.05)
    return time.monotonic() - begin


def test_nothing_outlives_the_launcher_and_another_resumes(mode, tmp_path):
    """It is the supervisor too; on Ray the cluster that it started ends with it."""
    root = str(pathlib.Path(__file__).parents[2])
    status = tmp_path / 'status.json'
    environment = {
        **os.environ,
        'PYTHONPATH': os.pathsep.join([root, os.environ.get('PYTHONPATH', '')]),
        fragile.VARIABLE: str(tmp_path / 'break'),
    }
    command = [sys.executable, '-c', _DRIVER, str(tmp_path), mode]
    driver = subprocess.Popen(command, env=environment)
    try:
        end = time.monotonic() + 180
        while progress.read(status).get('counts', {}).get('learner_steps', 0) < 1000:
            assert driver.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        assert len(fault_runs.marked(tmp_path)) >= 7
    finally:
        driver.kill()
    driver.wait()
    nodes = seconds_until_gone(tmp_path, 15, nodes_only=True)
    # Ray's own agents seek its head for a minute before they give up.
    rest = seconds_until_gone(tmp_path, 90)
    print(f'\n{mode}, launcher: nodes gone after {nodes:.1f} s, all {rest:.1f} s later')
    saved = checkpointing.latest(tmp_path / 'checkpoints')
    counts = checkpointing.load(saved).metadata['counts']
    begin = time.monotonic()
    with fault_runs.Run(tmp_path, mode) as run:
        run.launch(checkpoint_seconds=300.0, shards=1, resume=True)
        seconds = time.monotonic() - begin
        print(f'{mode}, launcher: resumed by another after {seconds:.1f} s')
        assert run.counts()['actor_steps'] >= counts['actor_steps']
        run.check_ratio()
        assert run.stop() == launcher.Result(0)


@pytest.fixture
def small_disk(tmp_path):
    path = tmp_path / 'run' / 'checkpoints'
    path.mkdir(parents=True)
    mount = ['mount', '-t', 'tmpfs', '-o', 'size=1m', 'repertory', str(path)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f'a file system cannot be mounted here: {done.stderr.strip()}')
    yield path
    subprocess.run(['umount', str(path)], check=True)


def test_a_full_disk_costs_checkpoints_and_no_more(mode, small_disk):
    with fault_runs.Run(small_disk.parent, mode) as run:
        run.launch(checkpoint_seconds=1.0, shards=1)
        run.wait_for(lambda: checkpointing.latest(small_disk) is not None)
        filler = os.open(small_disk / 'filler', os.O_CREAT | os.O_WRONLY)
        with pytest.raises(OSError, match='No space left'):
            while True:
                os.write(filler, b'0' * 4096)
        os.close(filler)
        log = run.path / 'logs' / 'learner.log'
        run.wait_for(lambda: 'No space left on device' in log.read_text())
        saved, counts = checkpointing.latest(small_disk), run.counts()
        assert saved is not None and checkpointing.load(saved).arrays
        run.wait_for(
            lambda: run.counts()['learner_steps'] > counts['learner_steps'] + 500
        )
        (small_disk / 'filler').unlink()
        begin = time.monotonic()
        run.wait_for(lambda: checkpointing.latest(small_disk) != saved)
        print(
            f'\n{mode}, disk full: saved again after {time.monotonic() - begin:.1f} s'
        )
        assert run.stop() == launcher.Result(0)


# The tests above have a run each; those below share one, which would slow them down.


@pytest.fixture(scope='module')
def running(mode, tmp_path_factory):
    with fault_runs.Run(tmp_path_factory.mktemp('faults'), mode) as run:
        run.launch(checkpoint_seconds=5.0, shards=_SHARDS)
        yield run
        assert run.stop() == launcher.Result(0)


@pytest.mark.parametrize(
    'victim', ['actor_0', 'evaluator', 'learner', 'replay_1', 'coordinator']
)
def test_a_run_outlives_the_death_of(running, victim):
    running.wait_for(lambda: any((running.path / 'checkpoints').glob('*.ckpt')))
    check_outlives(running, victim, 'SIGKILL', lambda p: os.kill(p, signal.SIGKILL))


@pytest.mark.parametrize('victim', ['actor_0', 'learner', 'replay_1'])
def test_a_run_outlives_a_segmentation_fault_of(running, victim):
    running.wait_for(lambda: any((running.path / 'checkpoints').glob('*.ckpt')))
    check_outlives(running, victim, 'SIGSEGV', lambda p: os.kill(p, signal.SIGSEGV))


# The launcher watches the other processes itself.
@pytest.mark.parametrize('mode', ['ray'], indirect=True)
@pytest.mark.parametrize('victim', ['actor_0', 'learner', 'replay_1', 'coordinator'])
def test_a_run_outlives_the_death_of_the_worker_of_ray_that_watches(running, victim):
    running.wait_for(lambda: any((running.path / 'checkpoints').glob('*.ckpt')))

    def strike(pid):
        os.kill(fault_runs.parent(pid), signal.SIGKILL)

    check_outlives(running, victim, "Ray's worker, SIGKILL", strike)


def test_a_run_outlives_an_exception(running):
    before = running.pids()
    begin = time.monotonic()
    (running.path / 'break').touch()
    running.wait_for(lambda: running.pids() != before)
    counts = running.counts()
    [victim] = [n for n, pid in running.pids().items() if pid != before[n]]
    assert victim in ('actor_0', 'actor_1', 'evaluator')
    log = (running.path / 'logs' / f'{victim}.log').read_text()
    assert 'ValueError: this environment is broken' in log
    running.wait_for(
        lambda: running.counts()['actor_steps'] > counts['actor_steps'] + 500
    )
    seconds = time.monotonic() - begin
    print(f'\n{running.mode}, exception in {victim}: back after {seconds:.1f} s')
    running.check_ratio()


def test_a_run_outlives_a_learner_that_hangs_for_20_seconds(running):
    before = running.pids()
    os.kill(before['learner'], signal.SIGSTOP)
    time.sleep(20)
    os.kill(before['learner'], signal.SIGCONT)
    seconds = running.seconds_until_back('learner', '')
    print(f'\n{running.mode}, learner stopped for 20 s: back after {seconds:.1f} s')
    assert running.pids() == before
    running.check_ratio()
