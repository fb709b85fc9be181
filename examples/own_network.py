"""A network of one's own: a normalized layer and a plain head, not a dueling one.

python examples/own_network.py
"""

from __future__ import annotations

import argparse

import sonnet as snt
import tensorflow as tf

from repertory.agents import apex_dqn
from repertory.agents.apex_dqn import networks
from repertory.components import specs
from repertory.components.networks import heads, observations
from repertory.launch import experiment, local


class Torso(snt.Module):
    """A layer, normalized: any observation [N, ...] to float32 features [N, size]."""

    def __init__(self, size: int):
        super().__init__(name='torso')
        self._layer = snt.Linear(size)
        self._norm = snt.LayerNorm(-1, create_scale=True, create_offset=True)

    def __call__(self, observation) -> tf.Tensor:
        flat = observations.flatten_observation(observation)
        return tf.nn.relu(self._norm(self._layer(flat)))


def make_networks(environment_spec: specs.EnvironmentSpec) -> networks.Networks:
    """Returns new networks with their variables created, as the agent's own factory."""
    num_actions = environment_spec.actions.num_values
    head = heads.QHead(num_actions, hidden_sizes=[])
    q = snt.Sequential([Torso(64), head], name='q')
    observations.create_variables(q, environment_spec.observations)
    return networks.Networks(q=q)


def make_experiment(max_actor_steps: int) -> experiment.ExperimentConfig:
    """Returns what is run; learner, actors and evaluator all call the factory."""
    return experiment.ExperimentConfig(
        agent=apex_dqn.Config(),
        environment='catch',
        networks=make_networks,
        max_actor_steps=max_actor_steps,
    )


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--max-actor-steps', default=20_000, type=int)
    print(local.run_experiment(make_experiment(parser.parse_args().max_actor_steps)))
