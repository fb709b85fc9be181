"""The losses of D4PG and D3PG: their values, and whom they move."""

import dataclasses

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from repertory.agents.d4pg import loss
from repertory.components import optimizers
from repertory.components.losses import categorical
from repertory.components.networks import control, heads
from tests.agents import d4pg_fakes


@pytest.mark.parametrize('critic', ['categorical', 'scalar'])
def test_each_loss_has_a_gradient_for_its_own_networks_alone(critic):
    agent = dataclasses.replace(d4pg_fakes.SMALL, critic=critic)
    online, target = d4pg_fakes.make_networks(agent), d4pg_fakes.make_networks(agent)
    with tf.GradientTape(persistent=True) as tape:
        output = loss.d4pg_loss(online, target, d4pg_fakes.make_sample(), agent)
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

    sample = d4pg_fakes.make_sample(
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
    agent = dataclasses.replace(d4pg_fakes.SMALL, critic='scalar')
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
    plain = dataclasses.replace(d4pg_fakes.SMALL, critic=critic)
    scaled = dataclasses.replace(plain, reward_scale=0.25)
    networks, sample = d4pg_fakes.make_networks(plain), d4pg_fakes.make_sample()
    expected = loss.d4pg_loss(
        networks,
        networks,
        sample._replace(data=sample.data._replace(reward=0.25 * sample.data.reward)),
        plain,
    )
    actual = loss.d4pg_loss(networks, networks, sample, scaled)
    np.testing.assert_allclose(actual.priorities, expected.priorities, rtol=1e-6)


def test_only_a_prioritized_sampler_weighs_samples():
    networks, sample = d4pg_fakes.make_networks(), d4pg_fakes.make_sample()
    even = sample._replace(info=sample.info._replace(probability=tf.fill([8], 0.5)))
    prioritized = dataclasses.replace(d4pg_fakes.SMALL, sampler='prioritized')

    def critic_loss(sample, agent):
        return loss.d4pg_loss(networks, networks, sample, agent).loss['critic'].numpy()

    assert critic_loss(sample, d4pg_fakes.SMALL) == critic_loss(even, d4pg_fakes.SMALL)
    assert critic_loss(even, prioritized) == critic_loss(even, d4pg_fakes.SMALL)
    assert critic_loss(sample, prioritized) < critic_loss(even, prioritized)


def test_the_policys_gradient_is_taken_at_the_sampled_observation():
    networks, sample = d4pg_fakes.make_networks(), d4pg_fakes.make_sample()
    data = sample.data._replace(next_observation=sample.data.next_observation + 1.0)

    def gradient(sample):
        with tf.GradientTape() as tape:
            output = loss.d4pg_loss(networks, networks, sample, d4pg_fakes.SMALL)
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
        d4pg_fakes.SMALL,
        critic='scalar',
        policy_learning_rate=3e-3,
        max_gradient_norm=None,
    )
    networks = dataclasses.replace(
        d4pg_fakes.make_networks(agent), critic=snt.allow_empty_variables(Quadratic())
    )
    optimizer = optimizers.Adam(agent.policy_learning_rate)
    variables = networks.policy.trainable_variables
    optimizer.initialize(variables)

    @tf.function
    def update():
        with tf.GradientTape() as tape:
            output = loss.d4pg_loss(networks, networks, d4pg_fakes.make_sample(), agent)
        optimizer.apply(tape.gradient(output.loss['policy'], variables), variables)

    for _ in range(300):
        update()
    action = networks.policy(
        networks.observation(d4pg_fakes.make_sample().data.observation)
    )
    np.testing.assert_allclose(action, np.tile(best, [8, 1]), atol=0.05)
