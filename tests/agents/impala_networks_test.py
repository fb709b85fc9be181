"""IMPALA's networks: what they take and what they refuse."""

import dataclasses

import dm_env.specs
import numpy as np
import pytest

from repertory.agents.impala import builder, config
from repertory.components.environments import vector
from tests import fakes
from tests.agents import impala_fakes


def test_continuous_actions_are_refused_with_the_remedy():
    spec = dataclasses.replace(
        impala_fakes.SPEC, actions=dm_env.specs.BoundedArray((2,), np.float32, -1, 1)
    )
    with pytest.raises(ValueError, match='take a continuous agent'):
        builder.Builder(config.Config()).make_networks(spec)


@pytest.mark.parametrize('torso, num_variables', [('shallow', 6), ('deep', 32)])
def test_images_get_the_papers_convolutions(torso, num_variables):
    spec = dataclasses.replace(
        impala_fakes.SPEC,
        observations=dm_env.specs.Array((84, 84, 4), np.uint8),
        actions=dm_env.specs.DiscreteArray(18),
    )
    agent = dataclasses.replace(config.PAPER, torso=torso)
    made = builder.Builder(agent).make_networks(spec)
    # Beside the two heads' weights and biases.
    assert len(made.policy_value.trainable_variables) == num_variables + 4


def test_a_memory_sees_the_previous_action_and_reward():
    agent = impala_fakes.make_config(core='lstm')
    one = agent.wrap_environment(fakes.ScriptedEnvironment([[1.0, -5.0]], False))
    environment = vector.SerialVectorEnvironment([one])
    made = builder.Builder(agent).make_networks(environment.spec)
    network = made.policy_value
    before = {
        'observation': np.zeros([1, 2], np.float32),
        'action': np.zeros([1, impala_fakes.ACTIONS], np.float32),
        'reward': np.zeros([1], np.float32),
    }

    def logits(**changes):
        return network.step({**before, **changes}, network.initial_state(1))[0].logits

    assert np.any(logits() != logits(action=np.array([[1.0, 0.0]], np.float32)))
    assert np.any(logits() != logits(reward=np.array([0.5], np.float32)))
    clipped = [logits(reward=np.array([r], np.float32)) for r in (1.0, 5.0)]
    np.testing.assert_array_equal(*clipped)
