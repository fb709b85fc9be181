"""D4PG and D3PG learn: what an update moves, the support's check, and whole runs."""

import dataclasses
import logging

import numpy as np
import pytest
import tensorflow as tf

from repertory.agents.d4pg import builder, config
from repertory.components.environments import registry
from repertory.launch import curves, experiment, exported, local
from tests import fakes
from tests.agents import d4pg_fakes


@pytest.mark.parametrize(
    'idle, still', [('policy', ('policy',)), ('critic', ('observation', 'critic'))]
)
def test_an_update_moves_what_its_loss_trains(idle, still):
    # Steps so small that float32 cannot see them.
    agent = dataclasses.replace(d4pg_fakes.SMALL, **{f'{idle}_learning_rate': 1e-20})
    networks = d4pg_fakes.make_networks(agent)
    sample = tf.nest.map_structure(lambda x: x[None], d4pg_fakes.make_sample())
    learner = builder.Builder(agent).make_learner(
        networks,
        d4pg_fakes.make_networks(agent),
        d4pg_fakes.make_spec(),
        iter([sample] * 3),
        [],
    )
    before = {
        part: [np.array(v.numpy()) for v in getattr(networks, part).variables]
        for part in ('observation', 'policy', 'critic')
    }
    metrics = learner.step()
    learner.step()
    for part, values in before.items():
        pairs = zip(values, getattr(networks, part).variables)
        moved = [np.any(np.abs(old - new.numpy()) > 1e-12) for old, new in pairs]
        assert not any(moved) if part in still else all(moved), part
    expected = {'critic_loss', 'policy_loss', 'mean_q', 'mass_below_vmin'}
    assert expected <= set(metrics) and np.isfinite(list(metrics.values())).all()


def make_learner(agent, reward):
    sample = d4pg_fakes.make_sample(reward=np.full([8], reward, np.float32))
    samples = iter(lambda: tf.nest.map_structure(lambda x: x[None], sample), None)
    one = builder.Builder(agent)
    return one.make_learner(
        *(one.make_networks(d4pg_fakes.make_spec()) for _ in range(2)),
        d4pg_fakes.make_spec(),
        samples,
        [],
    )


def test_targets_beyond_the_support_are_said_once_with_numbers(caplog):
    learner = make_learner(d4pg_fakes.SMALL, reward=50.0)
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            metrics = learner.step()
    assert metrics['mass_above_vmax'] == pytest.approx(1.0)
    assert metrics['mass_below_vmin'] == 0.0
    [record] = caplog.records
    message = record.getMessage()
    assert 'vmax must bound the discounted returns, got 3 while 100 %' in message


def test_targets_within_the_support_are_not_remarked_upon(caplog):
    learner = make_learner(
        dataclasses.replace(d4pg_fakes.SMALL, vmin=-9, vmax=9), reward=0.0
    )
    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            metrics = learner.step()
    assert metrics['mass_above_vmax'] == metrics['mass_below_vmin'] == 0.0
    assert not caplog.records


def run_pendulum(tmp_path, seed=0, max_actor_steps=20_000, **changes):
    return local.run_experiment(
        experiment.ExperimentConfig(
            agent=dataclasses.replace(config.PENDULUM, **changes),
            environment='gym:Pendulum-v1',
            seed=seed,
            max_actor_steps=max_actor_steps,
            target_return=-200.0,
            evaluation_episodes=20,
            evaluation_period_seconds=5.0,
        ),
        experiment.Topology(envs_per_actor=4),
        run_dir=tmp_path / 'run',
    )


@pytest.mark.ci_slow
@pytest.mark.timeout(600)
def test_d4pg_swings_the_pendulum_up(tmp_path):
    result = run_pendulum(tmp_path)
    assert 'target_return' in result.reason, result
    # The reported return is of the environment's own rewards.
    assert -500.0 < result.evaluation_return < -50.0
    # What was exported swings it up without the agent's code.
    policy = exported.load_policy(tmp_path / 'run' / 'policy')
    returns = exported.evaluate(
        policy,
        lambda seed: registry.make_environment('gym:Pendulum-v1', seed),
        episodes=10,
        seed=7,
    )
    assert np.mean(returns) > -350.0


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_d3pg_swings_the_pendulum_up(tmp_path):
    result = run_pendulum(tmp_path, critic='scalar', reward_scale=0.1)
    assert 'target_return' in result.reason, result


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_with_a_support_that_holds_no_returns_it_fails(tmp_path):
    # Of rewards / 100 it would tell the best returns apart.
    changes = {'vmin': -1.0, 'vmax': 1.0, 'reward_scale': 1.0}
    result = run_pendulum(tmp_path, max_actor_steps=10_000, **changes)
    assert result.evaluation_return < -1_000.0, result


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize('critic', ['categorical', 'scalar'])
def test_a_time_limit_does_not_lower_values(tmp_path, critic):
    agent = dataclasses.replace(
        d4pg_fakes.SMALL,
        critic=critic,
        discount=0.9,
        vmin=0.0,
        vmax=20.0,
        num_atoms=21,
        batch_size=64,
        target_update_period=20,
        critic_learning_rate=3e-3,
    )
    local.run_experiment(
        experiment.ExperimentConfig(
            agent=agent,
            environment=fakes.Forever,
            max_actor_steps=None,
            max_learner_steps=3_000,
            evaluation_episodes=1,
            evaluation_period_seconds=1e6,
        ),
        experiment.Topology(envs_per_actor=4),
        run_dir=tmp_path / 'run',
    )
    _, values = curves.read_curve(
        tmp_path / 'run' / 'csv' / 'learner.csv', x='learner_steps', y='mean_q'
    )
    # 1 / (1 - 0.9), not the sum of the steps that are left.
    np.testing.assert_allclose(values[-1], 10.0, atol=0.7)
