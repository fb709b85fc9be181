"""Ape-X DPG: priorities computed by actors, eviction by priority, what is refused."""

import dataclasses

import dm_env.specs
import numpy as np
import pytest
import tensorflow as tf
import tree

from repertory.agents.apex_dpg import builder, config, loss
from repertory.components import actor, core, environment_loop, specs, types
from repertory.components.environments import vector
from repertory.launch import experiment, local
from repertory.replay import server
from tests import fakes

SMALL = config.Config(
    policy_sizes=(16,),
    critic_sizes=(16,),
    min_replay_size=1,
    max_replay_size=200,
    samples_per_insert=None,
    batch_size=32,
    discount=0.9,
    reward_scale=0.5,
    priority_exponent=1.0,
    noise_sigma=0.5,
)


class Scripted(fakes.ScriptedEnvironment):
    """Takes two numbers in [-1, 1]."""

    def action_spec(self):
        return dm_env.specs.BoundedArray((2,), np.float32, -1, 1, 'action')


@pytest.mark.parametrize('theta', [1.0, 0.15])
def test_an_actors_priority_is_what_the_learner_would_compute(theta):
    # Lengths below n, truncated and terminated ends, and lanes out of step.
    episodes = [[1.0, -2.0], [0.5], [1, 2, 3, 4, 5, 6, 7], [0.1, 0.2, 0.3]]
    agent = dataclasses.replace(SMALL, noise_theta=theta)
    one, role = builder.Builder(agent), core.Role(num_lanes=3, seed=5)
    environment = vector.SerialVectorEnvironment(
        [Scripted(episodes[i:] + episodes[:i], [True, False] * 2) for i in range(3)]
    )
    spec = environment.spec
    networks = one.make_networks(spec)
    policy = one.make_policy(networks, spec, role)
    with server.ReplayServer(one.make_table_specs(spec, policy, 3)) as replay:
        with one.make_adder(replay.address, spec, policy, role, fakes.no_wait) as adder:
            acting = actor.PolicyActor(policy, spec, 3, adder)
            loop = environment_loop.EnvironmentLoop(environment, acting, lambda _: None)
            for _ in range(40):
                loop.step()
            adder.flush()
            assert adder.num_items > 60
        dataset = one.make_dataset([replay.address], spec, policy, 3, prefetch=False)
        keys, iterator = set(), iter(dataset)
        for _ in range(20):
            sample = tree.map_structure(lambda x: x[0], next(iterator))
            output = loss.dpg_loss(networks, networks, sample, agent)
            np.testing.assert_allclose(
                output.priorities, sample.info.priority, rtol=1e-4, atol=1e-5
            )
            keys.update(sample.info.key.numpy().tolist())
    assert len(keys) > 50


def test_actors_are_sent_all_that_their_priorities_need():
    environment = vector.SerialVectorEnvironment([Scripted([[1.0] * 3], False)])
    one = builder.Builder(SMALL)
    networks, targets = (one.make_networks(environment.spec) for _ in range(2))
    with server.ReplayServer(one.make_table_specs(environment.spec, None, 1)) as replay:
        learner = one.make_learner(
            networks, targets, environment.spec, iter([]), [replay.address]
        )
        for evaluation in (False, True):
            policy = one.make_policy(
                one.make_networks(environment.spec),
                environment.spec,
                core.Role(evaluation=evaluation),
            )
            shapes = [v.shape for v in policy.variables]
            assert shapes == [v.shape for v in learner.get_variables()[1]]
            published = learner.get_variables()[1]
            for variable, value in zip(policy.variables, published):
                variable.assign(value)
            observation = tf.ones([1, 2])
            np.testing.assert_allclose(
                policy(observation, ()).extras['q_policy'],
                networks.critic((observation, networks.policy(observation))),
                rtol=1e-5,
            )


def test_a_full_replay_evicts_low_priorities_if_told_so():
    agent = dataclasses.replace(SMALL, remover='lowest_priority', max_replay_size=50)
    environment = vector.SerialVectorEnvironment(
        [Scripted([list(np.random.default_rng(0).normal(size=100) * 10)], False)]
    )
    one, role = builder.Builder(agent), core.Role()
    networks = one.make_networks(environment.spec)
    policy = one.make_policy(networks, environment.spec, role)
    written = []
    [table] = one.make_table_specs(environment.spec, policy, 1)
    with server.ReplayServer([dataclasses.replace(table, sampler='uniform')]) as replay:
        adder = one.make_adder(
            replay.address, environment.spec, policy, role, fakes.no_wait
        )
        compute = adder._priority_fn

        def record(*windows):
            written.append(compute(*windows))
            return written[-1]

        adder._priority_fn = record
        acting = actor.PolicyActor(policy, environment.spec, 1, adder)
        loop = environment_loop.EnvironmentLoop(environment, acting, lambda _: None)
        for _ in range(400):
            loop.step()
        adder.close()
        dataset = one.make_dataset(
            [replay.address], environment.spec, policy, 1, prefetch=False
        )
        kept = {}
        for sample in dataset.take(40):
            keys, priorities = (
                field.numpy().ravel()
                for field in (sample.info.key, sample.info.priority)
            )
            kept.update(zip(keys.tolist(), priorities.tolist(), strict=True))
    # The highest are kept, but for the newest, which may be low; two may be equal.
    best = np.sort(np.concatenate(written))[-50:]
    assert len(kept) == 50
    np.testing.assert_allclose(sorted(kept.values())[1:], best[1:], rtol=1e-6)


