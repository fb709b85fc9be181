"""What a run outlives: each of its processes dies, hangs or fails, or a disk is full.

Each test prints the seconds until the run was back: `pytest -s`.
"""

import os
import pathlib
import signal
import subprocess
import time

import pytest

from repertory.agents.apex_dqn import config
from repertory.components import checkpointing
from repertory.launch import experiment as experiment_lib
from repertory.launch import launcher, program, progress
from repertory.replay import info
from tests.integration import fragile

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_SHARDS = 2


class Run:
    """A run of Ape-X DQN on Catch, all of whose processes are restarted."""

    def __init__(self, run_dir):
        self.path = run_dir
        self.made = None
        self.run = None

    def launch(self, checkpoint_seconds, shards, max_restarts=9):
        experiment = experiment_lib.ExperimentConfig(
            agent=config.Config(min_replay_size=200, batch_size=32),
            environment=fragile.make,
            max_actor_steps=10**9,
            evaluation_period_seconds=2.0,
            checkpoint=experiment_lib.CheckpointConfig(
                period_seconds=checkpoint_seconds
            ),
            logging=experiment_lib.LoggingConfig(tensorboard=False),
        )
        topology = experiment_lib.Topology(
            num_actors=2,
            envs_per_actor=8,
            replay_shards=shards,
            restart=experiment_lib.GROUPS,
            restart_policy=experiment_lib.restarts.RestartPolicy(
                max_restarts=max_restarts, backoff_seconds=1.0
            ),
        )
        self.made = program.make_program(experiment, topology, self.path)
        self.run = launcher.launch(
            self.made,
            'processes',
            self.path,
            program.process_environments(topology),
            program.restart_policies(topology),
        )
        self.wait_for(lambda: self.counts().get('learner_steps', 0) > 500, 120)

    def status(self):
        return progress.read(self.path / 'status.json')

    def counts(self):
        return self.status().get('counts', {})

    def pids(self):
        return {node.name: node.pid for node in self.run.nodes}

    def inserts_and_samples(self):
        addresses = [n.addresses[0].resolve() for n in self.made.groups['replay']]
        tables = [info.table_statistics(address)[0] for address in addresses]
        return sum(t.inserts for t in tables), sum(t.samples for t in tables)

    def wait_for(self, condition, seconds=90):
        end = time.monotonic() + seconds
        while not condition():
            assert self.run.alive, self.run.wait().failure
            assert time.monotonic() < end, f'waited in vain: {self.status()}'
            time.sleep(0.05)

    def seconds_until_back(self, victim, incarnation):
        """Waits until the victim reports anew, and both counts have grown since.

        The counts are monotone all the while.
        """
        begin, last = time.monotonic(), self.counts()

        def grown(by, since):
            nonlocal last
            now = self.counts()
            names = 'actor_steps', 'learner_steps'
            assert all(now[n] >= last[n] for n in names), (last, now)
            last = now
            return all(now[n] >= since[n] + by for n in names)

        def reports():
            grown(0, last)
            node = self.status()['nodes'].get(victim)
            return node is None or node['incarnation'] != incarnation

        self.wait_for(reports)
        since = self.counts()
        self.wait_for(lambda: grown(200, since))
        return time.monotonic() - begin

    def check_ratio(self, asked=8.0):
        """Checks the samples per insert of the next 4,000 items."""
        inserts, samples = self.inserts_and_samples()
        now = inserts, samples
        while now[0] - inserts < 4000:
            time.sleep(0.2)
            now = self.inserts_and_samples()
        ratio = (now[1] - samples) / (now[0] - inserts)
        assert ratio == pytest.approx(asked, rel=0.1)

    def incarnation(self, name):
        return self.status()['nodes'].get(name, {}).get('incarnation', '')

    def stop(self):
        pids = self.pids().values()
        self.run.stop()
        result = self.run.wait(timeout=60)
        assert not [p for p in pids if pathlib.Path(f'/proc/{p}').exists()]
        return result


@pytest.fixture(scope='module')
def running(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp('faults'))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(fragile.VARIABLE, str(run.path / 'break'))
        run.launch(checkpoint_seconds=5.0, shards=_SHARDS)
        yield run
        result = run.stop()
        assert result == launcher.Result(0)


@pytest.mark.parametrize(
    'victim', ['actor_0', 'evaluator', 'learner', 'replay_1', 'coordinator']
)
@pytest.mark.parametrize('number', [signal.SIGKILL, signal.SIGSEGV])
def test_a_run_outlives_the_death_of(running, victim, number):
    if number == signal.SIGSEGV and victim in ('evaluator', 'coordinator'):
        pytest.skip('as SIGKILL')
    running.wait_for(lambda: any((running.path / 'checkpoints').glob('*.ckpt')))
    before, incarnation = running.pids(), running.incarnation(victim)
    os.kill(before[victim], number)
    seconds = running.seconds_until_back(victim, incarnation)
    print(f'\n{victim}, {number.name}: back after {seconds:.1f} s')
    assert seconds < 60
    running.check_ratio()
    after = running.pids()
    assert {name for name in after if after[name] != before[name]} == {victim}


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
    print(f'\nexception in {victim}: back after {time.monotonic() - begin:.1f} s')
    running.check_ratio()


def test_a_run_outlives_a_learner_that_hangs_for_20_seconds(running):
    before = running.pids()
    os.kill(before['learner'], signal.SIGSTOP)
    time.sleep(20)
    os.kill(before['learner'], signal.SIGCONT)
    seconds = running.seconds_until_back('learner', '')
    print(f'\nlearner stopped for 20 s: back after {seconds:.1f} s')
    assert running.pids() == before
    running.check_ratio()


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


def test_a_full_disk_costs_checkpoints_and_no_more(small_disk, monkeypatch):
    run = Run(small_disk.parent)
    monkeypatch.setenv(fragile.VARIABLE, str(run.path / 'break'))
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
    run.wait_for(lambda: run.counts()['learner_steps'] > counts['learner_steps'] + 500)
    (small_disk / 'filler').unlink()
    begin = time.monotonic()
    run.wait_for(lambda: checkpointing.latest(small_disk) != saved)
    print(f'\ndisk full: saved again after {time.monotonic() - begin:.1f} s')
    assert run.stop() == launcher.Result(0)
