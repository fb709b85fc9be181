"""An experiment and a topology as a Launchpad program.

Each node's function runs in the node's own process, and builds there what
`launch/wiring.py` says. The program is an ordinary one: nodes may be added to it, and
`launcher.launch` or `lp.launch` runs it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import threading
import time
from collections.abc import Sequence
from concurrent import futures
from typing import Any

import launchpad as lp
from launchpad import context

from repertory.components import checkpointing, core
from repertory.launch import control as control_lib
from repertory.launch import coordinator as coordinator_lib
from repertory.launch import experiment, run_folder

_CALL_SECONDS = 10.0
_GIVE_UP_SECONDS = 120.0
_TICK_SECONDS = 0.1
_REPLAY_REPORT_SECONDS = 1.0


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What every node is told."""

    experiment: experiment.ExperimentConfig
    topology: experiment.Topology
    run_dir: str
    resume: bool


def make_program(
    config: experiment.ExperimentConfig,
    topology: experiment.Topology,
    run_dir: str | os.PathLike,
    resume: bool = False,
) -> lp.Program:
    """Returns the program; nothing runs yet.

    Its groups are coordinator, replay, learner, actor and evaluator; with
    `topology.replay == 'learner'` the learner's node serves replay too.

    Args:
        config: what is run.
        topology: how many nodes of each kind.
        run_dir: takes checkpoints, logs and the status; must exist.
        resume: whether to continue from the newest checkpoint in `run_dir`.

    Raises:
        ValueError: if the experiment and the topology do not fit each other.
    """
    experiment.check_together(config, topology)
    plan = _Plan(config, topology, str(pathlib.Path(run_dir).absolute()), resume)
    program = lp.Program(config.environment_name)
    replay_roles = [f'replay_{i}' for i in range(topology.replay_shards)]
    addresses = [lp.Address() for _ in replay_roles]

    counter = lp.CourierNode(_CoordinatorNode, plan)
    counter.role = 'coordinator'
    coordinator_handle = program.add_node(counter, label='coordinator')
    coordinator_handle.set_client_kwargs(call_timeout=_CALL_SECONDS)

    if topology.replay == 'separate':
        for role, address in zip(replay_roles, addresses, strict=True):
            node = lp.PyNode(_run_replay, plan, role, address, coordinator_handle)
            node.role = role
            address.assign(node)
            program.add_node(node, label='replay')

    learner = lp.CourierNode(_LearnerNode, plan, addresses, coordinator_handle)
    learner.role = 'learner'
    if topology.replay == 'learner':
        for address in addresses:
            address.assign(learner)
    learner_handle = program.add_node(learner, label='learner')
    learner_handle.set_client_kwargs(call_timeout=_CALL_SECONDS)

    for index in range(topology.num_actors):
        address = addresses[index % len(addresses)]
        node = lp.PyNode(
            _run_actor, plan, index, address, learner_handle, coordinator_handle
        )
        node.role = core.Role(actor_index=index).name
        program.add_node(node, label='actor')
    if topology.evaluators:
        node = lp.PyNode(_run_evaluator, plan, learner_handle, coordinator_handle)
        node.role = 'evaluator'
        program.add_node(node, label='evaluator')
    return program


def process_environments(topology: experiment.Topology) -> dict[str, dict[str, str]]:
    """Returns the environment variables for the processes of each group.

    Actors and evaluators use one thread each, or they would fight for the cores; the
    GPU is hidden from all groups but `topology.gpu_groups`.
    """
    hidden = {'CUDA_VISIBLE_DEVICES': '-1'}
    single = {
        name: '1'
        for name in (
            'OMP_NUM_THREADS',
            'TF_NUM_INTRAOP_THREADS',
            'TF_NUM_INTEROP_THREADS',
        )
    }
    environments = {
        'coordinator': {**hidden, **single},
        'replay': hidden,
        'learner': hidden,
        'actor': {**hidden, **single},
        'evaluator': {**hidden, **single},
    }
    for group in topology.gpu_groups:
        environments[group] = {
            name: value
            for name, value in environments[group].items()
            if name not in hidden
        }
    return environments


class _CoordinatorNode:
    """Serves a coordinator, whose methods are Courier's, and runs its clock."""

    def __init__(self, plan: _Plan):
        config, topology = plan.experiment, plan.topology
        roles = [f'actor_{i}' for i in range(topology.num_actors)] + ['learner']
        roles += [f'replay_{i}' for i in range(topology.replay_shards)]
        roles += ['evaluator'] * topology.evaluators
        self._coordinator = coordinator_lib.Coordinator(
            coordinator_lib.budget_of(config),
            roles,
            run_folder.RunFolder(plan.run_dir).status,
            coordinator_lib.Patience(),
        )
        if plan.resume:
            self._coordinator.restore(_saved_counts(plan.run_dir))
        # Courier serves what has a public name.
        self.heartbeat = self._coordinator.heartbeat
        self.request_stop = self._coordinator.request_stop
        self.lose = self._coordinator.lose
        self.status = self._coordinator.status

    def run(self) -> None:
        while not self._coordinator.finished:
            if lp.stop_event().is_set():
                self._coordinator.request_stop('the node was asked to stop')
            self._coordinator.tick()
            time.sleep(_TICK_SECONDS)
        self._coordinator.write_status()
        if self._coordinator.failure:
            raise RuntimeError(self._coordinator.failure)


