import dataclasses
import functools
import json
import os
import subprocess
import sys
import typing

import numpy as np
import pytest

from repertory.agents import apex_dqn, impala
from repertory.components import checkpointing, specs
from repertory.launch import experiment as experiment_lib
from repertory.launch import records, run_folder


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Agent:
    n_step: int = 3
    sizes: tuple[int, ...] = (16, 16)
    discount: float = 0.99


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Config:
    agent: _Agent = _Agent()
    environment: typing.Any = 'catch'
    max_actor_steps: int | None = 1000
    target_return: float | None = float('inf')
    logging: dict = dataclasses.field(default_factory=dict)


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    # Under pytest's importlib mode this file has no name that imports find.
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__, _module()))


def _module():
    module = type(sys)(__name__)
    module.__dict__.update(_Agent=_Agent, _Config=_Config)
    return module


def _create(path, config=None):
    return run_folder.create(
        path, config or _Config(), agent='apex_dqn', environment='catch', seed=3
    )


def test_a_config_comes_back_as_it_was():
    config = _Config(
        agent=_Agent(n_step=5),
        environment=functools.partial(specs.zeros, 1, leading=2),
        logging={'a': (1, 2)},
    )
    record = json.loads(json.dumps(records.encode(config)))
    decoded = records.decode(record)
    factory = decoded.environment
    assert (factory.func, factory.args, factory.keywords) == (
        specs.zeros,
        (1,),
        {'leading': 2},
    )
    assert dataclasses.replace(decoded, environment=0) == dataclasses.replace(
        config, environment=0
    )


def test_a_function_comes_back_by_its_import_path():
    assert records.encode(specs.describe) == {
        'import': 'repertory.components.specs:describe'
    }
    assert records.decode(records.encode(specs.describe)) is specs.describe


def test_what_cannot_be_read_back_is_recorded_and_named():
    record = records.encode(_Config(environment=lambda seed: seed))
    assert '<lambda>' in json.dumps(record)
    with pytest.raises(ValueError, match=r'config.environment must be importable'):
        records.decode(record)


def test_a_field_that_the_code_does_not_know_is_named():
    record = records.encode(_Config())
    record['agent']['old_field'] = 1
    with pytest.raises(ValueError, match='config.agent must fit the code.*old_field'):
        records.decode(record)


def test_create_records_how_the_run_was_started(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, 'argv', ['repertory', 'train', 'a b'])
    folder = _create(tmp_path / 'runs' / 'first')
    assert folder.load_config() == _Config()
    description = folder.description()
    assert (description['agent'], description['environment']) == ('apex_dqn', 'catch')
    assert description['seed'] == 3
    (start,) = description['starts']
    assert start['command'].endswith("repertory train 'a b'")
    assert start['versions']['numpy'].startswith('1.')
    assert start['host']['cores'] >= 1
    assert sorted(path.name for path in folder.path.iterdir()) == [
        'config.json',
        'lock',
        'run.json',
    ]


def test_create_records_the_commit_of_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert _create(tmp_path / 'a').description()['starts'][0]['git'] is None
    git = ['git', '-c', 'user.name=n', '-c', 'user.email=e@x']
    subprocess.run([*git, 'init', '-q'], check=True)
    (tmp_path / 'file').write_text('1')
    subprocess.run([*git, 'add', 'file'], check=True)
    subprocess.run([*git, 'commit', '-q', '-m', 'm'], check=True)
    recorded = _create(tmp_path / 'b').description()['starts'][0]['git']
    assert len(recorded['commit']) == 40
    assert recorded['changed'] is False
    (tmp_path / 'file').write_text('2')
    assert _create(tmp_path / 'c').description()['starts'][0]['git']['changed'] is True


def test_create_refuses_a_folder_with_something_in_it(tmp_path):
    _create(tmp_path)
    with pytest.raises(FileExistsError, match='run_dir must be a new or empty folder'):
        _create(tmp_path)


def test_default_path_names_the_run(tmp_path):
    path = run_folder.default_path('apex_dqn', 'gym:CartPole-v1', 7, tmp_path)
    assert path.parent == tmp_path
    assert path.name.startswith('apex_dqn_gym_CartPole_v1-')
    assert path.name.endswith('-7')


@pytest.mark.parametrize(
    'module, name',
    [('repertory.agents.apex_dqn.config', 'apex_dqn'), ('notebook', 'C')],
)
def test_an_agent_is_named_after_its_folder(module, name):
    config = type('C', (), {'__module__': module})()
    assert run_folder.agent_name(config) == name


