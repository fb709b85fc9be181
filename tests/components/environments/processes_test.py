from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tree

from repertory.components import core
from repertory.components.environments import (
    catch,
    processes,
    registry,
    seeding,
    vector,
)
from tests import fakes

pytestmark = pytest.mark.timeout(120)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f'/proc/{pid}/stat') as file:
        return file.read().rpartition(')')[2].split()[0] != 'Z'


def wait_until_gone(pids, seconds=10):
    deadline = time.monotonic() + seconds
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline, f'still there: {pids}'
        time.sleep(0.01)


def worker_pids(environment):
    return [worker._process.pid for worker in environment._workers]


@pytest.mark.parametrize('kind', ['catch', 'nested'])
def test_processes_give_the_same_steps_as_one_thread(kind):
    if kind == 'catch':
        role = core.Role(num_lanes=3)
        factory = functools.partial(registry.make_environment, 'catch')
        factories = seeding.lane_factories(factory, 5, role)
    else:
        factories = [
            functools.partial(fakes.NestedEnvironment, seed, 2 + seed)
            for seed in range(3)
        ]
    random = np.random.default_rng(0)
    serial = vector.SerialVectorEnvironment([make() for make in factories])
    parallel = processes.ProcessVectorEnvironment(factories, workers=2)
    try:
        # dm_env's specs are equal if shape, dtype, bounds and structure are.
        assert parallel.spec == serial.spec
        expected, actual = [serial.reset()], [parallel.reset()]
        for _ in range(25):
            if kind == 'catch':
                action = random.integers(3, size=3, dtype=np.int32)
            else:
                push = random.uniform(-1, 1, (3, 1)).astype(np.float32)
                action = {'push': push, 'jump': random.integers(2, size=3)}
            expected.append(serial.step(action))
            actual.append(parallel.step(action))
        # Compared at the end: later steps must not have written to earlier arrays.
        tree.map_structure(np.testing.assert_array_equal, actual, expected)
        dtypes = [
            tree.map_structure(lambda leaf: leaf.dtype, steps)
            for steps in (actual, expected)
        ]
        assert dtypes[0] == dtypes[1]
    finally:
        parallel.close()


class Unclosable(fakes.ScriptedEnvironment):
    def close(self):
        raise OSError('motor')


def test_what_close_raises_is_told_by_the_worker(capfd):
    def make():
        return Unclosable([(1,)], False)

    environment = processes.ProcessVectorEnvironment([make, make], workers=1)
    environment.reset()
    environment.close()
    told = capfd.readouterr().err
    assert 'OSError: motor' in told
    assert 'BrokenPipe' not in told


def test_close_ends_the_workers_and_may_be_called_twice():
    environment = processes.ProcessVectorEnvironment(
        [functools.partial(catch.Catch, lane) for lane in range(2)], workers=2
    )
    pids = worker_pids(environment)
    environment.close()
    environment.close()
    assert len(pids) == 2
    assert not any(map(is_alive, pids))
    with pytest.raises(RuntimeError, match='before close'):
        environment.reset()


class Fragile(fakes.ScriptedEnvironment):
    """Does something bad at the second step."""

    def __init__(self, deed):
        super().__init__([(1,) * 10], False)
        self._deed = deed

    def _advance(self, action):
        if self._step == 1:
            self._deed()
        return super()._advance(action)


def raise_error():
    raise LookupError('the gripper slipped')


@pytest.mark.parametrize(
    ('deed', 'error', 'message'),
    [
        (raise_error, RuntimeError, r'(?s)lanes 1 to 1.*in raise_error.*gripper slip'),
        (functools.partial(os._exit, 7), RuntimeError, 'died with exit code 7'),
        (functools.partial(time.sleep, 60), TimeoutError, 'answer within 1 s.*hanging'),
    ],
)
def test_a_failing_worker_is_reported_and_all_are_ended(deed, error, message):
    environment = processes.ProcessVectorEnvironment(
        [functools.partial(Fragile, int), functools.partial(Fragile, deed)], workers=2
    )
    pids = worker_pids(environment)
    environment._timeout_seconds = 1
    action = np.zeros(2, np.int32)
    environment.reset()
    environment.step(action)
    with pytest.raises(error, match=message):
        environment.step(action)
    wait_until_gone(pids)


def test_values_that_are_not_finite_are_named_with_their_lane():
    environment = processes.ProcessVectorEnvironment(
        [functools.partial(fakes.NaNEnvironment, at) for at in (5, 1)], workers=2
    )
    environment.reset()
    with pytest.raises(FloatingPointError, match='observation of lane 1 must be fin'):
        environment.step(np.zeros(2, np.int32))


def test_an_environment_that_cannot_be_made_is_reported():
    factory = functools.partial(registry.make_environment, 'cattch', 0)
    with pytest.raises(RuntimeError, match='did you mean catch'):
        processes.ProcessVectorEnvironment([factory])


def test_an_action_unlike_its_spec_is_refused():
    environment = processes.ProcessVectorEnvironment(
        [functools.partial(catch.Catch, 0)]
    )
    try:
        environment.reset()
        with pytest.raises(ValueError, match=r'action must be int32\[\].*int64\[1\]'):
            environment.step(np.zeros(1, np.int64))
    finally:
        environment.close()


def test_lanes_of_different_specs_are_refused():
    factories = [functools.partial(catch.Catch, 0, 10, columns) for columns in (5, 6)]
    with pytest.raises(ValueError, match='factories must make environments of the sa'):
        processes.ProcessVectorEnvironment(factories, workers=2)


def test_impossible_numbers_are_refused():
    with pytest.raises(ValueError, match='factories must hold one at least'):
        processes.ProcessVectorEnvironment([])
    with pytest.raises(ValueError, match='workers must be >= 1, got 0'):
        processes.ProcessVectorEnvironment([int], workers=0)


_PARENT = """
import functools, sys, time
from repertory.components.environments import catch, processes
environment = processes.ProcessVectorEnvironment(
    [functools.partial(catch.Catch, lane) for lane in range(2)], workers=2)
print(*[worker._process.pid for worker in environment._workers], flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize('how', [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent(how):
    parent = subprocess.Popen(
        [sys.executable, '-c', _PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    parent.send_signal(how)
    parent.wait()
    wait_until_gone(pids)


def test_workers_import_no_tensorflow():
    code = (
        'import sys; import repertory.components.environments.worker; '
        "print('tensorflow' in sys.modules)"
    )
    output = subprocess.check_output([sys.executable, '-c', code], text=True)
    assert output.strip() == 'False'


def test_a_step_that_is_begun_is_ended_before_the_next_or_closed():
    factories = [functools.partial(catch.Catch, seed=seed) for seed in range(2)]
    environment = processes.ProcessVectorEnvironment(factories, workers=1)
    with environment:
        pids = worker_pids(environment)
        environment.reset()
        action = np.zeros(2, np.int32)
        environment.begin_step(action)
        with pytest.raises(RuntimeError, match='got another call'):
            environment.reset()
        assert (environment.end_step().step_type == 1).all()
        environment.begin_step(action)
    wait_until_gone(pids)
    with pytest.raises(RuntimeError, match='got end_step without one'):
        environment.end_step()
