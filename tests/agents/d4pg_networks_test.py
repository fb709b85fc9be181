"""D4PG's networks: what they take and refuse, and the noise they act with."""

import dataclasses

import dm_env
import dm_env.specs
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from repertory.agents.d4pg import builder
from repertory.components import core, policies, specs
from repertory.components.networks import heads, torsos
from tests import fakes
from tests.agents import d4pg_fakes


@pytest.mark.parametrize(
    ('actions', 'remedy'),
    [
        (dm_env.specs.BoundedArray((2,), np.float32, -2, 2), 'CanonicalActions'),
        (dm_env.specs.BoundedArray((2,), np.float32, [-1, 0], [1, 1]), 'canonical=tr'),
        (dm_env.specs.BoundedArray((2,), np.float64, -1, 1), 'Canonical'),
        (dm_env.specs.Array((2,), np.float32), 'finite bounds'),
        (dm_env.specs.DiscreteArray(3), 'got Discrete.*; take an agent for discrete'),
        ({'arm': dm_env.specs.BoundedArray((2,), np.float32, -1, 1)}, 'make one array'),
    ],
)
def test_actions_that_are_not_canonical_are_refused_with_the_remedy(actions, remedy):
    one, networks = builder.Builder(d4pg_fakes.SMALL), d4pg_fakes.make_networks()
    spec = d4pg_fakes.make_spec(actions=actions)
    with pytest.raises(ValueError, match=f'action_spec must be one float32 .*{remedy}'):
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
    spec = d4pg_fakes.make_spec(
        observations, dm_env.specs.BoundedArray(shape, np.float32, -1, 1)
    )
    one = builder.Builder(d4pg_fakes.SMALL)
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
    spec = d4pg_fakes.make_spec(observations=dm_env.specs.Array((64, 64, 3), np.uint8))
    networks = builder.Builder(d4pg_fakes.SMALL).make_networks(spec)
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
    agent = dataclasses.replace(d4pg_fakes.SMALL, critic=kind)
    networks = [
        dataclasses.replace(
            builder.Builder(agent).make_networks(d4pg_fakes.make_spec()),
            critic=snt.Sequential([torsos.LayerNormMLP([8]), head()]),
        )
        for _ in range(2)
    ]
    with pytest.raises(TypeError, match=message):
        builder.Builder(agent).make_learner(
            *networks, d4pg_fakes.make_spec(), iter([]), []
        )


def test_evaluators_act_without_noise_and_actors_with():
    one, spec = builder.Builder(d4pg_fakes.SMALL), d4pg_fakes.make_spec()
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