def _saved_counts(run_dir: str) -> dict[str, float]:
    """Returns the counts that the newest checkpoint was written with."""
    path = checkpointing.latest(run_folder.RunFolder(run_dir).checkpoints)
    return {} if path is None else checkpointing.load(path).metadata['counts']


class _Replay:
    """One replay server, and the reports about it."""

    def __init__(self, plan: _Plan, role: str, address: str, coordinator: Any):
        from repertory.launch import wiring

        self._control = control_lib.NodeControl(role, coordinator)
        self._server = wiring.build_replay(
            plan.experiment,
            plan.topology,
            lp.get_port_from_address(address),
            plan.run_dir,
            plan.resume,
            shard=int(role.rpartition('_')[2]),
        )

    def run(self) -> None:
        """Reports until the run is over."""
        with self._control, self._server:
            while not self._control.wait_until('exit', _REPLAY_REPORT_SECONDS):
                # The first table is the one that actors write to.
                table = self._server.statistics()[0]
                self._control.report(
                    {
                        'size': table.size,
                        'max_size': table.max_size,
                        'samples_per_insert': table.measured_samples_per_insert,
                        'samples_per_insert_asked': table.samples_per_insert,
                        'waits_for': table.waits_for,
                    }
                )


def _run_replay(plan: _Plan, role: str, address: lp.Address, coordinator: Any) -> None:
    _configure('replay')
    _Replay(plan, role, address.resolve(), coordinator).run()


class _LearnerNode:
    """Serves the parameters, and replay too if that is to be here."""

    def __init__(self, plan: _Plan, addresses: Sequence[lp.Address], coordinator: Any):
        _configure('learner')
        from repertory.launch import wiring

        resolved = [address.resolve() for address in addresses]
        self._replays = []
        if plan.topology.replay == 'learner':
            self._replays = [
                _Replay(plan, f'replay_{index}', address, coordinator)
                for index, address in enumerate(resolved)
            ]
        self._control = control_lib.NodeControl('learner', coordinator)
        self._worker = wiring.build_learner(
            plan.experiment,
            plan.topology,
            resolved,
            self._control,
            plan.run_dir,
            plan.resume,
        )
        self.get_variables = self._worker.get_variables

    def run(self) -> None:
        threads = [threading.Thread(target=replay.run) for replay in self._replays]
        for thread in threads:
            thread.daemon = True
            thread.start()
        with self._control:
            self._worker.run()
        for thread in threads:
            thread.join()


class _RemoteVariables(core.VariableSource):
    """The learner's parameters over Courier; waits politely while it starts."""

    def __init__(self, client: lp.CourierClient, control: control_lib.NodeControl):
        self._client = client
        self._control = control

    def get_variables(self):
        begin = time.monotonic()
        future = self._client.futures.get_variables()
        while True:
            waited = time.monotonic() - begin
            try:
                return future.result(timeout=1.0)
            except futures.TimeoutError:
                pass
            except Exception:  # Courier's own type: the call's time is over.
                if waited > _GIVE_UP_SECONDS:
                    raise
                future = self._client.futures.get_variables()
            if self._control.phase != 'final_evaluation':
                self._control.wait('parameters from the learner', waited)


def _run_actor(
    plan: _Plan, index: int, address: lp.Address, learner: Any, coordinator: Any
) -> None:
    _configure('actor')
    from repertory.launch import wiring

    role = core.Role(actor_index=index).name
    with control_lib.NodeControl(role, coordinator) as control:
        with contextlib.suppress(core.Stopped):
            wiring.build_actor(
                plan.experiment,
                plan.topology,
                index,
                address.resolve(),
                _RemoteVariables(learner, control),
                control,
                plan.run_dir,
            ).run()
        control.done()


def _run_evaluator(plan: _Plan, learner: Any, coordinator: Any) -> None:
    _configure('evaluator')
    from repertory.launch import wiring

    with control_lib.NodeControl('evaluator', coordinator) as control:
        with contextlib.suppress(core.Stopped):
            wiring.build_evaluator(
                plan.experiment,
                plan.topology,
                _RemoteVariables(learner, control),
                control,
                plan.run_dir,
            ).run()
        control.done()


def _configure(group: str) -> None:
    """Sets TensorFlow up where the process is the node's own."""
    launch_type = context.get_context().launch_type
    if launch_type is lp.LaunchType.LOCAL_MULTI_PROCESSING:
        from repertory.launch import wiring

        wiring.configure_process(group)
