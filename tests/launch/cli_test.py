"""The command line without running anything: flags, refusals, light start-up."""

import contextlib
import dataclasses
import re
import signal
import subprocess
import sys
import types

import docstring_parser
import pytest

import repertory
from repertory.agents.apex_dqn import config
from repertory.components import allocator
from repertory.launch import experiment as experiment_lib
from repertory.launch import placement, records, run_folder
from repertory.launch.cli import config as config_command
from repertory.launch.cli import (
    doctor,
    main,
    names,
    request,
    sweep,
    train,
    trials,
    versions,
)


def test_every_field_is_a_flag_with_help(capsys):
    with pytest.raises(SystemExit) as caught:
        main.main(['train', 'apex-dqn', '--help'])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for kind in config.Config, experiment_lib.Topology, experiment_lib.ExperimentConfig:
        for field in dataclasses.fields(kind):
            if field.name not in ('agent', 'environment', 'networks', 'logger'):
                assert f'--{field.name.replace("_", "-")}' in text, field.name
    for flag in 'env', 'preset', 'launch', 'run-dir', 'checkpoint.keep':
        assert f'--{flag}' in text
    assert 'Environment steps of reward before the bootstrap' in text


def test_flags_set_the_fields_of_all_configs():
    asked = request.parse(
        'apex-dqn --env gym:CartPole-v1 --n-step 5 --num-actors 3 --seed 7 '
        '--checkpoint.keep 4 --max-gradient-norm None --launch threads'.split()
    )
    assert asked.experiment.environment == 'gym:CartPole-v1'
    assert asked.experiment.agent.n_step == 5
    assert asked.experiment.agent.max_gradient_norm is None
    assert asked.experiment.seed == 7
    assert asked.experiment.checkpoint.keep == 4
    assert asked.topology.num_actors == 3
    assert asked.launch == 'threads'


