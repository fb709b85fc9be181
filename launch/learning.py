"""Connects the learner's part, or that of one of several; see `wiring`."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from repertory.components import (
    checkpointing,
    collectives,
    core,
    joint_samples,
    loggers,
)
from repertory.launch import control as control_lib
from repertory.launch import experiment as experiment_lib
from repertory.launch import exporting, learner_worker, records, run_folder, wiring
from repertory.replay import datasets, prefetching, tables

_logger = logging.getLogger(__name__)


def build_learner(
    experiment: experiment_lib.ExperimentConfig,
    topology: experiment_lib.Topology,
    replay_addresses: Sequence[str],
    control: control_lib.NodeControl,
    run_dir: str | os.PathLike,
    resume: bool,
    background: bool = True,
    group: collectives.Group | None = None,
) -> learner_worker.LearnerWorker:
    """Returns the learner, connected to the replay servers, restored if resumed.

    With `group` it is the first of those that learn as one, and waits for the others.
    Without, of several, it learns nothing: the run ends.

    Raises:
        ValueError: if a checkpoint or a saved replay does not fit.
        collectives.PeerLostError: if another learner is gone, and the run goes on.
        TimeoutError: if another learner does not come.
    """

    def wait(reason: str, waited_seconds: float) -> None:
        worker.publish()  # Actors are not to wait for the next step to see the last.
        control.wait(reason, waited_seconds)

    taken = _Samples(experiment, topology, replay_addresses, wait, background, group)
    learner = taken.make_learner()
    folder = run_folder.RunFolder(run_dir)
    if resume:
        restore(learner, folder)
    learner_worker.join(learner, group, control)
    _show_config(experiment, folder)
    # An exported policy acts in any number of lanes.
    role = dataclasses.replace(
        wiring.make_role(experiment, topology, evaluation=True), num_lanes=1
    )
    evaluation = taken.builder.make_policy(taken.networks, taken.spec, role)
    worker = learner_worker.LearnerWorker(
        learner=learner,
        samples=taken.samples,
        updates_per_call=taken.updates_per_call,
        items_per_call=taken.items_per_call,
        save_policy=lambda: exporting.export_policy(
            folder.policy,
            evaluation,
            taken.spec,
            metadata=exporting.describe(experiment),
        ),
        replay_addresses=replay_addresses,
        control=control,
        logger=wiring.make_logger(experiment, run_dir, 'learner'),
        folder=folder,
        experiment=experiment,
        joint=taken.joint,
    )
    return worker


def build_follower(
    experiment: experiment_lib.ExperimentConfig,
    topology: experiment_lib.Topology,
    replay_addresses: Sequence[str],
    control: control_lib.NodeControl,
    group: collectives.Group,
) -> learner_worker.Follower:
    """Returns a learner of `group` after the first; waits for the others.

    Raises:
        collectives.PeerLostError: if another learner is gone, and the run goes on.
        TimeoutError: if another learner does not come.
    """
    taken = _Samples(experiment, topology, replay_addresses, control.wait, True, group)
    learner = taken.make_learner()
    learner_worker.join(learner, group, control)
    return learner_worker.Follower(learner, taken.samples, control)


class _Samples:
    """What a learner samples, and the networks that are to learn from it."""

    def __init__(
        self,
        experiment: experiment_lib.ExperimentConfig,
        topology: experiment_lib.Topology,
        replay_addresses: Sequence[str],
        wait: core.Wait,
        background: bool,
        group: collectives.Group | None,
    ):
        # Ranks draw apart what a loss draws; `join` gives them the same networks.
        seed = experiment.seed
        if group is not None and group.rank:
            seed = int(np.random.SeedSequence((seed, group.rank)).generate_state(1)[0])
        tf.random.set_seed(seed)
        self._addresses = replay_addresses
        self._experiment = experiment
        self.spec = experiment.environment_spec()
        self.builder = experiment.builder()
        self.networks = experiment.make_networks(self.spec)
        role = wiring.make_role(experiment, topology)
        policy = self.builder.make_policy(self.networks, self.spec, role)
        share = experiment.agent.share(topology.num_learners).make_builder()
        dataset = share.make_dataset(
            replay_addresses, self.spec, policy, role.num_lanes, background
        )
        shape = dataset.element_spec.info.key.shape
        self.updates_per_call = shape[0]
        self.items_per_call = shape.num_elements() * topology.num_learners
        for table in self.builder.make_table_specs(self.spec, policy, role.num_lanes):
            tables.check_batch(table, self.items_per_call)
        self.samples = (
            prefetching.Prefetcher(
                dataset, wait, datasets.describe_wait(replay_addresses)
            )
            if background
            else iter(dataset)
        )
        self.joint = None
        if group is not None:
            self.joint = joint_samples.JointSamples(
                self.samples, group, self.updates_per_call, wait
            )

    def make_learner(self) -> core.Learner:
        return self.builder.make_learner(
            self.networks,
            self._experiment.make_networks(self.spec),
            self.spec,
            self.samples if self.joint is None else self.joint,
            self._addresses,
        )


def _show_config(
    experiment: experiment_lib.ExperimentConfig, folder: run_folder.RunFolder
) -> None:
    if experiment.logging.tensorboard:
        with loggers.TensorBoardLogger(folder.tensorboard / 'learner') as texts:
            texts.write_text('config', records.as_markdown(experiment))


def restore(learner: core.Learner, folder: run_folder.RunFolder) -> None:
    """Restores the newest whole checkpoint, and says which."""
    path = checkpointing.latest(folder.checkpoints)
    if path is None:
        _logger.warning('Resume: no checkpoint in %s; begins anew.', folder.checkpoints)
        return
    checkpoint = checkpointing.load(path)
    learner.restore(checkpoint.arrays)
    _logger.info('Resume: restored learner step %d from %s.', learner.steps, path)
