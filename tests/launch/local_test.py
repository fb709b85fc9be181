"""Runs in one thread: what is closed, and what gets how much time."""

import csv
import itertools
import os
import signal

import pytest

from repertory.agents import apex_dqn
from repertory.components import checkpointing
from repertory.components.environments import catch
from repertory.launch import experiment, local, progress, run_folder
from tests import fakes


def run(run_dir, environment, **fields):
    return local.run_experiment(
        experiment.ExperimentConfig(
            agent=apex_dqn.Config(),
            environment=environment,
            logging=experiment.LoggingConfig(tensorboard=False),
            **fields,
        ),
        experiment.Topology(envs_per_actor=4),
        run_dir,
    )


def test_an_error_closes_the_environments(tmp_path):
    made, closed = [], []

    class Recorded(fakes.NaNEnvironment):
        def close(self):
            closed.append(self)

    def make(seed):
        del seed
        made.append(Recorded(at_step=3))
        return made[-1]

    with pytest.raises(FloatingPointError, match='observation'):
        run(tmp_path / 'run', make)
    assert len(made) > 4 and {*map(id, made)} == {*map(id, closed)}


def test_the_last_status_has_the_replay_as_it_ended(tmp_path):
    result = run(tmp_path / 'run', 'catch', max_actor_steps=900)
    assert result.run_dir == tmp_path / 'run'
    status = progress.read(result.run_dir / 'status.json')
    replay = status['nodes']['replay_0']['metrics']
    assert replay['size'] > 800
    assert replay['samples_per_insert'] == result.samples_per_insert > 0


def interrupting(number, at):
    """Returns Catch, of which some steps, counted over all, send a signal."""
    count = itertools.count(1)

    class Interrupting(catch.Catch):
        def step(self, action):
            if next(count) in at:
                signal.raise_signal(number)
            return super().step(action)

    return Interrupting


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_with_a_checkpoint(tmp_path, number):
    before = signal.getsignal(number)
    result = run(tmp_path / 'run', interrupting(number, [900]), max_actor_steps=10**9)
    assert result.signal == number
    assert result.reason == f'interrupted by {number.name}'
    assert result.evaluation_return is None
    folder = run_folder.RunFolder(tmp_path / 'run')
    assert folder.saved_counts()['actor_steps'] == result.counts['actor_steps']
    assert (folder.policy / 'saved_model.pb').is_file()
    assert signal.getsignal(number) is before


def test_a_signal_while_the_run_is_saved_spoils_nothing(tmp_path, monkeypatch):
    save = checkpointing.save

    def interrupted_save(*args, **keywords):
        os.kill(os.getpid(), signal.SIGINT)
        return save(*args, **keywords)

    monkeypatch.setattr(checkpointing, 'save', interrupted_save)
    result = run(tmp_path / 'run', 'catch', max_actor_steps=300)
    assert result.signal == signal.SIGINT
    folder = run_folder.RunFolder(tmp_path / 'run')
    assert folder.saved_counts()['actor_steps'] == 300
    assert progress.read(folder.status)['phase'] == 'exit'


def test_a_second_signal_ends_a_run_at_once(tmp_path):
    environment = interrupting(signal.SIGINT, [900, 901])
    with pytest.raises(KeyboardInterrupt, match='not yet saved is lost'):
        run(tmp_path / 'run', environment, max_actor_steps=10**9)


def test_evaluations_that_outlast_their_period_leave_time_to_train(tmp_path):
    run(
        tmp_path / 'run',
        lambda seed: catch.Catch(seed),
        max_actor_steps=400,
        evaluation_episodes=40,
        evaluation_period_seconds=1e-6,
    )
    with open(tmp_path / 'run' / 'csv' / 'evaluator.csv', newline='') as file:
        # An evaluation is about as long as all of the run's 111 vector steps.
        assert len(list(csv.DictReader(file))) < 50


def test_tensorboard_has_the_config_and_what_was_asked_for(tmp_path):
    imageio = pytest.importorskip('imageio.v2')
    from tensorboard.backend.event_processing import event_accumulator

    config = experiment.ExperimentConfig(
        agent=apex_dqn.Config(),
        environment='catch',
        max_actor_steps=40,
        evaluation_episodes=2,
        logging=experiment.LoggingConfig(
            histogram_period_seconds=1000.0, video_period_seconds=1000.0
        ),
    )
    run_dir = tmp_path / 'run'
    local.run_experiment(config, experiment.Topology(envs_per_actor=4), run_dir)
    folder = run_dir / 'tensorboard'
    learner = event_accumulator.EventAccumulator(str(folder / 'learner')).Reload()
    [text] = learner.Tensors('config')
    assert b'| agent.n_step | 3 |' in text.tensor_proto.string_val[0]
    evaluator = event_accumulator.EventAccumulator(str(folder / 'evaluator')).Reload()
    names = [n for n in evaluator.Tags()['tensors'] if n.startswith('parameters/')]
    assert len(names) > 4 and all(len(evaluator.Tensors(n)) == 1 for n in names)
    [film] = evaluator.Images('evaluation')
    assert len(imageio.mimread(film.encoded_image_string)) == 10
