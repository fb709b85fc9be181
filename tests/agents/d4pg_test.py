"""D4PG and D3PG: losses, whom they move, what is refused, and the support's check."""

import dataclasses
import logging

import dm_env
import dm_env.specs
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from repertory.agents.d4pg import builder, config, loss
from repertory.components import core, optimizers, policies, specs, types
from repertory.components.environments import registry
from repertory.components.losses import categorical
from repertory.components.networks import control, heads, torsos
from repertory.launch import curves, experiment, exported, local
from tests import fakes

SMALL = config.Config(
    policy_sizes=(16,),
    critic_sizes=(16, 16),
    batch_size=8,
    min_replay_size=8,
    vmin=-3.0,
    vmax=3.0,
    num_atoms=7,
)


def make_spec(observations=None, actions=None):
    return specs.EnvironmentSpec(
        observations=observations or dm_env.specs.Array((3,), np.float32),
        actions=actions or dm_env.specs.BoundedArray((2,), np.float32, -1, 1),
        rewards=dm_env.specs.Array((), np.float32),
        discounts=dm_env.specs.BoundedArray((), np.float32, 0, 1),
    )


class LearnedFeatures(snt.Module):
    """An observation network with variables."""

    def __init__(self):
        super().__init__()
        self._linear = snt.Linear(4)

    def __call__(self, observation):
        return self._linear(observation)


def make_networks(agent=SMALL):
    one = builder.Builder(agent)
    made = dataclasses.replace(
        one.make_networks(make_spec(observations=dm_env.specs.Array((4,), np.float32))),
        observation=LearnedFeatures(),
    )
    made.observation(tf.zeros([1, 3]))
    return made


def make_sample(batch=8, seed=0, **changes):
    rng = np.random.default_rng(seed)
    data = types.Transition(
        observation=rng.normal(size=[batch, 3]).astype(np.float32),
        action=rng.uniform(-1, 1, [batch, 2]).astype(np.float32),
        reward=rng.normal(size=batch).astype(np.float32),
        discount=rng.uniform(0, 1, batch).astype(np.float32),
        next_observation=rng.normal(size=[batch, 3]).astype(np.float32),
        extras={},
    )._replace(**changes)
    info = types.SampleInfo(
        key=np.arange(batch, dtype=np.uint64),
        probability=rng.uniform(0.1, 0.9, batch),
        table_size=np.full(batch, 10),
        priority=np.ones(batch),
    )
    return tf.nest.map_structure(tf.constant, types.Sample(info, data))


@pytest.mark.parametrize('critic', ['categorical', 'scalar'])
def test_each_loss_has_a_gradient_for_its_own_networks_alone(critic):
    agent = dataclasses.replace(SMALL, critic=critic)
    online, target = make_networks(agent), make_networks(agent)
    with tf.GradientTape(persistent=True) as tape:
        output = loss.d4pg_loss(online, target, make_sample(), agent)
    for name, own in (('critic', ('observation', 'critic')), ('policy', ('policy',))):
        for part in ('observation', 'policy', 'critic'):
            gradients = tape.gradient(
                output.loss[name], getattr(online, part).trainable_variables
            )
            if part in own:
                assert all(np.any(gradient != 0) for gradient in gradients), part
            else:
                assert all(gradient is None for gradient in gradients), part
        for part in ('observation', 'policy', 'critic'):
            variables = getattr(target, part).trainable_variables
            gradients = tape.gradient(output.loss[name], variables)
            assert all(gradient is None for gradient in gradients)


