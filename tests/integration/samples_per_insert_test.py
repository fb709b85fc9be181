"""The ratio of samples to inserts is kept in each launch, whichever side is slow."""

import json
import os

import pytest

from repertory.launch import experiment, launcher, local, program, run_folder
from tests.integration import slow


def _measure(config, launch, run_dir):
    """Returns the samples per insert of a whole run."""
    topology = experiment.Topology(num_actors=1, envs_per_actor=8, evaluators=1)
    if launch == 'sync':
        return local.run_experiment(config, topology, run_dir).samples_per_insert
    run_folder.open_folder(config, topology, run_dir)
    run = launcher.launch(
        program.make_program(config, topology, run_dir),
        launch,
        run_dir,
        program.process_environments(config, topology),
    )
    run.wait(100).check()
    status = json.loads(run_folder.RunFolder(run_dir).status.read_text())
    return status['nodes']['replay_0']['metrics']['samples_per_insert']


@pytest.mark.slow
@pytest.mark.timeout(150)
@pytest.mark.parametrize('slow_side', ['learner', 'actor'])
@pytest.mark.parametrize('ratio', [0.5, 4.0, 16.0])
@pytest.mark.parametrize('launch', ['sync', 'threads', 'processes'])
def test_the_ratio_is_kept(tmp_path, launch, ratio, slow_side):
    batch_size = 16
    agent = slow.Config(
        samples_per_insert=ratio,
        batch_size=batch_size,
        updates_per_call=1,
        min_replay_size=100,
        # Makes the learner the slower side, at some 500 items a second.
        learner_sleep_seconds=0.002 * ratio if slow_side == 'learner' else 0.0,
    )
    # The limiter's buffer, in items, must be little beside what is inserted.
    buffer = agent.rate_limit().error_buffer
    steps = int(100 + 25 * max(buffer / ratio, 40))
    config = experiment.ExperimentConfig(
        agent=agent,
        environment='catch' if slow_side == 'learner' else slow.make_slow_catch,
        max_actor_steps=steps,
        evaluation_episodes=2,
        evaluation_period_seconds=60.0,
        logging=experiment.LoggingConfig(tensorboard=False),
    )
    measured = _measure(config, launch, os.fspath(tmp_path / 'run'))
    assert measured == pytest.approx(ratio, rel=0.1)
