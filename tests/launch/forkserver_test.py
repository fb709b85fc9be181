"""Forked nodes are like fresh interpreters, and start as such where need be."""

import json
import logging
import os
import pathlib
import random
import signal
import socket
import sys
import tempfile
import time

import launchpad as lp
import numpy as np
import pytest

from repertory.launch import binding, forkserver, launcher, restarts
from tests.launch import programs


def make_program(*functions):
    """A node of each function; their names are one_0, one_1 ..."""
    made = lp.Program('forked')
    for function in functions:
        node = lp.PyNode(function)
        node.forked = True
        made.add_node(node, label='one')
    return made


def describe(path):
    """Writes what a node sees of itself."""

    def node():
        print('said by', path.name)
        seen = {
            'pid': os.getpid(),
            'parent': os.getppid(),
            'session': os.getsid(0),
            'arguments': pathlib.Path('/proc/self/cmdline').read_text(),
            'shown': pathlib.Path('/proc/self/environ').read_text().split('\0'),
            'has_tensorflow': 'tensorflow' in sys.modules,
            'spare': sorted(name for name in os.environ if 'SPARE' in name),
            'threads': os.environ.get('OMP_NUM_THREADS'),
            'group': os.environ['GROUP'],
            'folder': [tempfile.gettempdir(), os.environ['TMPDIR']],
            'random': [random.random(), float(np.random.uniform())],
            'handlers': len(logging.getLogger().handlers),
        }
        path.write_text(json.dumps(seen))

    return node


def test_forked_nodes_are_like_fresh_interpreters(tmp_path, monkeypatch):
    monkeypatch.delenv('OMP_NUM_THREADS', raising=False)
    paths = [tmp_path / 'a', tmp_path / 'b']
    made = make_program(*map(describe, paths))
    environments = {'one': {'GROUP': 'mine'}}
    run = launcher.launch(made, 'processes', tmp_path, environments)
    assert run.wait(60) == launcher.Result(0)
    seen = [json.loads(path.read_text()) for path in paths]
    for i, one in enumerate(seen):
        assert one['parent'] == os.getpid()
        assert one['session'] == one['pid']
        assert f'one_{i}.job' in one['arguments']
        assert 'GROUP=mine' in one['shown'] and one['group'] == 'mine'
        assert any(shown.startswith('REPERTORY_NODE_ID=') for shown in one['shown'])
        assert one['has_tensorflow'] and one['handlers'] == 1
        assert one['spare'] == [] and one['threads'] is None
        assert one['folder'][0] == one['folder'][1]
        log = (tmp_path / 'logs' / f'one_{i}.log').read_text()
        assert log == f'said by {paths[i].name}\n'
    for name in 'folder', 'random':
        first, second = seen[0][name], seen[1][name]
        assert all(a != b for a, b in zip(first, second, strict=True))
    assert not (tmp_path / 'logs' / 'forkserver.log').exists()


def test_what_only_forked_itself_away_is_killed_too(tmp_path):
    path = tmp_path / 'pid'

    def node():
        child = os.fork()
        if not child:
            os.setsid()
            time.sleep(300)
        path.write_text(str(child))
        os.kill(os.getpid(), signal.SIGSEGV)

    result = launcher.launch(make_program(node), 'processes', tmp_path).wait(60)
    assert result.failure.startswith('was killed by signal 11 (SIGSEGV)')
    programs.wait_for(lambda: not programs.alive([int(path.read_text())]), 5)


def test_without_the_server_nodes_go_on_and_start_afresh(tmp_path, caplog):
    policies = dict.fromkeys(('learner', 'actor'), restarts.RestartPolicy())
    made = programs.make_program(tmp_path, forked=True)
    run = launcher.launch(made, 'processes', tmp_path, restarts=policies)
    programs.wait_until_running(tmp_path)
    first = programs.pids(run)
    [server] = [
        int(child['pid'])
        for child in programs.children(os.getpid())
        if b'launch.forking' in programs.read(_command(child['pid']))
        and int(child['pid']) not in first.values()
    ]
    os.kill(server, signal.SIGKILL)
    before = programs.count(tmp_path, 'actor_steps')
    programs.wait_for(lambda: programs.count(tmp_path, 'actor_steps') > before + 50, 20)
    assert programs.pids(run) == first
    os.kill(first['actor_0'], signal.SIGKILL)
    programs.wait_for(lambda: programs.pids(run)['actor_0'] != first['actor_0'], 20)
    new = programs.pids(run)['actor_0']
    programs.wait_for(lambda: b'launch.entry' in programs.read(_command(new)), 5)
    run.stop()
    assert run.wait(60) == launcher.Result(0)
    assert 'Nodes start as fresh interpreters, as none can be forked' in caplog.text
    assert not programs.alive([*first.values(), new, server])


def _command(pid):
    return pathlib.Path(f'/proc/{pid}/cmdline')


@pytest.mark.parametrize(
    ('code', 'reason'),
    [
        ('raise ImportError("sonnet is broken")', 'sonnet is broken'),
        (
            'import threading, time\n'
            'threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n'
            'import sys; sys.path.remove({folder!r}); del sys.modules["sonnet"]\n'
            'import sonnet\n',
            'the fork server must have 1 thread, got 2',
        ),
    ],
)
def test_a_server_that_cannot_fork_is_told_of_and_done_without(
    tmp_path, monkeypatch, caplog, code, reason
):
    folder = tmp_path / 'modules'
    folder.mkdir()
    (folder / 'sonnet.py').write_text(code.format(folder=str(folder)))
    monkeypatch.setenv('PYTHONPATH', str(folder), prepend=os.pathsep)
    made = make_program(lambda: (tmp_path / 'ran').touch())
    run = launcher.launch(made, 'processes', tmp_path)
    assert run.wait(60) == launcher.Result(0)
    assert (tmp_path / 'ran').exists()
    assert 'none can be forked: the server has ended' in caplog.text
    assert reason in (tmp_path / 'logs' / 'forkserver.log').read_text()


def test_a_fork_that_the_launcher_does_not_know_runs_nothing(tmp_path):
    binding.bypass_proxy()
    job = tmp_path / 'one.job'  # It is not there: a node that ran it would say so.
    server = forkserver.ForkServer(tmp_path / 'log')
    server.start()
    channel = server._channel
    assert channel.recv(64) == b'ready'
    told, tell = os.pipe()
    os.close(tell)
    with open(tmp_path / 'node', 'ab') as log, forkserver._adopting():
        request = json.dumps({'job': str(job), 'environment': {}}).encode()
        descriptors = [log.fileno(), log.fileno(), told]
        socket.send_fds(channel, [request], descriptors)
        pid = int(channel.recv(64))
    os.close(told)
    assert forkserver.ForkedProcess(pid).wait() == 1
    assert (tmp_path / 'node').read_text() == ''
    server.close()
    server.close()
