"""The Python of the README, and of the page on environments, is run."""

from __future__ import annotations

import pathlib
import re

import pytest

from repertory.agents import apex_dqn
from repertory.components.environments import vector
from repertory.launch import experiment, local

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope='module')
def names() -> dict:
    names = {'__name__': 'readme'}
    for page in 'README.md', 'docs/environments.md':
        text = (ROOT / page).read_text()
        block, *_ = re.findall(r'^```python\n(.*?)^```', text, re.M | re.S)
        exec(compile(block, page, 'exec'), names)
    return names


def test_the_experiment_is_valid(names):
    assert isinstance(names['make_experiment'](), experiment.ExperimentConfig)


def test_the_environment_keeps_its_specs(names):
    environment = vector.SerialVectorEnvironment(
        [names['Guess'](lane) for lane in (0, 1)]
    )
    step = environment.reset()
    for _ in range(10):
        step = environment.step(step.observation.argmax(axis=1).astype('int32'))
        assert (step.reward == 1).all()
    assert (step.step_type == 2).all() and (step.discount == 0).all()


@pytest.mark.slow
def test_the_environment_can_be_learned(names, tmp_path):
    result = local.run_experiment(
        experiment.ExperimentConfig(
            agent=apex_dqn.Config(),
            environment=names['Guess'],
            max_actor_steps=60_000,
            target_return=9.5,  # What has just been learnt is at times lost again.
        ),
        run_dir=tmp_path / 'run',
    )
    assert result.reason.startswith('target_return of 9.5 reached')
