"""Connects the parts of central inference: the server, and actors that ask it.

Importing this module imports TensorFlow.
"""

from __future__ import annotations

import asyncio
import os

from repertory.components import actor, core, variables
from repertory.launch import control as control_lib
from repertory.launch import experiment as experiment_lib
from repertory.launch import inference, wiring, workers


def build_remote_actor(
    experiment: experiment_lib.ExperimentConfig,
    topology: experiment_lib.Topology,
    actor_index: int,
    ask: actor.Ask,
    replay_address: str,
    control: control_lib.NodeControl,
    run_dir: str | os.PathLike,
) -> workers.ActorWorker:
    """Returns one actor without parameters, connected to replay and inference."""
    role = wiring.make_role(experiment, topology, actor_index)
    spec = experiment.environment_spec()
    builder = experiment.builder()
    # Only for the shapes of what it adds to the rows.
    policy = builder.make_policy(experiment.make_networks(spec), spec, role)
    adder = builder.make_adder(replay_address, spec, policy, role, control.wait)
    one = actor.AskingActor(ask, spec, role.num_lanes, adder)
    return workers.ActorWorker(
        environment=wiring.make_environments(experiment, topology, role),
        one=one,
        adder=adder,
        control=control,
        logger=wiring.make_logger(experiment, run_dir, role.name),
        log_period_seconds=experiment.logging.period_seconds,
    )


def build_inference(
    experiment: experiment_lib.ExperimentConfig,
    topology: experiment_lib.Topology,
    variable_source: core.VariableSource,
    loop: asyncio.AbstractEventLoop,
) -> inference.InferenceServer:
    """Returns the server of all actors' actions in a loop; it is not started yet."""
    spec = experiment.environment_spec()
    builder = experiment.builder()
    networks = experiment.make_networks(spec)
    roles = [
        wiring.make_role(experiment, topology, i) for i in range(topology.num_actors)
    ]
    policies = [builder.make_policy(networks, spec, role) for role in roles]
    return inference.InferenceServer(
        policies,
        spec,
        topology.envs_per_actor,
        variables.VariableClient(
            variable_source,
            policies[0].variables,
            # Each actor's parameters are as old as those of one that fetches its own.
            experiment.agent.variable_update_period * topology.num_actors,
        ),
        # Half of the lanes are stepped while the other half is chosen for.
        max_lanes=-(-topology.num_actors // 2) * topology.envs_per_actor,
        timeout_seconds=topology.inference_timeout_seconds,
        loop=loop,
    )
