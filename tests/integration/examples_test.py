import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from repertory.launch import experiment

_FOLDER = pathlib.Path(__file__).resolve().parents[2] / 'examples'
_EXAMPLES = sorted(_FOLDER.glob('*.py'))


def _run(name, folder, *arguments):
    process = subprocess.run(
        [sys.executable, _FOLDER / name, *arguments],
        cwd=folder,
        env={**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '2'},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout


@pytest.mark.parametrize('path', _EXAMPLES, ids=lambda path: path.stem)
def test_each_example_makes_a_valid_experiment(path, monkeypatch):
    spec = importlib.util.spec_from_file_location(f'example_{path.stem}', path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # Dataclasses look it up.
    spec.loader.exec_module(module)
    names = module.make_experiment.__code__.co_varnames
    count = module.make_experiment.__code__.co_argcount
    given = {name: 'x' if name == 'folder' else 100 for name in names[:count]}
    config = module.make_experiment(**given)
    assert isinstance(config, experiment.ExperimentConfig)
    assert config.max_actor_steps == 100
    environment = config.make_environment(0)
    assert environment.reset().first()


@pytest.mark.parametrize('path', _EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(path):
    most = 150 if path.stem == 'dqn' else 80
    assert len(path.read_text().splitlines()) <= most


def _evaluation_return(output):
    return float(output.partition('evaluation_return=')[2].partition(',')[0])


@pytest.mark.ci_slow
@pytest.mark.timeout(300)
def test_dqn_reaches_its_mark_on_catch(tmp_path):
    # It is judged well after it first returns 1: for some hundred learner steps after
    # that it is at times lost again.
    assert _evaluation_return(_run('dqn.py', tmp_path)) >= 0.9


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize('name', ['own_agent', 'own_network', 'own_loss'])
def test_an_own_part_learns_catch(tmp_path, name):
    assert _evaluation_return(_run(f'{name}.py', tmp_path)) >= 0.8


@pytest.mark.ci_slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ('name', 'end'),
    [
        ('own_network', r'evaluation_return=-?\d'),
        ('own_loss', r'evaluation_return=-?\d'),
        ('own_environment', r'returns: \['),
        ('own_node', r'The run is in .*runs/apex_dqn_catch-'),
        ('apex_dqn_catch', r'The run is in runs/apex_dqn_catch-'),
    ],
)
def test_an_example_runs_to_its_end(tmp_path, name, end):
    assert re.search(end, _run(f'{name}.py', tmp_path, '--max-actor-steps=600'))
    (run_dir,) = (tmp_path / 'runs').iterdir() if 'run is' in end else (None,)
    assert run_dir is None or (run_dir / 'policy' / 'saved_model.pb').is_file()


@pytest.mark.ci_slow
@pytest.mark.timeout(300)
def test_own_agent_is_evaluated_by_its_file(tmp_path):
    _run('own_agent.py', tmp_path, '--max-actor-steps=600')
    (run_dir,) = (tmp_path / 'runs').iterdir()
    command = [sys.executable, '-m', 'repertory', 'eval', run_dir, '--episodes=3']
    done = subprocess.run(command, cwd='/', capture_output=True, text=True)
    assert 'return over 3 episodes: mean' in done.stdout, done.stderr


@pytest.mark.ci_slow
def test_own_logger_gets_the_rows_of_all_roles(tmp_path):
    _run('own_logger.py', tmp_path, '--max-actor-steps=600')
    names = {path.stem for path in (tmp_path / 'rows').iterdir()}
    assert names == {'actor_0', 'learner', 'evaluator'}
    rows = (tmp_path / 'rows' / 'evaluator.jsonl').read_text().splitlines()
    assert json.loads(rows[-1])['final'] == 1


@pytest.mark.ci_slow
@pytest.mark.timeout(300)
def test_demonstrations_are_written_before_the_run_ends(tmp_path):
    # So many that the actor waits for the learner, and the learner for demonstrations.
    _run('demonstrations.py', tmp_path, '--max-actor-steps=10000')
    (run_dir,) = (tmp_path / 'runs').iterdir()
    log = (run_dir / 'logs' / 'demonstrator_0.log').read_text()
    # A vector step more: items are counted a step at a time.
    assert 2_000 <= int(re.search(r'wrote (\d+) dem', log)[1]) < 2_032
    status = json.loads((run_dir / 'status.json').read_text())
    # All count but the first 2,000, which the actor's are among.
    assert status['counts']['learner_steps'] > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_own_environment_is_solved_and_its_policy_used(tmp_path):
    output = _run('own_environment.py', tmp_path)
    assert 'returns: [10. 10. 10. 10. 10.]' in output


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize('launch', ['sync', 'threads', 'processes'])
def test_apex_dqn_catch_runs_in_each_launch(tmp_path, launch):
    _run('apex_dqn_catch.py', tmp_path, '--launch', launch, '--max-actor-steps=3000')
    (run_dir,) = (tmp_path / 'runs').iterdir()
    assert (run_dir / 'policy' / 'saved_model.pb').is_file()
    assert len(list((run_dir / 'checkpoints').iterdir())) == 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_own_node_sees_the_run_to_its_end(tmp_path):
    _run('own_node.py', tmp_path, '--max-actor-steps=3000')
    (run_dir,) = (tmp_path / 'runs').iterdir()
    lines = (run_dir / 'logs' / 'watcher_0.log').read_text().splitlines()
    phases = [line.split()[0] for line in lines if line.endswith('}')]
    assert phases[0] == 'run'
    assert 'actor_steps' in lines[-1]
