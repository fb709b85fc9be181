"""Many environments in lockstep, in processes of their own."""

from __future__ import annotations

import contextlib
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import connection
from typing import NamedTuple

import cloudpickle
import dm_env
import numpy as np
import tree

from repertory.components import core, specs, types

_START_SECONDS = 120.0
_CLOSE_SECONDS = 2.0
_ALIGNMENT = 64  # bytes, so that workers share no cache line


class ProcessVectorEnvironment(core.VectorEnvironment):
    """Steps lanes in worker processes; for environments that take 100 us and more.

    Workers are fresh interpreters, import no TensorFlow, and end with the thread that
    made them. Steps pass through shared memory without a name, so that nothing can be
    left behind. What the environments return is checked as in
    `vector.SerialVectorEnvironment`.

    Args:
        factories: one a lane, each making one environment; pickled by cloudpickle.
        workers: processes, at most one a lane; the number of usable CPUs if None.
        timeout_seconds: for one step of all lanes.

    Raises:
        ValueError: if there is no factory or `workers` is less than 1.
        RuntimeError: if an environment raises or its process dies, with its
            traceback; FloatingPointError if that is what it raised.
        TimeoutError: if a worker takes longer than it may.
    """

    def __init__(
        self,
        factories: Sequence[Callable[[], dm_env.Environment]],
        workers: int | None = None,
        timeout_seconds: float = 60.0,
    ):
        if not factories:
            raise ValueError('factories must hold one at least, got none.')
        if workers is not None and workers < 1:
            raise ValueError(f'workers must be >= 1, got {workers}.')
        self.num_lanes = len(factories)
        num_workers = min(workers or len(os.sched_getaffinity(0)), self.num_lanes)
        bounds = np.linspace(0, self.num_lanes, num_workers + 1).round().astype(int)
        self._timeout_seconds = timeout_seconds
        self._workers: list[_Worker] = []
        self._memory = os.memfd_create('repertory-lanes')
        try:
            for first, end in zip(bounds[:-1].tolist(), bounds[1:].tolist()):
                self._workers.append(_Worker(self._memory, first, factories[first:end]))
            all_specs = [self._receive(one, _START_SECONDS) for one in self._workers]
            self.spec = all_specs[0]
            self._check_specs(all_specs)
            self._layout = Layout(self.spec, self.num_lanes)
            os.ftruncate(self._memory, self._layout.num_bytes)
            self._views = self._layout.map(self._memory)
            for worker in self._workers:
                worker.send((self.spec, self.num_lanes))
            for worker in self._workers:
                self._receive(worker, _START_SECONDS)
        except BaseException:
            self.close()
            raise

    def reset(self) -> types.TimeStep:
        self._command(b'r')
        return self.end_step()

    def step(self, action: types.Nest) -> types.TimeStep:
        self.begin_step(action)
        return self.end_step()

    def begin_step(self, action: types.Nest) -> bool:
        self._refuse_if_begun()  # Before its actions are overwritten.
        tree.assert_same_structure(self.spec.actions, action)
        for view, leaf in zip(self._views.action, tree.flatten(action)):
            leaf = np.asarray(leaf)
            if leaf.shape != view.shape or leaf.dtype != view.dtype:
                raise ValueError(
                    f'action must be {specs.describe(self.spec.actions)} for each of '
                    f'{self.num_lanes} lanes, got {leaf.dtype.name}'
                    f'{list(leaf.shape)}, lanes first.'
                )
            view[...] = leaf
        self._command(b's')
        return True

    def end_step(self) -> types.TimeStep:
        self._note_begun(False)
        for worker in self._workers:
            self._receive(worker, self._timeout_seconds)
        views = self._views
        return types.TimeStep(
            views.step_type.copy(),
            views.reward.copy(),
            views.discount.copy(),
            tree.unflatten_as(
                self.spec.observations, [view.copy() for view in views.observation]
            ),
        )

    def close(self) -> None:
        for worker in self._workers:
            worker.ask_to_end()
        deadline = time.monotonic() + _CLOSE_SECONDS
        for worker in self._workers:
            worker.end(deadline)
        self._workers = []
        self._begun = False
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1

    def _command(self, command: bytes) -> None:
        if not self._workers:
            raise RuntimeError('reset and step must be called before close.')
        self._note_begun(True)
        for worker in self._workers:
            worker.send_bytes(command)

    def _receive(self, worker: _Worker, timeout_seconds: float):
        try:
            return worker.receive(timeout_seconds)
        except BaseException:
            self.close()  # lanes are out of step with each other now.
            raise

    def _check_specs(self, all_specs: Sequence[specs.EnvironmentSpec]) -> None:
        for other in all_specs[1:]:
            if other != self.spec:
                raise ValueError(
                    'factories must make environments of the same specs, got '
                    f'{other} and {self.spec}.'
                )


