"""Ape-X DQN: the ladder, priorities computed by actors, and what is refused."""

import contextlib
import dataclasses
import threading

import dm_env.specs
import numpy as np
import pytest
import tensorflow as tf
import tree

from repertory.agents.apex_dqn import builder, config, loss
from repertory.components import actor, core, environment_loop, specs
from repertory.components.environments import catch, vector
from repertory.launch import curves, experiment, local
from repertory.replay import server
from tests import fakes


def test_the_ladder_runs_over_all_lanes_of_all_actors():
    one = builder.Builder(config.Config())
    roles = [core.Role(actor_index=i, num_actors=4, num_lanes=2) for i in range(4)]
    ladder = [epsilon for role in roles for epsilon in one.epsilons(role)]
    golden = [0.4, 0.16, 0.064, 0.0256, 0.01024, 0.004096, 0.0016384, 0.00065536]
    np.testing.assert_allclose(ladder, golden, rtol=1e-6)
    assert one.epsilons(core.Role()) == [0.4]
    assert one.epsilons(core.Role(evaluation=True, num_lanes=2)) == [0.0, 0.0]


@pytest.mark.parametrize(
    ('n_step', 'clip'), [(1, None), (3, None), (3, 0.5), (5, None)]
)
def test_an_actors_priority_is_what_the_learner_would_compute(n_step, clip):
    # Lengths below n, truncated and terminated ends, and lanes out of step.
    episodes = [[1.0, -2.0], [0.5], [1, 2, 3, 4, 5, 6, 7], [0.1, 0.2, 0.3]]
    lanes = [
        fakes.ScriptedEnvironment(episodes[i:] + episodes[:i], [True, False] * 2)
        for i in range(3)
    ]
    agent = config.Config(
        min_replay_size=1,
        max_replay_size=200,
        samples_per_insert=None,
        batch_size=32,
        updates_per_call=1,
        n_step=n_step,
        max_abs_reward=clip,
        discount=0.9,
        priority_exponent=1.0,
    )
    one = builder.Builder(agent)
    role = core.Role(num_lanes=3, seed=5)
    environment = vector.SerialVectorEnvironment(lanes)
    networks = one.make_networks(environment.spec)
    policy = one.make_policy(networks, environment.spec, role)
    tables = one.make_table_specs(environment.spec, policy, 3)
    with server.ReplayServer(tables) as replay:
        with one.make_adder(
            replay.address, environment.spec, policy, role, fakes.no_wait
        ) as adder:
            acting = actor.PolicyActor(policy, environment.spec, 3, adder)
            loop = environment_loop.EnvironmentLoop(
                environment, acting, lambda episode: None
            )
            for _ in range(40):
                loop.step()
            adder.flush()
            assert adder.num_items > 60
        dataset = one.make_dataset(
            [replay.address], environment.spec, policy, 3, prefetch=False
        )
        keys = set()
        iterator = iter(dataset)
        for _ in range(20):
            sample = tree.map_structure(lambda x: x[0], next(iterator))
            output = loss.double_q_loss(networks, networks, sample, agent)
            np.testing.assert_allclose(
                output.priorities, sample.info.priority, rtol=1e-5, atol=1e-5
            )
            keys.update(sample.info.key.numpy().tolist())
    assert len(keys) > 50


def test_a_priority_written_back_changes_what_is_sampled():
    agent = config.Config(min_replay_size=1, samples_per_insert=None, batch_size=8)
    one = builder.Builder(agent)
    environment = vector.SerialVectorEnvironment(
        [fakes.ScriptedEnvironment([[1.0, 2.0, 3.0]], False)]
    )
    networks = one.make_networks(environment.spec)
    policy = one.make_policy(networks, environment.spec, core.Role())
    with server.ReplayServer(
        one.make_table_specs(environment.spec, policy, 1)
    ) as replay:
        adder = one.make_adder(
            replay.address, environment.spec, policy, core.Role(), fakes.no_wait
        )
        acting = actor.PolicyActor(policy, environment.spec, 1, adder)
        loop = environment_loop.EnvironmentLoop(environment, acting, lambda _: None)
        for _ in range(20):
            loop.step()
        adder.flush()
        learner = one.make_learner(
            networks,
            one.make_networks(environment.spec),
            environment.spec,
            iter([]),
            [replay.address],
        )
        dataset = one.make_dataset(
            [replay.address], environment.spec, policy, 1, prefetch=False
        )
        sample = next(iter(dataset))
        chosen = sample.info.key.numpy().ravel()[:1]
        others = np.setdiff1d(sample.info.key.numpy(), chosen)
        assert len(others)
        learner._update_priorities(chosen, np.array([1e9], np.float32))
        learner._update_priorities.flush()
        sample = next(
            iter(
                one.make_dataset(
                    [replay.address], environment.spec, policy, 1, prefetch=False
                )
            )
        )
        assert np.mean(sample.info.key.numpy() == chosen[0]) > 0.9
        adder.close()


