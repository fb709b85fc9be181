"""Two learners that learn as one, as processes: they solve Catch, stop and fail."""

import os
import pathlib
import signal
import time

import numpy as np
import pytest

from repertory.agents.apex_dqn import config
from repertory.agents.impala import config as impala_config
from repertory.components import checkpointing
from repertory.launch import experiment as experiment_lib
from repertory.launch import launcher, program, progress

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


class Run:
    """A run of two learners on Catch, two replay shards and two actors."""

    def __init__(
        self,
        run_dir,
        resume=False,
        restart=(),
        agent=None,
        mode='processes',
        **fields,
    ):
        self.path, self.mode = run_dir, mode
        experiment = experiment_lib.ExperimentConfig(
            agent=agent or config.Config(min_replay_size=500, learning_rate=1e-3),
            environment='catch',
            evaluation_period_seconds=2.0,
            logging=experiment_lib.LoggingConfig(tensorboard=False),
            seed=1,
            **{'max_actor_steps': None, **fields},
        )
        topology = experiment_lib.Topology(
            num_actors=2,
            envs_per_actor=8,
            replay_shards=2,
            num_learners=2,
            restart=restart,
        )
        made = program.make_program(experiment, topology, run_dir, resume)
        self.run = launcher.launch(
            made,
            mode,
            run_dir,
            program.process_environments(experiment, topology),
            program.restart_policies(topology),
        )
        self.stop, self.wait = self.run.stop, self.run.wait

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        pids = list(self.pids().values())
        self.run.kill()
        self.run.wait(timeout=30)
        assert not [p for p in pids if pathlib.Path(f'/proc/{p}').exists()]

    def status(self):
        return progress.read(self.path / 'status.json')

    def counts(self):
        return self.status().get('counts', {})

    def pids(self):
        return {node.name: node.pid for node in self.run.nodes}

    def wait_for_steps(self, number):
        self.wait_for(lambda: self.counts().get('learner_steps', 0) >= number)

    def outlive(self, victim):
        """Kills one, and waits until both are new, and have learned again."""
        before, steps = self.pids(), self.counts()['learner_steps']
        begin = time.monotonic()
        os.kill(before[victim], signal.SIGKILL)

        def changed():
            return {name for name, pid in self.pids().items() if pid != before[name]}

        self.wait_for(lambda: len(changed()) == 2)
        self.wait_for_steps(steps + 400)
        print(f'\n{self.mode}, {victim}: back after {time.monotonic() - begin:.1f} s')
        assert changed() == {'learner', 'learner_1'}

    def wait_for(self, condition, seconds=180):
        end = time.monotonic() + seconds
        while not condition():
            assert self.run.alive, self.run.wait().failure
            assert time.monotonic() < end, f'waited in vain: {self.status()}'
            time.sleep(0.05)


def test_two_shards_and_two_learners_solve_catch(tmp_path):
    with Run(tmp_path, max_actor_steps=400_000, target_return=0.9) as running:
        names = set(running.pids())
        assert {'learner', 'learner_1', 'replay_0', 'replay_1'} <= names
        result = running.wait(timeout=300)
    assert result == launcher.Result(0), result.failure
    status = running.status()
    assert status['reason'].startswith('target_return of 0.9 reached')
    # Each keeps the ratio of what both learners sample.
    for shard in 'replay_0', 'replay_1':
        metrics = status['nodes'][shard]['metrics']
        assert metrics['samples_per_insert'] == pytest.approx(8.0, rel=0.1)
    assert status['nodes']['learner_1']['counts'].get('steps', 0) == 0


def test_both_learners_of_impala_empty_the_queues(tmp_path):
    agent = impala_config.Config(batch_size=32, max_queue_size=96)
    with Run(tmp_path, agent=agent, max_learner_steps=100) as running:
        result = running.wait(timeout=300)
    assert result == launcher.Result(0), result.failure
    path = checkpointing.latest(tmp_path / 'checkpoints')
    assert checkpointing.load(path).arrays['steps'] == 100


def test_a_stopped_run_is_resumed_where_it_was(tmp_path):
    with Run(tmp_path, max_learner_steps=10**6) as running:
        running.wait_for_steps(400)
        running.stop()
        assert running.wait(timeout=60) == launcher.Result(0)
    saved = checkpointing.load(checkpointing.latest(tmp_path / 'checkpoints'))
    steps = int(saved.arrays['steps'])
    assert steps == saved.metadata['counts']['learner_steps'] >= 400
    with Run(tmp_path, resume=True, max_learner_steps=steps + 200) as running:
        assert running.wait(timeout=240) == launcher.Result(0)
    after = checkpointing.load(checkpointing.latest(tmp_path / 'checkpoints'))
    assert steps + 200 <= after.arrays['steps'] < steps + 208
    names = [name for name in saved.arrays if name.startswith('online')]
    assert any(np.any(saved.arrays[n] != after.arrays[n]) for n in names)


@pytest.mark.parametrize('victim', ['learner', 'learner_1'])
def test_the_death_of_one_ends_the_run_and_is_named(tmp_path, victim):
    with Run(tmp_path, max_learner_steps=10**6) as running:
        running.wait_for_steps(100)
        begin = time.monotonic()
        os.kill(running.pids()[victim], signal.SIGKILL)
        result = running.wait(timeout=60)
        seconds = time.monotonic() - begin
    print(f'\n{victim} killed: ended after {seconds:.1f} s')
    assert seconds < 30
    assert (result.exit_code, result.failed_node) == (1, victim)
    assert 'was killed by signal 9' in result.failure
    # The first learner saves what both had done.
    saved = checkpointing.latest(tmp_path / 'checkpoints')
    assert (saved is not None) == (victim == 'learner_1')


def test_a_follower_that_dies_when_the_run_ends_costs_no_checkpoint(tmp_path):
    """With restarts, of which the first learner must not be one: it is to save."""
    with Run(tmp_path, restart=('learner',), max_learner_steps=10**6) as running:
        running.wait_for_steps(400)
        before = running.pids()
        os.kill(before['learner'], signal.SIGSTOP)  # Until the other one is dead.
        steps = running.counts()['learner_steps']
        running.stop()
        running.wait_for(lambda: running.status()['phase'] == 'drain')
        os.kill(before['learner_1'], signal.SIGKILL)
        begin = time.monotonic()
        running.wait_for(lambda: running.pids()['learner_1'] != before['learner_1'])
        os.kill(before['learner'], signal.SIGCONT)
        assert running.wait(timeout=90) == launcher.Result(0)
        print(f'\nlearner_1 killed: ended after {time.monotonic() - begin:.1f} s')
        assert running.pids()['learner'] == before['learner']
    saved = checkpointing.load(checkpointing.latest(tmp_path / 'checkpoints'))
    assert saved.arrays['steps'] >= steps


@pytest.fixture(params=['processes', 'ray'])
def mode(request):
    ray = pytest.importorskip('ray') if request.param == 'ray' else None
    yield request.param
    if ray is not None:
        ray.shutdown()


def test_learners_that_may_restart_do_so_together(tmp_path, mode):
    with Run(
        tmp_path,
        mode=mode,
        restart=('learner',),
        max_learner_steps=10**6,
        checkpoint=experiment_lib.CheckpointConfig(period_seconds=2.0),
    ) as running:
        running.wait_for_steps(100)
        for victim in 'learner_1', 'learner':
            running.wait_for(
                lambda: checkpointing.latest(tmp_path / 'checkpoints') is not None
            )
            running.outlive(victim)
        running.stop()
        assert running.wait(timeout=60) == launcher.Result(0)
