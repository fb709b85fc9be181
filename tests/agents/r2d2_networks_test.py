"""R2D2's networks: what they take and refuse, and the epsilons they act with."""

import dataclasses

import dm_env.specs
import numpy as np
import pytest
import tensorflow as tf
import tree

from repertory.agents.r2d2 import builder, config
from repertory.components import core, specs
from repertory.components.environments import vector
from tests import fakes
from tests.agents import r2d2_fakes


def test_the_ladder_runs_over_all_lanes_of_all_actors():
    agent = r2d2_fakes.make_config(action_reward=False)
    one = builder.Builder(agent)
    environment = vector.SerialVectorEnvironment(
        [fakes.ScriptedEnvironment([[1.0]], False)]
    )
    networks = one.make_networks(environment.spec)

    def epsilons(**role):
        policy = one.make_policy(networks, environment.spec, core.Role(**role))
        return policy._epsilon.numpy().tolist()

    ladder = [
        epsilon
        for i in range(4)
        for epsilon in epsilons(actor_index=i, num_actors=4, num_lanes=2)
    ]
    expected = [0.4, 0.16, 0.064, 0.0256, 0.01024, 0.004096, 0.0016384, 0.00065536]
    np.testing.assert_allclose(ladder, expected, rtol=1e-6)
    np.testing.assert_allclose(epsilons(), [0.4])
    assert epsilons(evaluation=True, num_lanes=2) == [0.0, 0.0]


def test_previous_action_and_reward_are_inputs_without_a_wrapper_by_hand():
    agent = r2d2_fakes.make_config()
    environment = agent.wrap_environment(fakes.ScriptedEnvironment([[3.0, 4.0]], False))
    assert agent.wrap_environment(environment) is environment
    first, second = environment.reset(), environment.step(np.int32(1))
    assert not first.observation['action'].any() and first.observation['reward'] == 0
    np.testing.assert_array_equal(second.observation['action'], [0, 1])
    assert second.observation['reward'] == 3.0
    plain = dataclasses.replace(agent, action_reward=False)
    inside = fakes.ScriptedEnvironment([[1.0]], False)
    assert plain.wrap_environment(inside) is inside
    spec = specs.make_environment_spec(inside)
    with pytest.raises(ValueError, match='must be that of ObservationActionReward'):
        builder.Builder(agent).make_networks(spec)


def test_continuous_actions_are_refused_with_the_remedy():
    spec = specs.EnvironmentSpec(
        observations=dm_env.specs.Array((3,), np.float32),
        actions=dm_env.specs.BoundedArray((2,), np.float32, -1, 1),
        rewards=dm_env.specs.Array((), np.float32),
        discounts=dm_env.specs.BoundedArray((), np.float32, 0, 1),
    )
    with pytest.raises(ValueError, match='take a continuous agent'):
        builder.Builder(config.Config()).make_networks(spec)


def test_images_get_convolutions_beside_action_and_reward():
    spec = specs.EnvironmentSpec(
        observations={
            'observation': dm_env.specs.Array((84, 84, 4), np.uint8),
            'action': dm_env.specs.Array((18,), np.float32),
            'reward': dm_env.specs.Array((), np.float32),
        },
        actions=dm_env.specs.DiscreteArray(18),
        rewards=dm_env.specs.Array((), np.float32),
        discounts=dm_env.specs.BoundedArray((), np.float32, 0, 1),
    )
    networks = builder.Builder(config.PAPER).make_networks(spec)
    shapes = [tuple(v.shape) for v in networks.q.trainable_variables]
    assert (8, 8, 4, 32) in shapes and (4 * 512, 3136 + 18 + 1) in shapes
    zeros = tree.map_structure(tf.constant, specs.zeros(spec.observations, 2))
    values, _ = networks.q.step(zeros, networks.q.initial_state(2))
    assert values.shape == (2, 18)