@pytest.mark.parametrize('path, reason', [('.', 'has no run'), ('x', 'does not exist')])
def test_resume_refuses_a_folder_that_is_no_run(tmp_path, path, reason):
    with pytest.raises(
        FileNotFoundError, match=f'must be the folder of a run.*{reason}'
    ):
        run_folder.open_for_resume(tmp_path / path)


def test_resume_with_the_same_config_adds_a_start(tmp_path):
    _create(tmp_path)
    folder = run_folder.open_for_resume(tmp_path, _Config())
    assert len(folder.description()['starts']) == 2
    assert len(run_folder.open_for_resume(tmp_path).description()['starts']) == 3


def test_resume_names_the_fields_that_differ(tmp_path):
    _create(tmp_path)
    config = _Config(agent=_Agent(n_step=5, sizes=(8,)), max_actor_steps=2000)
    with pytest.raises(ValueError) as error:
        run_folder.open_for_resume(tmp_path, config)
    assert 'agent.n_step: 3 then, 5 now' in str(error.value)
    assert 'agent.sizes: [16, 16] then, [8] now' in str(error.value)
    assert 'max_actor_steps' not in str(error.value)
    assert run_folder.RunFolder(tmp_path).load_config() == _Config()
    folder = run_folder.open_for_resume(tmp_path, config, allow_changes=True)
    assert folder.load_config() == config


def test_resume_may_extend_a_budget(tmp_path):
    _create(tmp_path)
    config = _Config(max_actor_steps=2000, logging={'csv': True})
    assert run_folder.open_for_resume(tmp_path, config).load_config() == config


def test_a_write_cut_short_leaves_the_file_before(tmp_path, monkeypatch):
    path = tmp_path / 'value.json'
    run_folder.write_json(path, 1)

    def fail(*unused):
        raise OSError('killed')

    monkeypatch.setattr(os, 'replace', fail)
    with pytest.raises(OSError, match='killed'):
        run_folder.write_json(path, 2)
    assert json.loads(path.read_text()) == 1


def test_nothing_here_imports_tensorflow():
    script = (
        'import sys\n'
        'from repertory.components import checkpointing, loggers\n'
        'from repertory.launch import records, run_folder\n'
        "assert not {'tensorflow', 'reverb', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, '-c', script], check=True, timeout=60)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Checkpoint:
    replay: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Saving(_Config):
    checkpoint: _Checkpoint = _Checkpoint()


def test_a_refused_resume_changes_no_record(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], '_Saving', _Saving, raising=False)
    monkeypatch.setattr(sys.modules[__name__], '_Checkpoint', _Checkpoint, False)
    folder = _create(tmp_path / 'run', _Saving())
    before = folder.config.read_text(), folder.run.read_text()
    with pytest.raises(ValueError, match='launch must be a program again'):
        run_folder.open_for_resume(
            folder.path, _Saving(max_actor_steps=9), one_thread=True
        )
    assert before == (folder.config.read_text(), folder.run.read_text())
    without = _Saving(checkpoint=_Checkpoint(replay=False))
    run_folder.open_for_resume(folder.path, without, one_thread=True)