@pytest.mark.parametrize(
    'change, message',
    [
        ({'n_step': 0}, 'n_step must be >= 1, got 0'),
        ({'discount': 1.1}, r'discount must be in \[0, 1\], got 1.1'),
        ({'epsilon': 0.0}, r'epsilon must be in \(0, 1\]'),
        ({'min_replay_size': 30_000}, 'never become ready'),
        ({'learning_rate': float('nan')}, 'learning_rate must be positive'),
        ({'max_abs_reward': 0.0}, 'max_abs_reward must be > 0 or None'),
        ({'samples_per_insert': -1.0}, 'samples_per_insert must be > 0'),
        ({'priority_exponent': float('nan')}, 'priority_exponent must be >= 0'),
        ({'epsilon_alpha': -1.0}, 'epsilon_alpha must be >= 0'),
        ({'hidden_sizes': (0,)}, 'hidden_sizes must be >= 1'),
        ({'n_step': 2.5}, 'n_step must be an integer, got 2.5'),
        ({'loss': 'x'}, "loss must be one of 'huber', 'squared', got 'x'"),
        ({'batch_size': 30_000}, 'batch_size must be <= max_replay_size'),
    ],
)
def test_a_setting_that_cannot_work_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        config.Config(**change)


def test_continuous_actions_are_refused_with_the_remedy():
    spec = specs.EnvironmentSpec(
        observations=dm_env.specs.Array((3,), np.float32),
        actions=dm_env.specs.BoundedArray((2,), np.float32, -1, 1),
        rewards=dm_env.specs.Array((), np.float32),
        discounts=dm_env.specs.BoundedArray((), np.float32, 0, 1),
    )
    with pytest.raises(ValueError, match='take a continuous agent'):
        builder.Builder(config.Config()).make_networks(spec)


def test_the_paper_preset_has_the_papers_values():
    paper = dataclasses.asdict(config.PAPER)
    expected = {
        'n_step': 3,
        'discount': 0.99,
        'batch_size': 512,
        'max_replay_size': 2_000_000,
        'min_replay_size': 50_000,
        'priority_exponent': 0.6,
        'importance_sampling_exponent': 0.4,
        'target_update_period': 2_500,
        'learning_rate': 6.25e-5,
        'optimizer_epsilon': 1.5e-7,
        'max_gradient_norm': 40.0,
        'max_abs_reward': 1.0,
        'epsilon': 0.4,
        'epsilon_alpha': 7.0,
        'variable_update_period': 100,  # 400 frames.
        'loss': 'squared',
        'optimizer': 'rmsprop',
    }
    assert {name: paper[name] for name in expected} == expected


def test_images_get_convolutions():
    spec = specs.EnvironmentSpec(
        observations=dm_env.specs.Array((84, 84, 4), np.uint8),
        actions=dm_env.specs.DiscreteArray(18),
        rewards=dm_env.specs.Array((), np.float32),
        discounts=dm_env.specs.BoundedArray((), np.float32, 0, 1),
    )
    networks = builder.Builder(config.PAPER).make_networks(spec)
    shapes = [tuple(v.shape) for v in networks.q.trainable_variables]
    assert (8, 8, 4, 32) in shapes and (3136, 512) in shapes
    assert networks.q(tf.zeros([2, 84, 84, 4], tf.uint8)).shape == (2, 18)


class Forever(fakes.Forever):
    def action_spec(self):
        return dm_env.specs.DiscreteArray(2)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_time_limit_does_not_lower_values(tmp_path):
    local.run_experiment(
        experiment.ExperimentConfig(
            agent=config.Config(discount=0.9, samples_per_insert=64.0),
            environment=Forever,
            max_actor_steps=None,
            max_learner_steps=2_000,
            evaluation_episodes=1,
            evaluation_period_seconds=1e6,
        ),
        run_dir=tmp_path / 'run',
    )
    _, values = curves.read_curve(
        tmp_path / 'run' / 'csv' / 'learner.csv', x='learner_steps', y='mean_q'
    )
    # 1 / (1 - 0.9) in every state, a little more by the maximum over noise; the sums
    # of the steps that are left are 4 in the mean.
    np.testing.assert_allclose(values[-1], 10.0, atol=1.2)


def test_preloaded_items_neither_block_nor_distort_the_ratio():
    preloaded, ratio = 10_000, 8.0
    agent = config.Config(
        min_replay_size=preloaded,
        max_replay_size=3 * preloaded,
        samples_per_insert=ratio,
        updates_per_call=1,
    )
    one, role = builder.Builder(agent), core.Role(num_lanes=16)
    environment = vector.SerialVectorEnvironment(
        [catch.Catch(seed) for seed in range(16)]
    )
    spec = environment.spec
    policy = one.make_policy(one.make_networks(spec), spec, role)
    [table] = specs_ = one.make_table_specs(spec, policy, 16)
    over = threading.Event()

    def wait(reason, waited_seconds):
        fakes.no_wait(reason, waited_seconds)
        if over.is_set():
            raise core.Stopped

    with (
        server.ReplayServer(specs_) as replay,
        one.make_adder(replay.address, spec, policy, role, wait) as adder,
    ):
        loop = environment_loop.EnvironmentLoop(
            environment, actor.PolicyActor(policy, spec, 16, adder), lambda _: None
        )
        while adder.num_items < preloaded:  # Nothing is sampled meanwhile.
            loop.step()
        adder.flush()

        def act():
            with contextlib.suppress(core.Stopped):
                while True:
                    loop.step()

        acting = threading.Thread(target=act)
        acting.start()
        samples = iter(one.make_dataset([replay.address], spec, policy, 16, False))
        for _ in range(300):
            next(samples)
        [found] = replay.statistics()
        over.set()
        acting.join()
    surplus = ratio * (found.inserts - preloaded) - found.samples
    assert found.samples >= 300 * agent.batch_size
    assert abs(surplus) <= table.rate_limit.error_buffer + 1
