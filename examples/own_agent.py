"""An agent of one's own in one file: Ape-X DQN that explores by Boltzmann's rule.

python examples/own_agent.py
repertory eval RUN_DIR     # afterwards; finds the agent by this file

`dqn.py` builds an agent from nothing but the parts.
"""

from __future__ import annotations

import argparse
import dataclasses

import tensorflow as tf

from repertory.agents import apex_dqn
from repertory.agents.apex_dqn import builder as apex_dqn_builder
from repertory.components import policies
from repertory.launch import experiment, local


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(apex_dqn.Config):
    """Those of Ape-X DQN, and one more."""

    temperature: float = 0.1
    """Values that differ by it are taken with odds of e to 1."""

    def __post_init__(self):
        super().__post_init__()
        if not self.temperature > 0:
            raise ValueError(f'temperature must be > 0, got {self.temperature}.')

    def make_builder(self) -> Builder:
        return Builder(self)


class BoltzmannPolicy(policies.EpsilonGreedyPolicy):
    """Draws action a with a chance proportional to exp(Q(s, a) / temperature)."""

    def __init__(self, network, temperature, action_spec, seed):
        super().__init__(network, [0.0], action_spec, seed)
        self._temperature, self._num_actions = temperature, action_spec.num_values

    def draw(self, num_lanes):
        noise = self._generator.uniform([num_lanes, self._num_actions], 1e-6, 1 - 1e-6)
        return -tf.math.log(-tf.math.log(noise))  # Gumbel: its argmax is such a draw.

    def act(self, observation, state, draws):
        q_values = self._network(observation)
        action = tf.argmax(q_values / self._temperature + draws, axis=-1)
        extras = {
            'q_taken': tf.gather(q_values, action, batch_dims=1),
            'q_max': tf.reduce_max(q_values, axis=-1),
        }
        return policies.PolicyOutput(tf.cast(action, self._dtype), extras, state)


class Builder(apex_dqn_builder.Builder):
    """All but the actors' policy is Ape-X DQN's."""

    def make_policy(self, networks, environment_spec, role):
        if role.evaluation:
            return super().make_policy(networks, environment_spec, role)
        return BoltzmannPolicy(
            networks.q, self._config.temperature, environment_spec.actions, role.seed
        )


def make_experiment(max_actor_steps: int) -> experiment.ExperimentConfig:
    """Returns what is run."""
    return experiment.ExperimentConfig(
        agent=Config(), environment='catch', max_actor_steps=max_actor_steps
    )


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--max-actor-steps', default=20_000, type=int)
    print(local.run_experiment(make_experiment(parser.parse_args().max_actor_steps)))
