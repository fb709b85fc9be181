"""Connects the parts of one node each; local.py and program.py differ in who runs them.

The learners' are in `learning`, those of central inference in `central`.
Importing this module imports TensorFlow.
"""

from __future__ import annotations

import dataclasses
import logging
import os

import numpy as np
import tensorflow as tf
import tree

from repertory.components import (
    actor,
    core,
    loggers,
    specs,
    variables,
)
from repertory.components.environments import processes, seeding, threads, vector
from repertory.launch import control as control_lib
from repertory.launch import (
    evaluation_recorder,
    run_folder,
    workers,
)
from repertory.launch import experiment as experiment_lib
from repertory.replay import server

_logger = logging.getLogger(__name__)


def configure_process(
    group: str, experiment: experiment_lib.ExperimentConfig, rank: int | None = None
) -> None:
    """Sets TensorFlow's threads for a process of its own; before anything else.

    Actors and evaluators run small graphs: with more than one thread each, processes
    take the few cores from each other. A learner without convolutions is up to 1.8
    times faster where no operation is split: its threads run operations side by side.
    An inference server's are one after another. Learners of several, which have a
    `rank`, get a GPU each.
    """
    single = group in ('actor', 'evaluator')
    if single or group == 'inference':
        tf.config.threading.set_inter_op_parallelism_threads(1)
    splits = group in ('learner', 'inference') and _has_images(experiment)
    if not (splits or group == 'replay'):
        tf.config.threading.set_intra_op_parallelism_threads(1)
    devices = tf.config.list_physical_devices('GPU')
    if devices and rank is not None:
        devices = [devices[rank % len(devices)]]
        tf.config.set_visible_devices(devices, 'GPU')
    for device in devices:
        tf.config.experimental.set_memory_growth(device, True)


def _has_images(experiment: experiment_lib.ExperimentConfig) -> bool:
    spec = experiment.environment_spec().observations
    return any(specs.is_image(leaf) for leaf in tree.flatten(spec))


def make_role(
    experiment: experiment_lib.ExperimentConfig,
    topology: experiment_lib.Topology,
    actor_index: int = 0,
    evaluation: bool = False,
) -> core.Role:
    """Returns an actor's or evaluator's role, with a seed of its own."""
    sequence = np.random.SeedSequence([experiment.seed, actor_index, int(evaluation)])
    return core.Role(
        actor_index=actor_index,
        num_actors=topology.num_actors,
        evaluation=evaluation,
        num_lanes=min(experiment.evaluation_episodes, topology.envs_per_actor)
        if evaluation
        else topology.envs_per_actor,
        seed=int(sequence.generate_state(1)[0]),
    )


def make_environments(
    experiment: experiment_lib.ExperimentConfig,
    topology: experiment_lib.Topology,
    role: core.Role,
) -> core.VectorEnvironment:
    """Returns the lanes of a role."""
    factories = seeding.lane_factories(
        experiment.make_environment, experiment.seed, role
    )
    if topology.environments == 'processes':
        return processes.ProcessVectorEnvironment(
            factories, topology.environment_workers
        )
    if topology.environments == 'threads':
        return threads.ThreadVectorEnvironment([make() for make in factories])
    return vector.SerialVectorEnvironment([make() for make in factories])


def make_logger(
    experiment: experiment_lib.ExperimentConfig, run_dir: str | os.PathLike, role: str
) -> core.Logger:
    """Returns what records the rows of one role, as the experiment says."""
    folder, config = run_folder.RunFolder(run_dir), experiment.logging
    made: list[core.Logger] = []
    if config.csv:
        made.append(loggers.CSVLogger(folder.csv / f'{role}.csv'))
    if config.tensorboard:
        made.append(loggers.TensorBoardLogger(folder.tensorboard / role))
    if config.wandb:
        made.append(loggers.WandBLogger(name=f'{folder.path.name}/{role}'))
    if config.terminal:
        made.append(loggers.TerminalLogger(role))
    if experiment.logger is not None:
        made.append(experiment.logger(role))
    return loggers.Tee(made)


def build_replay(
    experiment: experiment_lib.ExperimentConfig,
    topology: experiment_lib.Topology,
    port: int | None,
    run_dir: str | os.PathLike,
    resume: bool,
    shard: int = 0,
    limited: bool = True,
) -> server.ReplayServer:
    """Returns a running replay server, restored if the run is resumed with replay."""
    spec = experiment.environment_spec()
    builder = experiment.builder()
    role = make_role(experiment, topology)
    policy = builder.make_policy(experiment.make_networks(spec), spec, role)
    # Without replay checkpoints an earlier one must neither be loaded nor replaced.
    folder = run_folder.RunFolder(run_dir).replay / f'shard_{shard}'
    return server.ReplayServer(
        builder.make_table_specs(spec, policy, role.num_lanes),
        port=port,
        checkpoint_dir=folder if experiment.checkpoint.replay else None,
        restore=resume,
        limited=limited,
    )


def build_actor(
    experiment: experiment_lib.ExperimentConfig,
    topology: experiment_lib.Topology,
    actor_index: int,
    variable_source: core.VariableSource,
    replay_address: str,
    control: control_lib.NodeControl,
    run_dir: str | os.PathLike,
    background: bool = True,
) -> workers.ActorWorker:
    """Returns one actor, connected to its replay server and variable source."""
    role = make_role(experiment, topology, actor_index)
    spec = experiment.environment_spec()
    builder = experiment.builder()
    policy = builder.make_policy(experiment.make_networks(spec), spec, role)
    client = variables.VariableClient(
        variable_source,
        policy.variables,
        experiment.agent.variable_update_period,
        background=background,
    )
    adder = builder.make_adder(replay_address, spec, policy, role, control.wait)
    return workers.ActorWorker(
        environment=make_environments(experiment, topology, role),
        one=actor.PolicyActor(policy, spec, role.num_lanes, adder, client),
        adder=adder,
        control=control,
        logger=make_logger(experiment, run_dir, role.name),
        log_period_seconds=experiment.logging.period_seconds,
    )


def build_evaluator(
    experiment: experiment_lib.ExperimentConfig,
    topology: experiment_lib.Topology,
    variable_source: core.VariableSource,
    control: control_lib.NodeControl,
    run_dir: str | os.PathLike,
    index: int = 0,
) -> workers.EvaluatorWorker:
    """Returns one evaluator, connected to its variable source."""
    role = make_role(experiment, topology, index, evaluation=True)
    spec = experiment.environment_spec()
    builder = experiment.builder()
    networks = experiment.make_networks(spec)
    policy = builder.make_policy(networks, spec, role)
    client = variables.VariableClient(
        variable_source, policy.variables, update_period=1, background=False
    )
    config, recorder = experiment.logging, None
    periods = config.histogram_period_seconds, config.video_period_seconds
    if any(period is not None for period in periods):
        one_lane = dataclasses.replace(role, num_lanes=1)
        recorder = evaluation_recorder.EvaluationRecorder(
            experiment,
            builder.make_policy(networks, spec, one_lane),
            seeding.lane_seed(experiment.seed, one_lane, 0),
            run_folder.RunFolder(run_dir).tensorboard / role.name,
        )
    return workers.EvaluatorWorker(
        environment=make_environments(experiment, topology, role),
        one=actor.PolicyActor(policy, spec, role.num_lanes, None, client),
        client=client,
        control=control,
        logger=make_logger(experiment, run_dir, role.name),
        experiment=experiment,
        recorder=recorder,
    )
