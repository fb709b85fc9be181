"""The command line without running anything: flags, refusals, light start-up."""

import dataclasses
import re
import subprocess
import sys

import pytest

from repertory.agents.apex_dqn import config
from repertory.launch import experiment as experiment_lib
from repertory.launch import records, run_folder
from repertory.launch.cli import main, train, versions


def test_every_field_is_a_flag_with_help(capsys):
    with pytest.raises(SystemExit) as caught:
        main.main(['train', 'apex-dqn', '--help'])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for kind in config.Config, experiment_lib.Topology, experiment_lib.ExperimentConfig:
        for field in dataclasses.fields(kind):
            if field.name not in ('agent', 'environment', 'networks'):
                assert f'--{field.name.replace("_", "-")}' in text, field.name
    for flag in 'env', 'preset', 'launch', 'run-dir', 'resume', 'checkpoint.keep':
        assert f'--{flag}' in text
    assert 'Environment steps of reward before the bootstrap' in text


def test_flags_set_the_fields_of_all_configs():
    request = train._parse(
        'apex-dqn --env gym:CartPole-v1 --n-step 5 --num-actors 3 --seed 7 '
        '--checkpoint.keep 4 --max-gradient-norm None --launch threads'.split()
    )
    assert request.experiment.environment == 'gym:CartPole-v1'
    assert request.experiment.agent.n_step == 5
    assert request.experiment.agent.max_gradient_norm is None
    assert request.experiment.seed == 7
    assert request.experiment.checkpoint.keep == 4
    assert request.topology.num_actors == 3
    assert request.launch == 'threads'


def test_a_preset_is_the_default_of_the_other_flags():
    request = train._parse(
        'apex-dqn --preset paper --env catch --batch-size 32'.split()
    )
    assert request.experiment.agent == dataclasses.replace(
        config.PRESETS['paper'], batch_size=32
    )


def test_a_resumed_run_keeps_its_settings_but_for_the_flags_given(tmp_path):
    experiment = experiment_lib.ExperimentConfig(
        agent=config.Config(n_step=5), environment='catch', max_actor_steps=10
    )
    folder = run_folder.create(
        tmp_path / 'run', experiment, agent='apex_dqn', environment='catch', seed=0
    )
    topology = experiment_lib.Topology(num_actors=2)
    run_folder.write_json(folder.path / 'topology.json', records.encode(topology))
    request = train._parse(['--resume', str(folder.path), '--max-actor-steps', '20'])
    assert request.experiment == dataclasses.replace(experiment, max_actor_steps=20)
    assert request.topology == topology
    assert request.resume == folder.path


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ('fly', "the command must be one of train, .* got 'fly'"),
        ('train', "agent must be one of .*apex-dqn.* got 'none'"),
        ('train chess', "got 'chess'"),
        ('train apex-dqn', "env must be an environment's name, got none"),
        ('train apex-dqn --env katch', "got 'katch'; did you mean catch"),
        ('train apex-dqn --env catch --n-step 0', 'n_step must be >= 1, got 0'),
        ('train apex-dqn --env catch --preset x', "preset must be .* got 'x'"),
        ('train apex-dqn --env catch --max-actor-steps None', 'would never end'),
        ('train --resume nowhere', 'run_dir must be the folder of a run'),
        ('plot nowhere', 'nowhere'),
    ],
)
def test_a_wrong_command_is_refused_in_words(
    arguments, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main.main(arguments.split()) == 2
    error = capsys.readouterr().err
    assert error.startswith('repertory: ')
    assert 'Traceback' not in error
    assert re.search(message, error)
    assert not list(tmp_path.iterdir())


def test_agents_are_found_by_their_folders():
    assert 'apex-dqn' in train.agent_names()


def test_the_process_that_launches_imports_no_tensorflow():
    code = (
        'import sys\n'
        'from repertory.launch.cli import commands, main, train\n'
        'from repertory.launch import launcher, program, display\n'
        'from repertory.launch import experiment\n'
        'r = train._parse(["apex-dqn", "--env", "catch"])\n'
        'program.make_program(r.experiment, r.topology, ".")\n'
        'r.experiment.make_environment(0)\n'
        'heavy = {"tensorflow", "reverb", "sonnet", "ray"} & set(sys.modules)\n'
        'sys.exit(", ".join(sorted(heavy)) or 0)'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, '')


def test_versions_that_do_not_fit_are_named_in_one_line(monkeypatch):
    monkeypatch.setattr(versions, '_load', lambda package: '')
    assert versions.problems({'tensorflow': versions.installed('tensorflow')}) == []
    [line] = versions.problems({'tensorflow': '1.0', 'numpy': '1.23.5'})
    assert line.startswith('tensorflow must be 1.0, got 2.')
    assert 'tensorflow 1.0, numpy 1.23.5' in line
