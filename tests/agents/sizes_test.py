"""A config knows the largest weight of its networks before they are made."""

from __future__ import annotations

import dataclasses
import math

import dm_env.specs
import numpy as np
import pytest
import tree

from repertory.agents import apex_dpg, apex_dqn, d4pg, impala, r2d2
from repertory.components import specs
from repertory.components.environments import catch
from repertory.launch import experiment


def largest(networks):
    """Returns how many numbers the largest weight of the networks has."""
    variables = [v for module in vars(networks).values() for v in module.variables]
    return max(variable.shape.num_elements() for variable in variables)


def experiment_of(agent):
    continuous = isinstance(agent, (d4pg.Config, apex_dpg.Config))
    environment = 'gym:Pendulum-v1' if continuous else 'catch'
    return experiment.ExperimentConfig(agent=agent, environment=environment)


@pytest.mark.parametrize(
    'agent',
    [
        apex_dqn.Config(),
        apex_dqn.Config(hidden_sizes=(256, 512), dueling_size=128),
        apex_dqn.Config(hidden_sizes=(32,), dueling_size=700),
        r2d2.Config(),
        r2d2.Config(lstm_size=256),
        r2d2.Config(hidden_sizes=(512,), action_reward=False),
        impala.Config(),
        impala.Config(core='lstm'),
        impala.Config(hidden_sizes=(300, 600)),
        impala.Config(hidden_sizes=()),
        d4pg.Config(),
        d4pg.Config(policy_sizes=(32,), critic_sizes=(512, 512, 256)),
        d4pg.Config(network='relu', policy_sizes=(400, 300), critic_sizes=(64, 32)),
        apex_dpg.Config(network='tanh', policy_sizes=(300, 200)),
    ],
)
def test_the_largest_weight_is_known_beforehand(agent):
    config = experiment_of(agent)
    spec = config.environment_spec()
    made = largest(config.make_networks(spec))
    # But for inputs that join later, and for the heads.
    assert agent.largest_weight(spec) == pytest.approx(made, rel=0.1)


@pytest.mark.parametrize('agent', [apex_dqn.Config(), impala.Config()])
def test_images_need_convolutions(agent):
    spec = specs.make_environment_spec(catch.Catch(0))
    image = dm_env.specs.Array((84, 84, 1), np.uint8)
    observations = {'camera': image, 'speed': spec.rewards}
    seen = dataclasses.replace(spec, observations=observations)
    assert agent.largest_weight(seen) == math.inf


def test_networks_of_ones_own_may_be_of_any_size(monkeypatch):
    monkeypatch.delenv('TF_ENABLE_ONEDNN_OPTS', raising=False)
    small = experiment_of(apex_dqn.Config())
    own = experiment.ExperimentConfig(
        agent=small.agent, environment=small.environment, networks=tree.map_structure
    )
    assert small.kernel_variables() == {}
    assert own.kernel_variables() == {'TF_ENABLE_ONEDNN_OPTS': '1'}
