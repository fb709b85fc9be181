"""Layouts of a program, each of which learns Catch as processes."""

import os
import signal
import time

import numpy as np
import pytest

from repertory.agents.apex_dqn import config
from repertory.launch import experiment as experiment_lib
from repertory.launch import launcher, program, progress

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def launch(tmp_path, topology, **budget):
    experiment = experiment_lib.ExperimentConfig(
        agent=config.Config(min_replay_size=500, learning_rate=1e-3),
        environment='catch',
        evaluation_period_seconds=2.0,
        logging=experiment_lib.LoggingConfig(tensorboard=False),
        seed=1,
        **budget,
    )
    layout = experiment_lib.Topology(envs_per_actor=8, **topology)
    return launcher.launch(
        program.make_program(experiment, layout, tmp_path),
        'processes',
        tmp_path,
        program.process_environments(experiment, layout),
        program.restart_policies(layout),
    )


def run(tmp_path, **topology):
    started = launch(tmp_path, topology, max_actor_steps=400_000, target_return=0.9)
    names = [node.name for node in started.nodes]
    try:
        result = started.wait(timeout=240)
    finally:
        started.kill()
    assert result == launcher.Result(0), result.failure
    status = progress.read(tmp_path / 'status.json')
    assert status['reason'].startswith('target_return of 0.9 reached')
    return names, status


def test_two_shards_learn_and_share_the_actors(tmp_path):
    names, status = run(tmp_path, num_actors=2, replay_shards=2)
    assert {'replay_0', 'replay_1'} <= set(names)
    shards = [status['nodes'][f'replay_{i}']['metrics'] for i in range(2)]
    sizes = [shard['size'] for shard in shards]
    assert min(sizes) > 0.3 * max(sizes)
    # Each keeps the ratio by itself, so that the whole does.
    for shard in shards:
        assert shard['samples_per_insert'] == pytest.approx(8.0, rel=0.1)


def test_replay_in_the_learner_two_actors_a_process_and_two_evaluators(tmp_path):
    names, status = run(
        tmp_path, num_actors=3, actors_per_process=2, evaluators=2, replay='learner'
    )
    assert names == [
        'coordinator',
        'learner',
        'actor_0-actor_1',
        'actor_2',
        'evaluator',
        'evaluator_1',
    ]
    for role in 'actor_0', 'actor_1', 'actor_2', 'evaluator', 'evaluator_1':
        assert np.isfinite(status['nodes'][role]['metrics']['episode_return'])
        assert (tmp_path / 'csv' / f'{role}.csv').exists()


def test_a_relay_that_dies_comes_back_and_its_actors_go_on(tmp_path):
    def status():
        return progress.read(tmp_path / 'status.json')

    def metric(name):
        actor = status().get('nodes', {}).get('actor_0', {})
        return actor.get('metrics', {}).get(name, -1)

    def wait_for(condition):
        end = time.monotonic() + 90
        while not condition():
            assert started.alive, started.wait().failure
            assert time.monotonic() < end
            time.sleep(0.1)

    topology = {'num_actors': 3, 'variable_relays': 2, 'restart': ('relay',)}
    started = launch(tmp_path, topology, max_actor_steps=10**9)
    try:
        wait_for(lambda: metric('policy_version') > 0)
        pids = {node.name: node.pid for node in started.nodes}
        assert {'relay_0', 'relay_1'} <= set(pids)
        os.kill(pids['relay_0'], signal.SIGKILL)
        # What it acts with then has come through the relay that came back.
        killed_at = status()['counts']['learner_steps']
        wait_for(lambda: metric('policy_version') > killed_at)
        started.stop()
        assert started.wait(timeout=60) == launcher.Result(0)
    finally:
        started.kill()
