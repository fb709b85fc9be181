"""One thread never blocks on itself, and repeats what a seed can repeat."""

import csv
import dataclasses
import importlib
import itertools
import math

import pytest

from repertory.launch import experiment, local
from repertory.launch.cli import names

# A row for every step.
_QUIET = experiment.LoggingConfig(tensorboard=False, period_seconds=1e-9)


def _run(folder, agent, environment='catch', lanes=4, **fields):
    config = experiment.ExperimentConfig(
        agent=agent,
        environment=environment,
        evaluation_episodes=1,
        checkpoint=experiment.CheckpointConfig(replay=False),
        logging=_QUIET,
        **fields,
    )
    return local.run_experiment(
        config, experiment.Topology(envs_per_actor=lanes), folder
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize('name', names.agent_names())
def test_no_setting_blocks(name, tmp_path):
    config = importlib.import_module(
        f'repertory.agents.{name.replace("-", "_")}.config'
    ).Config()
    fields = {field.name for field in dataclasses.fields(config)}
    environment = 'catch' if 'epsilon' in fields or name == 'impala' else None
    grid = (
        [{'batch_size': b, 'max_queue_size': q} for b, q in [(4, 12), (16, 24)]]
        if name == 'impala'
        else [
            {'samples_per_insert': ratio, 'batch_size': batch, 'min_replay_size': least}
            for ratio, batch, least in itertools.product(
                (0.1, 32.0, None, math.inf), (1, 64), (1, 20)
            )
        ]
    )
    for index, changes in enumerate(grid):
        result = _run(
            tmp_path / str(index),
            dataclasses.replace(config, **changes),
            environment or 'gym:Pendulum-v1?step_limit=20',
            max_actor_steps=200,
            max_learner_steps=40,
            # An evaluation as well, were it to block.
            evaluation_period_seconds=1e-3,
        )
        assert 'reached' in result.reason, changes


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'min_replay_size': 30, 'max_replay_size': 20}, 'never become ready'),
        ({'batch_size': 64, 'max_replay_size': 20}, 'batch_size must be <= max_repl'),
        ({'samples_per_insert': 0.0}, 'samples_per_insert must be > 0'),
    ],
)
def test_what_would_block_is_refused(changes, message):
    from repertory.agents import apex_dqn

    with pytest.raises(ValueError, match=message):
        apex_dqn.Config(**{'min_replay_size': 1, **changes})


def test_a_seed_repeats_what_does_not_depend_on_sampling(tmp_path):
    from repertory.agents import apex_dqn

    rows = []
    for index in range(3):
        _run(
            tmp_path / str(index),
            apex_dqn.Config(min_replay_size=10_000),
            max_actor_steps=600,
            seed=max(7, index + 6),  # 7, 7 and 8.
        )
        with open(tmp_path / str(index) / 'csv' / 'actor_0.csv') as file:
            # How many episodes a row sums up depends on the clock.
            rows.append(
                sum(
                    round(float(row['episode_return']) * int(row['episodes']))
                    for row in csv.DictReader(file)
                )
            )
    assert rows[0] == rows[1]
    assert rows[0] != rows[2]


def _losses(path):
    with open(path, newline='') as file:
        rows = [row for row in csv.DictReader(file) if row['loss']]
    return {row['learner_steps']: row['loss'] for row in rows}


def test_a_seed_repeats_every_loss_of_an_agent_that_samples_nothing(tmp_path):
    from repertory.agents import impala

    losses = []
    for index in range(3):
        _run(
            tmp_path / str(index),
            impala.Config(unroll_length=5, batch_size=4, max_queue_size=12),
            max_actor_steps=None,
            max_learner_steps=200,
            evaluation_period_seconds=1e6,
            seed=max(7, index + 6),  # 7, 7 and 8.
        )
        losses.append(_losses(tmp_path / str(index) / 'csv' / 'learner.csv'))
    # The clock times the rows: now and then one is left out.
    shared = losses[0].keys() & losses[1].keys() & losses[2].keys()
    assert len(shared) > 180
    assert {losses[0][step] == losses[1][step] for step in shared} == {True}
    last = max(shared, key=int)
    assert losses[0][last] != losses[2][last]