def test_large_errors_are_not_cut_and_weights_apply():
    sample = types.Sample(
        types.SampleInfo(
            key=tf.constant([1, 2], tf.uint64),
            probability=tf.constant([0.1, 0.4], tf.float64),
            table_size=tf.constant([2, 2], tf.int64),
            priority=tf.ones([2], tf.float64),
        ),
        types.Transition(
            observation=tf.zeros([2, 3]),
            action=tf.zeros([2, 2]),
            reward=tf.constant([20.0, 6.0]),
            discount=tf.constant([0.0, 0.0]),
            next_observation=tf.zeros([2, 3]),
            extras={},
        ),
    )
    agent = dataclasses.replace(SMALL, importance_sampling_exponent=0.5)
    one = builder.Builder(agent)
    networks = one.make_networks(make_spec())
    q = networks.critic((tf.zeros([1, 3]), tf.zeros([1, 2]))).numpy()[0]
    output = loss.dpg_loss(networks, networks, sample, agent)
    # Rewards are halved, weights are (0.1 / p)^0.5.
    errors = np.array([10.0, 3.0]) - q
    expected = 0.5 * np.mean([errors[0] ** 2, 0.5 * errors[1] ** 2])
    np.testing.assert_allclose(output.loss['critic'], expected, rtol=1e-5)
    np.testing.assert_allclose(output.priorities, errors + 1e-6, rtol=1e-5)


def make_spec(**changes):
    spec = specs.EnvironmentSpec(
        observations=dm_env.specs.Array((3,), np.float32),
        actions=dm_env.specs.BoundedArray((2,), np.float32, -1, 1),
        rewards=dm_env.specs.Array((), np.float32),
        discounts=dm_env.specs.BoundedArray((), np.float32, 0, 1),
    )
    return dataclasses.replace(spec, **changes)


def test_actions_that_are_not_canonical_are_refused_with_the_remedy():
    spec = make_spec(actions=dm_env.specs.BoundedArray((2,), np.float32, -2, 2))
    with pytest.raises(ValueError, match='action_spec must be one .*CanonicalActions'):
        builder.Builder(SMALL).make_networks(spec)


@pytest.mark.parametrize(
    'change, message',
    [
        ({'batch_size': 0}, 'batch_size must be >= 1, got 0'),
        ({'importance_sampling_exponent': 2.0}, r'must be in \[0, 1\], got 2.0'),
        ({'priority_epsilon': 0.0}, 'priority_epsilon must be positive and finite'),
        ({'max_abs_action_gradient': -1.0}, 'must be > 0 or None, got -1.0'),
        ({'priority_exponent': float('nan')}, 'priority_exponent must be >= 0'),
        ({'batch_size': 2_000_000}, 'batch_size must be <= max_replay_size'),
        ({'network': 'tanh', 'critic_sizes': (9,)}, 'critic_sizes must be 2 or more'),
    ],
)
def test_a_setting_that_cannot_work_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        config.Config(**change)


def test_the_paper_preset_has_the_papers_values():
    paper = dataclasses.asdict(config.PAPER)
    expected = {
        'batch_size': 256,
        'max_replay_size': 1_000_000,
        'priority_exponent': 0.6,
        'importance_sampling_exponent': 0.4,
        'policy_learning_rate': 1e-4,
        'critic_learning_rate': 1e-4,
        'max_abs_action_gradient': 1.0,
        'target_update_period': 100,
        'noise_sigma': 0.3,
        'noise_theta': 1.0,
        'policy_sizes': (300, 200),
        'critic_sizes': (400, 300),
        'network': 'tanh',
    }
    assert {name: paper[name] for name in expected} == expected


@pytest.mark.ci_slow
@pytest.mark.timeout(600)
def test_apex_dpg_swings_the_pendulum_up(tmp_path):
    result = run_pendulum(tmp_path)
    assert 'target_return' in result.reason, result
    np.testing.assert_allclose(result.samples_per_insert, 64.0, rtol=0.01)


def run_pendulum(tmp_path, seed=0):
    return local.run_experiment(
        experiment.ExperimentConfig(
            agent=config.PENDULUM,
            environment='gym:Pendulum-v1',
            seed=seed,
            max_actor_steps=20_000,
            target_return=-250.0,
            evaluation_episodes=20,
            evaluation_period_seconds=5.0,
        ),
        experiment.Topology(envs_per_actor=4),
        run_dir=tmp_path / 'run',
    )