@pytest.mark.parametrize(
    'idle, still', [('policy', ('policy',)), ('critic', ('observation', 'critic'))]
)
def test_an_update_moves_what_its_loss_trains(idle, still):
    # Steps so small that float32 cannot see them.
    agent = dataclasses.replace(SMALL, **{f'{idle}_learning_rate': 1e-20})
    networks = make_networks(agent)
    sample = tf.nest.map_structure(lambda x: x[None], make_sample())
    learner = builder.Builder(agent).make_learner(
        networks, make_networks(agent), make_spec(), iter([sample] * 3), []
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


class Fixed(snt.Module):
    """Gives the same for each lane."""

    def __init__(self, make):
        super().__init__()
        self._make = make

    def __call__(self, inputs):
        first = tf.nest.flatten(inputs)[0]
        return self._make(tf.shape(first)[0])


def valued(value):
    """Returns networks whose critic gives `value` wherever."""
    return control.Networks(
        observation=control.Flatten(),
        policy=Fixed(lambda n: tf.zeros([n, 2])),
        critic=lambda inputs: value + 0 * tf.reduce_sum(inputs[1], axis=-1),
    )


def test_delta_distributions_give_the_targets_of_d3pg():
    support = tf.linspace(-3.0, 3.0, 7)
    peak = tf.constant([0.0, 0.0, 0.0, 0.0, 50.0, 0.0, 0.0])  # All mass at 1.
    flat = tf.zeros([7])

    def critic(logits):
        return lambda n: heads.CategoricalDistribution(
            tf.tile(logits[None], [n, 1]), support
        )

    sample = make_sample(
        reward=np.array([0.5, -1.0, 2.0, 0.0] * 2, np.float32),
        discount=np.array([0.9, 0.5, 0.0, 1.0] * 2, np.float32),
    )
    _, divergence, _ = loss._categorical(
        critic(flat)(8), sample.data.reward, sample.data.discount, critic(peak)(8)
    )
    td = categorical.categorical_td(
        tf.zeros([8, 7]),
        sample.data.reward,
        sample.data.discount,
        tf.tile(peak[None], [8, 1]),
        support,
    )
    mean = tf.linalg.matvec(td.target, support)
    scalar_target = sample.data.reward + sample.data.discount * 1.0
    np.testing.assert_allclose(mean, scalar_target, atol=1e-6)
    # Against a flat prediction: log 7 minus the target's entropy.
    entropy = -np.sum(td.target * np.log(np.maximum(td.target, 1e-30)), -1)
    np.testing.assert_allclose(divergence, np.log(7) - entropy, rtol=1e-5)
    agent = dataclasses.replace(SMALL, critic='scalar')
    output = loss.d4pg_loss(
        valued(0.0),
        valued(1.0),
        sample,
        agent,
    )
    np.testing.assert_allclose(
        output.priorities, np.abs(scalar_target) + agent.priority_epsilon, rtol=1e-6
    )
    np.testing.assert_allclose(
        output.loss['critic'], 0.5 * np.mean(np.square(scalar_target)), rtol=1e-6
    )


@pytest.mark.parametrize('critic', ['categorical', 'scalar'])
def test_the_reward_is_scaled_in_learning_alone(critic):
    plain = dataclasses.replace(SMALL, critic=critic)
    scaled = dataclasses.replace(plain, reward_scale=0.25)
    networks, sample = make_networks(plain), make_sample()
    expected = loss.d4pg_loss(
        networks,
        networks,
        sample._replace(data=sample.data._replace(reward=0.25 * sample.data.reward)),
        plain,
    )
    actual = loss.d4pg_loss(networks, networks, sample, scaled)
    np.testing.assert_allclose(actual.priorities, expected.priorities, rtol=1e-6)


def test_only_a_prioritized_sampler_weighs_samples():
    networks, sample = make_networks(), make_sample()
    even = sample._replace(info=sample.info._replace(probability=tf.fill([8], 0.5)))
    prioritized = dataclasses.replace(SMALL, sampler='prioritized')

    def critic_loss(sample, agent):
        return loss.d4pg_loss(networks, networks, sample, agent).loss['critic'].numpy()

    assert critic_loss(sample, SMALL) == critic_loss(even, SMALL)
    assert critic_loss(even, prioritized) == critic_loss(even, SMALL)
    assert critic_loss(sample, prioritized) < critic_loss(even, prioritized)


def test_the_policys_gradient_is_taken_at_the_sampled_observation():
    networks, sample = make_networks(), make_sample()
    data = sample.data._replace(next_observation=sample.data.next_observation + 1.0)

    def gradient(sample):
        with tf.GradientTape() as tape:
            output = loss.d4pg_loss(networks, networks, sample, SMALL)
        return tape.gradient(
            output.loss['policy'], networks.policy.trainable_variables[-1]
        ).numpy()

    np.testing.assert_array_equal(
        gradient(sample), gradient(sample._replace(data=data))
    )
    data = sample.data._replace(observation=sample.data.observation + 1.0)
    assert np.any(gradient(sample) != gradient(sample._replace(data=data)))


def test_the_policy_climbs_to_the_maximum_of_a_quadratic_critic():
    best = tf.constant([0.5, -0.25])

    class Quadratic(snt.Module):
        def __call__(self, inputs):
            return -tf.reduce_sum(tf.square(inputs[1] - best), axis=-1)

    agent = dataclasses.replace(
        SMALL, critic='scalar', policy_learning_rate=3e-3, max_gradient_norm=None
    )
    networks = dataclasses.replace(
        make_networks(agent), critic=snt.allow_empty_variables(Quadratic())
    )
    optimizer = optimizers.Adam(agent.policy_learning_rate)
    variables = networks.policy.trainable_variables
    optimizer.initialize(variables)

    @tf.function
    def update():
        with tf.GradientTape() as tape:
            output = loss.d4pg_loss(networks, networks, make_sample(), agent)
        optimizer.apply(tape.gradient(output.loss['policy'], variables), variables)

    for _ in range(300):
        update()
    action = networks.policy(networks.observation(make_sample().data.observation))
    np.testing.assert_allclose(action, np.tile(best, [8, 1]), atol=0.05)


@pytest.mark.parametrize(
    'actions',
    [
        dm_env.specs.BoundedArray((2,), np.float32, -2, 2),
        dm_env.specs.BoundedArray((2,), np.float32, [-1, 0], [1, 1]),
        dm_env.specs.BoundedArray((2,), np.float64, -1, 1),
        dm_env.specs.Array((2,), np.float32),
        dm_env.specs.DiscreteArray(3),
        {'arm': dm_env.specs.BoundedArray((2,), np.float32, -1, 1)},
    ],
)
def test_actions_that_are_not_canonical_are_refused_with_the_remedy(actions):
    one, networks = builder.Builder(SMALL), make_networks()
    spec = make_spec(actions=actions)
    with pytest.raises(ValueError, match='action_spec must be one float32 .*Canonical'):
        one.make_networks(spec)
    with pytest.raises(ValueError, match='action_spec must be'):
        one.make_policy(networks, spec, core.Role())


@pytest.mark.parametrize(
    'observations',
    [
        dm_env.specs.Array((), np.float64),
        dm_env.specs.Array((2, 2), np.int32),
        fakes.NestedEnvironment().observation_spec(),
        dm_env.specs.Array((64, 64, 3), np.uint8),
    ],
    ids=['scalar', 'matrix', 'nested', 'image'],
)
@pytest.mark.parametrize('shape', [(), (2,), (2, 3)])
def test_any_observation_and_action_shape_can_be_acted_on(observations, shape):
    spec = make_spec(observations, dm_env.specs.BoundedArray(shape, np.float32, -1, 1))
    one = builder.Builder(SMALL)
    networks = one.make_networks(spec)
    policy = one.make_policy(networks, spec, core.Role(num_lanes=5))
    observation = tf.nest.map_structure(tf.constant, specs.zeros(observations, 5))
    action, extras, _ = policy(observation, policy.initial_state(5))
    assert action.shape == (5, *shape) and extras == {}
    assert np.all(np.abs(action) <= 1) and np.any(action != 0)
    assert (
        networks.critic((networks.observation(observation), action)).mean().shape == 5
    )


def test_an_image_has_an_observation_network_that_only_the_critic_trains():
    spec = make_spec(observations=dm_env.specs.Array((64, 64, 3), np.uint8))
    networks = builder.Builder(SMALL).make_networks(spec)
    assert isinstance(networks.observation, torsos.AtariTorso)


@pytest.mark.parametrize(
    'kind, head, message',
    [
        ('categorical', heads.ValueHead, 'categorical value .*heads.CategoricalHead'),
        ('scalar', lambda: snt.Linear(1), 'scalar value .*heads.ValueHead'),
    ],
)
def test_a_critic_without_the_right_head_is_refused_with_the_remedy(
    kind, head, message
):
    agent = dataclasses.replace(SMALL, critic=kind)
    networks = [
        dataclasses.replace(
            builder.Builder(agent).make_networks(make_spec()),
            critic=snt.Sequential([torsos.LayerNormMLP([8]), head()]),
        )
        for _ in range(2)
    ]
    with pytest.raises(TypeError, match=message):
        builder.Builder(agent).make_learner(*networks, make_spec(), iter([]), [])


def make_learner(agent, reward):
    sample = make_sample(reward=np.full([8], reward, np.float32))
    samples = iter(lambda: tf.nest.map_structure(lambda x: x[None], sample), None)
    one = builder.Builder(agent)
    return one.make_learner(
        *(one.make_networks(make_spec()) for _ in range(2)), make_spec(), samples, []
    )


def test_targets_beyond_the_support_are_said_once_with_numbers(caplog):
    learner = make_learner(SMALL, reward=50.0)
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            metrics = learner.step()
    assert metrics['mass_above_vmax'] == pytest.approx(1.0)
    assert metrics['mass_below_vmin'] == 0.0
    [record] = caplog.records
    message = record.getMessage()
    assert 'vmax must bound the discounted returns, got 3 while 100 %' in message


def test_targets_within_the_support_are_not_remarked_upon(caplog):
    learner = make_learner(dataclasses.replace(SMALL, vmin=-9, vmax=9), reward=0.0)
    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            metrics = learner.step()
    assert metrics['mass_above_vmax'] == metrics['mass_below_vmin'] == 0.0
    assert not caplog.records


@pytest.mark.parametrize(
    'change, message',
    [
        ({'n_step': 0}, 'n_step must be >= 1, got 0'),
        ({'discount': 1.1}, r'discount must be in \[0, 1\], got 1.1'),
        ({'vmin': 1.0, 'vmax': 1.0}, 'vmin must be < vmax and both finite, got 1.0'),
        ({'vmax': float('inf')}, 'vmin must be < vmax and both finite'),
        ({'num_atoms': 1}, 'num_atoms must be >= 2, got 1'),
        ({'noise_sigma': -0.1}, 'noise_sigma must be >= 0 and finite'),
        ({'noise_theta': 0.0}, r'noise_theta must be in \(0, 1\]'),
        ({'critic_learning_rate': 0.0}, 'critic_learning_rate must be positive'),
        ({'max_action_gradient_norm': 0.0}, 'must be > 0 or None'),
        ({'policy_sizes': ()}, 'policy_sizes must be 1 or more sizes'),
        ({'network': 'relu', 'critic_sizes': (9,)}, 'critic_sizes must be 2 or more'),
        ({'min_replay_size': 2_000_000}, 'never become ready'),
        ({'samples_per_insert': -1.0}, 'samples_per_insert must be > 0'),
        ({'reward_scale': float('nan')}, 'reward_scale must be positive'),
    ],
)
def test_a_setting_that_cannot_work_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        config.Config(**change)


def test_the_paper_preset_has_the_papers_values():
    paper = dataclasses.asdict(config.PAPER)
    expected = {
        'critic': 'categorical',
        'n_step': 5,
        'discount': 0.99,
        'batch_size': 256,
        'max_replay_size': 1_000_000,
        'num_atoms': 51,
        'policy_learning_rate': 1e-4,
        'critic_learning_rate': 1e-4,
        'target_update_period': 100,
        'noise_sigma': 0.3,
        'noise_theta': 1.0,
        'max_gradient_norm': None,
        'max_action_gradient_norm': None,
        'policy_sizes': (400, 300),
        'critic_sizes': (400, 300),
    }
    assert {name: paper[name] for name in expected} == expected
    networks = builder.Builder(config.PAPER).make_networks(make_spec())
    shapes = [tuple(v.shape) for v in networks.critic.trainable_variables]
    # The action joins at the second layer.
    assert (3, 400) in shapes and (400 + 2, 300) in shapes and (300, 51) in shapes


def test_evaluators_act_without_noise_and_actors_with():
    one, spec = builder.Builder(SMALL), make_spec()
    networks = one.make_networks(spec)
    acting, evaluating = (
        one.make_policy(networks, spec, core.Role(evaluation=evaluation))
        for evaluation in (False, True)
    )
    observation = tf.ones([4, 3])
    mean = networks.policy(networks.observation(observation))
    np.testing.assert_array_equal(evaluating(observation, ()).action, mean)
    assert np.all(acting(observation, ()).action != mean)
    assert isinstance(acting, policies.DeterministicPolicy)


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
        SMALL,
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