def test_threads_that_are_to_be_restarted_are_refused_before_a_folder_is_made(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    asked = 'train apex-dqn --env catch --launch threads --restart actor learner'
    assert main.main(asked.split()) != 0
    shown = capsys.readouterr().err
    assert 'restart must be empty in threads, got actor, learner; what is' in shown
    assert not list(tmp_path.iterdir())


def test_a_preset_is_the_default_of_the_other_flags():
    asked = request.parse('apex-dqn --preset paper --env catch --batch-size 32'.split())
    assert asked.experiment.agent == dataclasses.replace(
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
    asked = request.parse(['--resume', str(folder.path), '--max-actor-steps', '20'])
    assert asked.experiment == dataclasses.replace(experiment, max_actor_steps=20)
    assert asked.topology == topology
    assert (asked.run_dir, asked.resume) == (folder.path, True)
    for flag in ('--preset paper', '--run-dir x'):  # Are of a new run.
        with pytest.raises(SystemExit):
            request.parse(['--resume', str(folder.path), *flag.split()])


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ('fly', "the command must be one of train, .* got 'fly'"),
        ('train', "agent must be one of .*apex-dqn.* got 'none'"),
        ('train apex-dpn', "got 'apex-dpn'; did you mean apex-d.."),
        ('train chess', "got 'chess'"),
        ('train apex-dqn', "env must be an environment's name, got none"),
        ('train apex-dqn --env katch', "got 'katch'; did you mean catch"),
        (
            'train apex-dqn --env catch --num-learners 2 --launch threads',
            'num_learners must be 1 in threads, got 2',
        ),
        ('train apex-dqn --env catch --n-step 0', 'n_step must be >= 1, got 0'),
        ('train apex-dqn --env catch --preset x', "preset must be .* got 'x'"),
        ('train apex-dqn --env gym:Pendulum-v1', 'must be a scalar DiscreteArray for'),
        ('train d4pg --env catch', r'must be one float32 array in \[-1, 1\], got Disc'),
        ('train apex-dqn --env nowhere:make', "'nowhere:make': No module named"),
        ('train apex-dqn --env math:pi', "got 'math:pi', which is a float"),
        ('train apex-dqn --env catch --max-actor-steps None', 'would never end'),
        ('train --resume nowhere', 'run_dir must be the folder of a run'),
        ('plot nowhere', 'nowhere'),
        ('plot', 'run_dirs must name the folder of a run, got none'),
        ('envs chess', "family must be one of built-in, .* got 'chess'"),
        ('config chess', "agent must be one of .* got 'chess'"),
        ('sweep apex-dqn --env catch --vary n_step', 'vary must name values of n_step'),
        ('sweep apex-dqn --env catch --vary n_step 0', 'n_step must be >= 1, got 0'),
        ('sweep apex-dqn --env catch --samples 2 --vary n_step 5:1', 'LOW < HIGH'),
        ('sweep apex-dqn --env catch --parallel 0', 'parallel must be >= 1, got 0'),
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
    assert 'apex-dqn' in names.agent_names()


def test_the_process_that_launches_imports_no_tensorflow():
    code = (
        'import sys\n'
        'from repertory.launch.cli import completion, main, request, train\n'
        'from repertory.launch import launcher, program, display\n'
        'from repertory.launch import experiment\n'
        'r = request.parse(["apex-dqn", "--env", "catch"])\n'
        'program.make_program(r.experiment, r.topology, ".")\n'
        'r.experiment.agent.check_spec(r.experiment.environment_spec())\n'
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


def test_an_agents_flags_name_what_is_required_and_the_presets(capsys):
    with pytest.raises(SystemExit):
        main.main(['train', 'd4pg', '--help'])
    text = capsys.readouterr().out
    assert re.search(r'--env NAME[^-]*\(required\)', text)
    assert '--preset {default,paper,control,pendulum}' in text
    assert 'repertory train d4pg --env gym:Pendulum-v1' in text


def test_the_version_is_told(capsys):
    assert main.main(['--version']) == 0
    assert capsys.readouterr().out == f'repertory {repertory.__version__}\n'


def test_the_help_names_every_command_and_each_has_help(capsys):
    assert main.main(['--help']) == 0
    text = capsys.readouterr().out
    for name in main.COMMANDS:
        assert f'\n  {name} ' in text
        with contextlib.suppress(SystemExit):
            assert main.main([name, '--help']) == 0
        assert f'usage: repertory {name}' in capsys.readouterr().out


def test_lists_name_agents_settings_and_environments(capsys):
    assert main.main(['agents']) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in names.agent_names())
    assert main.main(['config', 'apex-dqn']) == 0
    shown = capsys.readouterr().out
    for field in dataclasses.fields(config.Config):
        assert field.name in shown
    assert 'paper: 512' in shown
    assert main.main(['envs']) == 0
    assert 'gym:CartPole-v1' in capsys.readouterr().out
    assert main.main(['envs', 'built-in']) == 0
    assert capsys.readouterr().out.split() == ['catch', 'memory_chain']


def test_an_environment_of_ones_own_is_given_by_its_module(tmp_path, monkeypatch):
    (tmp_path / 'my_envs.py').write_text(
        'from repertory.components.environments import catch\n'
        'def make(seed): return catch.Catch(seed, rows=4)\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, 'path', [*sys.path, str(tmp_path)])
    for text in 'my_envs:make', f'{tmp_path}/my_envs.py:make':
        asked = request.parse(['apex-dqn', '--env', text])
        assert asked.experiment.environment_spec().observations.shape == (4, 5)
    assert names.environment('gym:CartPole-v1') == 'gym:CartPole-v1'
    asked = request.parse(['apex-dqn', '--env', 'my_envs:make?frame_stack=2'])
    made = records.decode(records.encode(asked.experiment)).environment_spec()
    assert made.observations.shape == (4, 5, 2)
    with pytest.raises(ValueError, match="option of make .* got 'stack'; did you mean"):
        names.environment('my_envs:make?stack=2')
    with pytest.raises(ValueError, match="frame_stack must be an integer, got 'x'"):
        names.environment('my_envs:make?frame_stack=x')


def test_doctor_ends_with_a_verdict(capsys, monkeypatch):
    monkeypatch.setattr(versions, '_load', lambda package: '')
    monkeypatch.setattr(doctor, '_MEMORY_GIB', 1e6)
    assert main.main(['doctor']) == 0
    text = capsys.readouterr().out
    assert text.endswith('Ready to train.\n')
    assert re.search('advice: .* GiB of memory available; a run', text)
    monkeypatch.setattr(doctor, '_GOOD', {'tensorflow': '1.0'})
    assert main.main(['doctor']) == 1
    text = capsys.readouterr().out
    assert 'problem: tensorflow must be 1.0' in text
    assert 'Not ready' in text


@pytest.mark.parametrize(
    ('own', 'found', 'said'),
    [
        (None, '/lib/libjemalloc.so.2', 'ok: .* jemalloc: /lib/libjemalloc.so.2\n'),
        (None, None, 'advice: .* jemalloc .*apt install libjemalloc2, or pip install'),
        ('', None, "ok: .* LD_PRELOAD stays as it is set: '', .* glibc's\n"),
        ('/a/libtcmalloc.so', '/b.so', 'ok: .* stays as it is set: ./a/libtcmalloc.so'),
        ('/a/libstdbuf.so', '/b.so', 'advice: .* no jemalloc: add /b.so to it'),
        ('/a/libstdbuf.so', None, 'ok: .* stays as it is set'),
    ],
)
def test_doctor_says_which_allocator_runs_have(capsys, monkeypatch, own, found, said):
    monkeypatch.delenv(allocator.VARIABLE, raising=False)
    if own is not None:
        monkeypatch.setenv(allocator.VARIABLE, own)
    monkeypatch.setattr(allocator, 'find', lambda: found)
    monkeypatch.setattr(versions, '_load', lambda package: '')
    assert main.main(['doctor', '-v']) == 0
    assert re.search(said, capsys.readouterr().out)


def test_completion_knows_commands_agents_flags_and_presets(tmp_path):
    script = tmp_path / 'complete.sh'
    with open(script, 'w') as file, contextlib.redirect_stdout(file):
        assert main.main(['completion', 'bash']) == 0
    with open(script, 'a') as file:
        file.write("""
try() {
  COMP_WORDS=(repertory "$@"); COMP_CWORD=$#; COMPREPLY=()
  _tyro_repertory; echo "${COMPREPLY[@]}"
}
try tr; try train apex-d; try train apex-dqn --n-st; try train d4pg --preset pa
try replay s; try eval --vid; try sweep --par
""")
    output = subprocess.run(
        ['bash', script], capture_output=True, text=True, check=True
    ).stdout
    assert output.splitlines() == [
        'train',
        'apex-dpg apex-dqn',
        '--n-step',
        'paper',
        'serve',
        '--video',
        '--parallel',
    ]


def test_a_run_in_one_thread_that_fails_ends_with_its_traceback(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise ValueError('something of the run')

    monkeypatch.setattr('repertory.launch.local.run_experiment', fail)
    monkeypatch.setattr(signal, 'signal', lambda number, handler: None)
    folder = run_folder.RunFolder(tmp_path)
    folder.logs.mkdir()
    asked = types.SimpleNamespace(experiment=None, topology=None, resume=False)
    code, text, _ = train._run_here(asked, folder, 'title')
    assert code == 1 and text.rstrip().endswith('ValueError: something of the run')


def test_a_trial_without_an_evaluation_has_no_result(tmp_path):
    trial = trials.Trial('apex-dqn', {}, 0, tmp_path)
    (tmp_path / 'csv').mkdir()
    (tmp_path / 'csv' / 'evaluator.csv').touch()
    assert trials.result(trial) == {}


def test_settings_that_are_drawn_twice_are_refused(tmp_path):
    with pytest.raises(ValueError, match='settings and seeds must differ, got'):
        sweep.sweep('apex-dqn', [('n_step', '1', '3')], samples=5, output=tmp_path)


def test_a_setting_is_described_as_on_the_command_line():
    assert config_command._describe(True) == 'True'
    assert config_command._describe(20_000) == '20_000'
    assert config_command._describe((64, 64)) == '64 64'


def test_a_trial_passes_its_setting_on_as_flags(tmp_path):
    trial = trials.Trial('apex-dqn', {'hidden_sizes': '8 8'}, 3, tmp_path / 'run')
    asked = request.parse(trial.arguments(['--env', 'catch']))
    assert asked.experiment.agent.hidden_sizes == (8, 8)
    assert (asked.experiment.seed, asked.run_dir) == (3, tmp_path / 'run')
    assert trials.folder_name(trial.setting, 3) == 'hidden_sizes_8_8-seed_3'


def test_a_replay_that_the_machine_cannot_hold_is_warned_of(capsys):
    flags = '--env catch --num-actors 2 --replay-shards 2 --max-replay-size'
    for size, warned in (('1000', False), ('2000000000', True)):
        asked = request.parse(['apex-dqn', *flags.split(), size])
        train._print_replay_memory(asked)
        captured = capsys.readouterr()
        assert 'GiB when full, in 2 shards' in captured.out
        assert ('lower --max-replay-size' in captured.err) is warned


@pytest.mark.parametrize(
    'kind',
    [experiment_lib.ExperimentConfig, experiment_lib.Topology, placement.RayConfig],
)
def test_the_help_of_a_flag_breaks_no_line_twice(kind):
    # The help keeps these breaks, and adds its own in a terminal of 80 columns.
    for field in docstring_parser.parse_from_object(kind).params:
        lines = [x.strip() for x in (field.description or '').splitlines()]
        assert len(lines) < 2 or max(map(len, lines)) <= 70, field.arg_name
