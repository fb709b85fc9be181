"""What is recorded of a baseline, where its runs are stand-ins."""

import json
import pathlib
import subprocess
import sys
import types

import pytest

from baselines import apex_dqn_catch, report, run


@pytest.fixture
def runs(monkeypatch):
    """Replaces a seed's process by what it would leave: it returns the seed."""
    baseline = types.SimpleNamespace(TARGET=2.0, VARIANTS={'one': None, 'two': None})
    monkeypatch.setitem(sys.modules, 'baselines.fake', baseline)
    really_run, started = subprocess.run, []

    def fake_run(command, **keywords):
        if '--one' not in command:
            return really_run(command, **keywords)
        variant, seed, run_dir = command[-3:]
        started.append((variant, int(seed)))
        folder = pathlib.Path(run_dir)
        (folder / 'csv').mkdir(parents=True)
        (folder / 'csv' / 'evaluator.csv').write_text(
            'actor_steps,learner_steps,seconds,episode_return\n'
            f'0,0,1,3\n50,1,2,{seed}\n'
        )
        (folder / 'config.json').write_text('{"seed": 1, "environment": "catch"}')

    monkeypatch.setattr(subprocess, 'run', fake_run)
    return started


def test_seeds_and_variants_that_are_not_run_stay(runs, tmp_path):
    run.run_baseline('fake', [0, 2], ['one'], tmp_path)
    run.run_baseline('fake', [3, 0], ['two'], tmp_path)
    run.run_baseline('fake', [1, 2], ['one'], tmp_path)
    assert runs == [
        (v, s) for v, s in zip('one one two two one one'.split(), (0, 2, 3, 0, 1, 2))
    ]
    variants = json.loads((tmp_path / 'fake' / 'result.json').read_text())['variants']
    assert [row['seed'] for row in variants['one']['seeds']] == [0, 1, 2]
    assert [row['seed'] for row in variants['two']['seeds']] == [0, 3]
    assert [row['actor_steps_to_target'] for row in variants['one']['seeds']] == [
        None,
        None,
        50,
    ]
    assert variants['one']['config'] == {'environment': 'catch'}
    names = {path.name for path in (tmp_path / 'fake').iterdir()}
    assert {'one.png', 'two.png', 'one_seed_1.csv', 'two_seed_3.csv'} <= names


def test_seeds_of_another_config_are_dropped_with_their_curves(runs, tmp_path, capsys):
    run.run_baseline('fake', [0, 1], ['one'], tmp_path)
    path = tmp_path / 'fake' / 'result.json'
    record = json.loads(path.read_text())
    record['variants']['one']['config'] = {'environment': 'another'}
    path.write_text(json.dumps(record))
    run.run_baseline('fake', [1, 2], ['one'], tmp_path)
    seeds = json.loads(path.read_text())['variants']['one']['seeds']
    assert [row['seed'] for row in seeds] == [1, 2]
    csvs = {path.name for path in (tmp_path / 'fake').glob('*.csv')}
    assert csvs == {'one_seed_1.csv', 'one_seed_2.csv'}
    assert 'one: seed 0 had another config' in capsys.readouterr().out


def test_an_untrained_policy_does_not_reach_the_mark(tmp_path):
    path = tmp_path / 'evaluator.csv'
    rows = '0,0,1,3.0', '40,0,2,3.0', '80,5,3,0.0', '120,9,4,2.0', '160,13,5,1.0'
    header = 'actor_steps,learner_steps,seconds,episode_return'
    path.write_text('\n'.join((header, *rows)))
    summary = run.summarize(path, 2.0)
    assert summary['actor_steps_to_target'] == 120
    assert (summary['final_return'], summary['best_return']) == (1.0, 3.0)


def test_that_earlier_seeds_wrote_results_is_no_change(tmp_path, monkeypatch):
    def git(*arguments):
        name = '-c', 'user.name=x', '-c', 'user.email=x@localhost'
        subprocess.run(['git', *name, *arguments], cwd=tmp_path, check=True)

    from repertory.launch import provenance

    results = tmp_path / 'baselines' / 'results'
    results.mkdir(parents=True)
    for path in results / 'one.csv', tmp_path / 'code.py':
        path.write_text('before')
    git('init', '-q')
    git('add', '.')
    git('commit', '-qm', 'first')
    monkeypatch.chdir(tmp_path / 'baselines')
    (results / 'one.csv').write_text('after')
    assert provenance.describe_source()['git']['changed']
    assert not provenance.describe_source(but_for=results)['git']['changed']
    (tmp_path / 'code.py').write_text('after')
    assert provenance.describe_source(but_for=results)['git']['changed']


def test_the_readme_has_the_table_of_the_results():
    assert report.table() in report.README.read_text(), (
        'python -m baselines.report writes it'
    )


def test_a_row_has_median_range_and_what_it_took():
    rows = [
        {'final_return': r, 'actor_steps_to_target': s, 'seconds': t, 'actor_steps': 9}
        for r, s, t in ((1.0, 1500, 60.0), (0.5, None, 80.0), (0.75, 500, 70.0))
    ]
    line = report.line('apex_dqn_catch', apex_dqn_catch, 'apex_dqn', rows)
    assert '0.75 (0.5 to 1)' in line
    assert '1,000, 2 of 3' in line
    assert '70 s' in line
    peer = report.line('apex_dqn_catch', apex_dqn_catch, 'another, DQN', rows)
    assert (
        '[another, DQN](results/apex_dqn_catch/peers.png) | `catch` | 3 | 9 |' in peer
    )
