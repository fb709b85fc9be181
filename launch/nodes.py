"""What each node of a program does, in its own process.

TensorFlow is imported in the functions: the process that makes the program, and the
coordinator's, do without.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import queue
import threading
import time
import traceback
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import launchpad as lp
from launchpad import context

from repertory.components import checkpointing, core
from repertory.launch import channels, entry, progress, provenance, remote, run_folder
from repertory.launch import control as control_lib
from repertory.launch import coordinator as coordinator_lib
from repertory.launch import experiment as experiment_lib

if TYPE_CHECKING:
    from repertory.launch import workers

_TICK_SECONDS = 0.1
_LINGER_SECONDS = 0.3
_REPORT_SECONDS = 1.0
_LAST_REPORT_SECONDS = 0.1


@dataclasses.dataclass(frozen=True)
class Plan:
    """What every node is told."""

    experiment: experiment_lib.ExperimentConfig
    topology: experiment_lib.Topology
    run_dir: str
    resume: bool

    @property
    def resumes(self) -> bool:
        """Whether this node continues from a checkpoint: also after its restart."""
        return self.resume or entry.attempt() > 0


class CoordinatorNode:
    """Serves a coordinator, whose methods are Courier's, and runs its clock."""

    def __init__(
        self,
        budget: progress.Budget,
        roles: Sequence[str],
        run_dir: str,
        resume: bool = False,
        patience: progress.Patience = progress.STANDARD,
    ):
        """Makes the coordinator; it continues from a checkpoint in `run_dir`, if so."""
        folder = run_folder.RunFolder(run_dir)
        self._coordinator = coordinator_lib.Coordinator(
            budget, roles, folder.status, patience
        )
        saved = checkpointing.latest(folder.checkpoints) if resume else None
        if entry.attempt() and (status := progress.read(folder.status)):
            self._coordinator.continue_from(status)
        elif saved is not None:
            counts = checkpointing.load(saved).metadata['counts']
            self._coordinator.restore(counts)
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
        entry.send_event(over=True)  # This end is no failure to be restarted after.
        time.sleep(_LINGER_SECONDS)  # For the answers that are on their way.
        if self._coordinator.failure:
            raise RuntimeError(self._coordinator.failure)


class Replay:
    """One replay server, and the reports about it."""

    def __init__(self, plan: Plan, role: str, address: str, coordinator: Any):
        from repertory.launch import wiring

        self._coordinator = coordinator
        self._control = make_control(role, coordinator)
        self._server = wiring.build_replay(
            plan.experiment,
            plan.topology,
            lp.get_port_from_address(address),
            plan.run_dir,
            plan.resumes,
            shard=int(role.rpartition('_')[2]),
        )

    def run(self) -> None:
        """Reports until the run is over."""
        with self._control, self._server:
            while not self._is_over():
                # The first table is the one that actors write to.
                table = self._server.statistics()[0]
                self._control.report(
                    {
                        'size': table.size,
                        'max_size': table.max_size,
                        'samples_per_insert': table.measured_samples_per_insert,
                        'samples_per_insert_asked': table.samples_per_insert,
                        'waits_for': table.waits_for,
                        'memory_gib': provenance.resident_gib(),
                    }
                )

    def _is_over(self) -> bool:
        """Returns when it is time for a report: more often at the end, for the last."""
        ends = self._control.wait_until('drain', _REPORT_SECONDS)
        return ends and self._control.wait_until('exit', _LAST_REPORT_SECONDS)

    def run_in_thread(self) -> None:
        """Reports until the run is over; ends it if that fails."""
        try:
            self.run()
        except Exception as error:
            # In a thread nobody else would see it.
            traceback.print_exc()
            self._coordinator.lose(self._control.role, repr(error))


def run_replay(plan: Plan, role: str, address: lp.Address, coordinator: Any) -> None:
    configure('replay', plan)
    Replay(plan, role, address.resolve(), coordinator).run()


