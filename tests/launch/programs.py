"""Programs of small nodes without TensorFlow, and how tests watch them."""

import os
import pathlib
import subprocess
import sys
import time

import cloudpickle
import launchpad as lp

from repertory.launch import control as control_lib
from repertory.launch import nodes, progress

# The nodes' functions travel by value: a child cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def node_loop(role, coordinator, seconds_a_step=0.01):
    """A role that works until the run ends, and does its part of ending it."""
    with control_lib.NodeControl(role, coordinator) as control:
        while control.take_steps(1):
            control.count_steps(1)
            time.sleep(seconds_a_step)
        if role == 'learner':
            control.wait_until('save')
            pathlib.Path(os.environ['RUN_DIR'], 'saved').touch()
            control.done()
            control.wait_until('exit')
        control.done()


def failing(role, coordinator):
    with control_lib.NodeControl(role, coordinator) as control:
        other = 'actor_steps' if role == 'learner' else 'learner_steps'
        while not control.counts.get(other):  # The others run by now.
            time.sleep(0.05)
        raise ValueError(f'{role} is broken')


def make_program(
    run_dir,
    actor_steps=10**6,
    functions=None,
    patience=progress.STANDARD,
    forked=False,
):
    """coordinator, learner, actor_0 and actor_1, some with other functions."""
    os.environ['RUN_DIR'] = str(run_dir)
    roles = ['learner', 'actor_0', 'actor_1']
    made = lp.Program('test')
    node = lp.CourierNode(
        nodes.CoordinatorNode,
        progress.Budget(actor_steps=actor_steps),
        roles,
        str(run_dir),
        patience=patience,
    )
    node.role = 'coordinator'
    handle = made.add_node(node, label='coordinator')
    handle.set_client_kwargs(call_timeout=5)
    for role in roles:
        node = lp.PyNode((functions or {}).get(role, node_loop), role, handle)
        node.role, node.forked = role, forked
        made.add_node(node, label=role.partition('_')[0])
    return made


def wait_until_running(run_dir, seconds=60):
    def running():
        status = progress.read(run_dir / 'status.json')
        return status and not status['starting'] and status['phase'] == 'run'

    wait_for(running, seconds)


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, 'waited in vain'
        time.sleep(0.05)


def alive(pids):
    def is_alive(pid):
        try:
            state = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2]
        except FileNotFoundError:
            return False
        return state.split()[0] != 'Z'

    return [pid for pid in pids if is_alive(pid)]


def pids(run):
    return {node.name: node.pid for node in run.nodes}


def count(run_dir, name):
    return progress.read(run_dir / 'status.json')['counts'].get(name, 0)


def children(pid):
    for path in pathlib.Path('/proc').glob('[0-9]*/stat'):
        try:
            fields = path.read_text().rpartition(')')[2].split()
        except FileNotFoundError:
            continue
        if int(fields[1]) == pid:
            yield {'pid': path.parent.name}


def read(path):
    """Returns the bytes of a file, b'' if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b''


def start_script(code, folder):
    """Starts a process that runs `code` with `folder` as its argument."""
    root = str(pathlib.Path(__file__).parents[2])
    path = os.pathsep.join([root, os.environ.get('PYTHONPATH', '')])
    return subprocess.Popen(
        [sys.executable, '-c', code, str(folder)],
        env={**os.environ, 'PYTHONPATH': path},
    )
