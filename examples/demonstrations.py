"""Demonstrations in the replay, from which learning begins.

python examples/demonstrations.py
"""

from __future__ import annotations

import argparse

import launchpad as lp
import tensorflow as tf

from repertory.agents import apex_dqn
from repertory.components import actor, core, environment_loop, policies
from repertory.launch import control, experiment, launcher, program, run_folder, wiring

NUMBER = 2_000  # Transitions; sampling begins when the replay has so many.


class Expert(policies.EpsilonGreedyPolicy):
    """Moves below the ball, and says of that what the agent says of its actions."""

    def act(self, observation, state, draws):
        ball = tf.argmax(tf.reduce_max(observation[:, :-1], axis=1), axis=1)
        paddle = tf.argmax(observation[:, -1], axis=1)
        action = tf.cast(1 + tf.sign(ball - paddle), tf.int32)
        values = self._network(observation)
        extras = {
            'q_taken': tf.gather(values, action, batch_dims=1),
            'q_max': tf.reduce_max(values, axis=1),
        }
        return policies.PolicyOutput(action, extras, state)


def demonstrate(config, topology, address: lp.Address, coordinator) -> None:
    """Plays, and writes what the agent's adder makes of it; its node then ends."""
    with control.NodeControl('demonstrator', coordinator) as node:
        spec, builder = config.environment_spec(), config.builder()
        role = core.Role(num_lanes=topology.envs_per_actor, seed=config.seed)
        policy = Expert(config.make_networks(spec).q, [0.0], spec.actions, seed=0)
        environment = wiring.make_environments(config, topology, role)
        told = address.resolve(), spec, policy, role, node.wait
        with environment, builder.make_adder(*told) as adder:
            expert = actor.PolicyActor(policy, spec, role.num_lanes, adder)
            loop = environment_loop.EnvironmentLoop(environment, expert, lambda _: None)
            while adder.num_items < NUMBER:
                loop.step()
            adder.flush()
            print(f'wrote {adder.num_items} demonstrations', flush=True)


def make_experiment(max_actor_steps: int) -> experiment.ExperimentConfig:
    """Returns what is run."""
    agent = apex_dqn.Config(min_replay_size=NUMBER)
    return experiment.ExperimentConfig(
        agent=agent, environment='catch', max_actor_steps=max_actor_steps
    )


def main() -> None:
    """Adds the demonstrator to an experiment's program and launches both together."""
    parser = argparse.ArgumentParser()
    parser.add_argument('--max-actor-steps', default=5_000, type=int)
    config = make_experiment(parser.parse_args().max_actor_steps)
    topology = experiment.Topology()
    folder = run_folder.open_folder(config, topology)
    environments = program.process_environments(config, topology)
    made = program.make_program(config, topology, folder.path)
    [replay], [coordinator] = made.groups['replay'], made.groups['coordinator']
    told = config, topology, replay.addresses[0], coordinator.create_handle()
    made.add_node(lp.PyNode(demonstrate, *told), label='demonstrator')
    launcher.launch(made, 'processes', folder.path, environments).wait().check()


if __name__ == '__main__':
    main()