class InferenceNode:
    """Serves actions for the actors, which have no parameters of their own."""

    def __init__(self, plan: Plan, learner: Any, coordinator: Any):
        configure('inference', plan)
        from repertory.launch import central

        self._control = make_control('inference', coordinator)
        self._near = channels.Server(self._act)
        self._server = central.build_inference(
            plan.experiment,
            plan.topology,
            remote.RemoteVariables(learner, self._control),
            self._near.loop,
        )

    def channel(self) -> str:
        """Returns where `act` can be called on this machine, without Courier."""
        return self._near.name

    def act(self, packed: bytes) -> bytes:
        """Returns what `InferenceServer.act` does, pickled like its arguments."""
        return self._near.call(packed)

    async def _act(self, packed: bytes) -> bytes:
        answer = await self._server.act(*pickle.loads(packed))
        return pickle.dumps(answer, protocol=5)

    def run(self) -> None:
        """Reports until the run is over."""
        with self._control, self._near:
            with contextlib.suppress(core.Stopped), self._server:
                self._serve()
            self._control.wait_until('exit')

    def _serve(self) -> None:
        self._server.start()
        before = self._server.statistics()
        # Actors are done with it once the learner saves.
        while not self._control.wait_until('save', _REPORT_SECONDS):
            now = self._server.statistics()
            batches, lanes = now.batches - before.batches, now.lanes - before.lanes
            before = now
            if batches:
                self._control.report({'mean_batch': lanes / batches})


def run_actors(
    plan: Plan,
    addresses: Mapping[int, lp.Address],
    learner: Any,
    coordinator: Any,
    inference: Any,
) -> None:
    """Runs an actor for each index, in a thread each, with the replay at its address.

    With `inference` they have no parameters, and ask there.

    Raises:
        Exception: what the first that fails raises, at once: the process is to end.
    """
    configure('actor', plan)
    from repertory.launch import central, wiring

    ended: queue.Queue[BaseException | None] = queue.Queue()

    def make(index: int, control: control_lib.NodeControl) -> workers.ActorWorker:
        where = addresses[index].resolve(), control, plan.run_dir
        if inference is None:
            source = remote.RemoteVariables(learner, control)
            return wiring.build_actor(
                plan.experiment, plan.topology, index, source, *where
            )
        run = uuid.uuid4().hex
        near = channels.Client(inference)
        ask = remote.RemoteInference(near, control, index, run)
        return central.build_remote_actor(
            plan.experiment, plan.topology, index, ask, *where
        )

    def run(index: int, control: control_lib.NodeControl) -> None:
        try:
            with control:
                with contextlib.suppress(core.Stopped):
                    make(index, control).run()
                control.done()
        except BaseException as error:
            ended.put(error)
        else:
            ended.put(None)

    for index in addresses:
        # Here, since Launchpad knows only this thread.
        control = make_control(core.Role(actor_index=index).name, coordinator)
        threading.Thread(target=run, args=(index, control), daemon=True).start()
    for _ in addresses:
        error = ended.get()
        if error is not None:
            raise error


def run_evaluator(plan: Plan, index: int, learner: Any, coordinator: Any) -> None:
    configure('evaluator', plan)
    from repertory.launch import wiring

    role = core.Role(actor_index=index, evaluation=True).name
    with make_control(role, coordinator) as control:
        with contextlib.suppress(core.Stopped):
            wiring.build_evaluator(
                plan.experiment,
                plan.topology,
                remote.RemoteVariables(learner, control),
                control,
                plan.run_dir,
                index,
            ).run()
        control.done()


def make_control(role: str, coordinator: Any) -> control_lib.NodeControl:
    """Returns the control of a role of this node; to be called in its own thread."""
    # Of this thread: where nodes are threads, each has an event of its own.
    asked = lp.stop_event()
    return control_lib.NodeControl(role, coordinator, asked_to_stop=asked.is_set)


def configure(group: str, plan: Plan, rank: int | None = None) -> None:
    """Sets TensorFlow up where the process is the node's own."""
    launch_type = context.get_context().launch_type
    if launch_type is lp.LaunchType.LOCAL_MULTI_PROCESSING:
        entry.import_for_good('repertory.launch.wiring')
        from repertory.launch import wiring

        wiring.configure_process(group, plan.experiment, rank)
