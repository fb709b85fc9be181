"""Ape-X DQN learns real tasks: the baselines' settings, ended at their marks."""

import dataclasses
import importlib
import json
import subprocess
import sys

import pytest

from repertory.launch import curves, local


@pytest.mark.ci_slow
@pytest.mark.timeout(300)
def test_the_demo_reaches_its_mark(tmp_path):
    run_dir = tmp_path / 'run'
    command = '-m repertory train apex-dqn --env catch --num-actors 2'
    process = subprocess.run(
        [
            *(sys.executable, *command.split()),
            # Where it has just been learnt, the policy is at times lost again: one that
            # gave 1.0 gave 0.6 of 100 episodes a few hundred learner steps later.
            *('--max-actor-steps=40000', '--evaluation-episodes=100'),
            f'--run-dir={run_dir}',
        ],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    status = json.loads((run_dir / 'status.json').read_text())
    assert status['reason'].startswith('max_actor_steps'), status['reason']
    _, returns = curves.read_curve(run_dir / 'csv' / 'evaluator.csv')
    assert returns[-1] >= 0.9
    assert (run_dir / 'learning_curve.png').stat().st_size > 10_000


@pytest.mark.ci_slow
@pytest.mark.timeout(600)
def test_impala_learns_catch(tmp_path):
    (make,) = importlib.import_module('baselines.impala_catch').VARIANTS.values()
    config, topology = make(0)
    config = dataclasses.replace(config, target_return=0.9)
    result = local.run_experiment(config, topology, tmp_path / 'run')
    assert result.reason.startswith('target_return'), result


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize('seed', [0, 1, 2])
@pytest.mark.parametrize('name', ['apex_dqn_catch', 'apex_dqn_cartpole'])
def test_a_baseline_reaches_its_target(tmp_path, name, seed):
    baseline = importlib.import_module(f'baselines.{name}')
    (make,) = baseline.VARIANTS.values()
    config, topology = make(seed)
    config = dataclasses.replace(config, target_return=baseline.TARGET)
    result = local.run_experiment(config, topology, tmp_path / 'run')
    assert result.reason.startswith('target_return'), result
    assert result.counts['actor_steps'] <= config.max_actor_steps