class Views(NamedTuple):
    """Arrays in shared memory; nests are flat lists of leaves."""

    step_type: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    observation: list[np.ndarray]
    action: list[np.ndarray]


class Layout:
    """Where in the shared memory each array of all lanes lies."""

    def __init__(self, spec: specs.EnvironmentSpec, num_lanes: int):
        observations = tree.flatten(spec.observations)
        self._num_observations = len(observations)
        leaves = [(np.dtype(np.uint8), ())] + 2 * [(np.dtype(np.float32), ())]
        leaves += [
            (leaf.dtype, leaf.shape)
            for leaf in observations + tree.flatten(spec.actions)
        ]
        self._entries = []
        offset = 0
        for dtype, lane_shape in leaves:
            shape = (num_lanes, *lane_shape)
            self._entries.append((offset, dtype, shape))
            size = dtype.itemsize * int(np.prod(shape, dtype=int))
            offset += -(-size // _ALIGNMENT) * _ALIGNMENT
        self.num_bytes = offset

    def map(self, file_descriptor: int) -> Views:
        """Returns arrays over the memory, which lives as long as they do."""
        memory = mmap.mmap(file_descriptor, self.num_bytes)
        arrays: list[np.ndarray] = [
            np.ndarray(shape, dtype, buffer=memory, offset=offset)
            for offset, dtype, shape in self._entries
        ]
        first_action = 3 + self._num_observations
        step_type, reward, discount = arrays[:3]
        return Views(
            step_type, reward, discount, arrays[3:first_action], arrays[first_action:]
        )


class _Worker:
    """One process, seen from its parent."""

    def __init__(self, memory: int, first_lane: int, factories: Sequence[Callable]):
        self._lanes = f'{first_lane} to {first_lane + len(factories) - 1}'
        setup = cloudpickle.dumps((factories, first_lane))
        self._pipe, theirs = connection.Pipe()
        with contextlib.closing(theirs):
            self._process = subprocess.Popen(
                [
                    *[sys.executable, '-m', _WORKER_MODULE],
                    *[str(theirs.fileno()), str(memory), str(os.getpid())],
                ],
                pass_fds=(theirs.fileno(), memory),
                stdin=subprocess.DEVNULL,
                env={
                    'OMP_NUM_THREADS': '1',  # there is a worker for each CPU already.
                    **os.environ,
                    # User code is found where this process finds it.
                    'PYTHONPATH': os.pathsep.join(filter(None, sys.path)),
                },
            )
        self.send_bytes(setup)

    def send(self, message) -> None:
        with contextlib.suppress(OSError):  # it died: `receive` says how.
            self._pipe.send(message)

    def send_bytes(self, message: bytes) -> None:
        with contextlib.suppress(OSError):
            self._pipe.send_bytes(message)

    def receive(self, timeout_seconds: float):
        """Returns the next message; raises what the worker or its death says."""
        who = f'environment worker {self._process.pid} (lanes {self._lanes})'
        try:
            if not self._pipe.poll(timeout_seconds):
                raise TimeoutError(
                    f'{who} must answer within {timeout_seconds:g} s, and has not; '
                    'is an environment hanging?'
                )
            failure, value = self._pipe.recv()
        except (EOFError, ConnectionError) as error:
            code = self._process.wait()
            raise RuntimeError(f'{who} died with exit code {code}.') from error
        if failure is None:
            return value
        raise failure(f'{who} failed:\n{value}')

    def ask_to_end(self) -> None:
        self._pipe.close()

    def end(self, deadline: float) -> None:
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_WORKER_MODULE = 'repertory.components.environments.worker'