def test_a_run_that_goes_on_elsewhere_is_not_resumed(tmp_path):
    folder = _create(tmp_path / 'run')
    code = (
        'import sys; from repertory.launch import run_folder\n'
        'try: run_folder.open_for_resume(sys.argv[1])\n'
        'except ValueError as error: print(error)'
    )
    command = [sys.executable, '-c', code, str(folder.path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f'where process {os.getpid()} runs' in output
    del folder
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output == ''


def _experiment(**fields):
    return experiment_lib.ExperimentConfig(
        **{'agent': apex_dqn.Config(), 'environment': 'catch', **fields}
    )


def test_what_cannot_work_leaves_no_folder(tmp_path):
    path, topology = tmp_path / 'run', experiment_lib.Topology()
    for experiment, message in [
        (_experiment(environment='gym:Pendulum-v1'), 'must be a scalar DiscreteArray'),
        (_experiment(environment='katch'), "got 'katch'; did you mean catch"),
    ]:
        with pytest.raises(ValueError, match=message):
            run_folder.open_folder(experiment, topology, path)
    two = experiment_lib.Topology(num_actors=2)
    with pytest.raises(
        ValueError, match='num_actors, replay_shards, evaluators must be 1'
    ):
        run_folder.open_folder(_experiment(), two, path, one_thread=True)
    again = experiment_lib.Topology(restart=('actor',))
    with pytest.raises(
        ValueError, match='restart must be empty in one thread, got actor;'
    ):
        run_folder.open_folder(_experiment(), again, path, one_thread=True)
    learners = experiment_lib.Topology(num_learners=2)
    with pytest.raises(ValueError, match='num_learners must be 1 in one thread, got 2'):
        run_folder.open_folder(_experiment(), learners, path, one_thread=True)
    assert not list(tmp_path.iterdir())


def test_a_finished_run_is_resumed_for_more_only(tmp_path):
    topology = experiment_lib.Topology()
    experiment = _experiment(max_actor_steps=100)
    folder = run_folder.open_folder(experiment, topology, tmp_path / 'run')
    arrays = {'x': np.zeros(1)}
    checkpointing.save(folder.checkpoints, 5, arrays, {'counts': {'actor_steps': 104}})
    before = folder.run.read_text()
    with pytest.raises(
        ValueError,
        match=r'finished \(max_actor_steps of 100 reached\); raise --max-actor-steps',
    ):
        run_folder.open_folder(experiment, topology, folder.path, resume=True)
    assert folder.run.read_text() == before
    more = _experiment(max_actor_steps=200)
    run_folder.open_folder(more, topology, folder.path, resume=True)
    assert len(folder.description()['starts']) == 2


def test_a_resumed_run_keeps_the_shards_of_its_replay(tmp_path):
    two = experiment_lib.Topology(num_actors=2, replay_shards=2)
    folder = run_folder.open_folder(_experiment(), two, tmp_path / 'run')
    one = experiment_lib.Topology(num_actors=2)
    with pytest.raises(ValueError, match='replay_shards must be 2, .* got 1; keep it'):
        run_folder.open_folder(_experiment(), one, folder.path, resume=True)
    run_folder.open_folder(_experiment(), two, folder.path, resume=True)
    without = _experiment(checkpoint=experiment_lib.CheckpointConfig(replay=False))
    run_folder.open_folder(without, one, folder.path, resume=True, allow_changes=True)


def test_a_resumed_run_keeps_the_lanes_that_items_are_of(tmp_path):
    def experiment(**fields):
        return _experiment(agent=impala.Config(), **fields)

    before, after = (experiment_lib.Topology(envs_per_actor=n) for n in (4, 8))
    folder = run_folder.open_folder(experiment(), before, tmp_path / 'run')
    records_before = folder.run.read_text(), folder.topology.read_text()
    with pytest.raises(
        ValueError, match='envs_per_actor must be 4, as the replay was saved, got 8; ke'
    ):
        run_folder.open_folder(experiment(), after, folder.path, resume=True)
    assert (folder.run.read_text(), folder.topology.read_text()) == records_before
    without = experiment(checkpoint=experiment_lib.CheckpointConfig(replay=False))
    run_folder.open_folder(without, after, folder.path, resume=True, allow_changes=True)


def test_items_of_one_lane_are_resumed_with_any_number_of_lanes(tmp_path):
    before, after = (experiment_lib.Topology(envs_per_actor=n) for n in (4, 8))
    folder = run_folder.open_folder(_experiment(), before, tmp_path / 'run')
    run_folder.open_folder(_experiment(), after, folder.path, resume=True)


def test_other_settings_are_let_in_if_asked_for(tmp_path):
    topology = experiment_lib.Topology()
    folder = run_folder.open_folder(_experiment(), topology, tmp_path / 'run')
    other = _experiment(agent=apex_dqn.Config(n_step=7))
    with pytest.raises(ValueError, match=r'n_step: 3 then, 7 now\n.*--allow-changes'):
        run_folder.open_folder(other, topology, folder.path, resume=True)
    run_folder.open_folder(
        other, topology, folder.path, resume=True, allow_changes=True
    )
    assert folder.load_config().agent.n_step == 7


def test_a_config_is_loaded_with_another_environment(tmp_path):
    folder = _create(tmp_path, _Config(environment=lambda seed: seed))
    with pytest.raises(ValueError, match='must be importable.*--env /path/file.py:N'):
        folder.load_config()
    assert folder.load_config(environment='catch').environment == 'catch'
    assert folder.load_config(environment=specs.zeros).environment is specs.zeros
