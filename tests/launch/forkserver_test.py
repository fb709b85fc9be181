"""Forked nodes are like fresh interpreters, and start as such where need be."""

import ctypes
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

from repertory.agents import apex_dqn
from repertory.components import allocator
from repertory.launch import (
    entry,
    experiment,
    forkserver,
    launcher,
    program,
    restarts,
    supervisor,
)
from tests import needs
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
            'group': os.environ.get('TF_NUM_INTRAOP_THREADS'),
            'argv': sys.argv[1:],
            'large': len(os.environ.get('LARGE', '')),
            'folder': [tempfile.gettempdir(), os.environ['TMPDIR']],
            'random': [random.random(), float(np.random.uniform())],
            'handlers': len(logging.getLogger().handlers),
        }
        path.write_text(json.dumps(seen))

    return node


def test_forked_nodes_are_like_fresh_interpreters(tmp_path, monkeypatch):
    monkeypatch.delenv('OMP_NUM_THREADS', raising=False)
    monkeypatch.setenv('OPENBLAS_NUM_THREADS', '4')  # As users do.
    for index in range(4):  # More than a message of a socket takes.
        monkeypatch.setenv('LARGE' + index * '_', 100_000 * 'x')
    paths = [tmp_path / 'a', tmp_path / 'b']
    made = make_program(*map(describe, paths))
    environments = {'one': {'TF_NUM_INTRAOP_THREADS': '3', 'MINE': 'x'}}
    run = launcher.launch(made, 'processes', tmp_path, environments)
    assert run.wait(60) == launcher.Result(0)
    seen = [json.loads(path.read_text()) for path in paths]
    for i, one in enumerate(seen):
        assert one['parent'] == os.getpid()
        assert one['session'] == one['pid']
        assert f'one_{i}.job' in one['arguments']
        assert 'TF_NUM_INTRAOP_THREADS=3' in one['shown'] and one['group'] == '3'
        assert one['argv'] == [f'{one["folder"][0]}/one_{i}.job']
        assert any(shown.startswith('REPERTORY_NODE_ID=') for shown in one['shown'])
        assert one['has_tensorflow'] and one['handlers'] == 1
        assert one['spare'] == [] and one['threads'] is None
        assert one['large'] == 100_000
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
        if not os.fork():
            os.setsid()  # Out of the group that is killed.
            path.write_text(str(os.getpid()))
            time.sleep(300)
        programs.wait_for(lambda: programs.read(path), 20)
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
    same = None, first['actor_0']
    programs.wait_for(lambda: programs.pids(run)['actor_0'] not in same, 20)
    new = programs.pids(run)['actor_0']
    programs.wait_for(lambda: b'launch.entry' in programs.read(_command(new)), 5)
    run.stop()
    assert run.wait(60) == launcher.Result(0)
    assert 'as the server cannot fork them: it has ended;' in caplog.text
    assert not programs.alive([*first.values(), new, server])


def _command(pid):
    return pathlib.Path(f'/proc/{pid}/cmdline')


@pytest.mark.parametrize(
    ('code', 'reason'),
    [
        ('raise ImportError("sonnet is broken")', 'sonnet is broken'),
        (
            'import sys, threading\n'
            'wait = threading.Event().wait\n'
            'threading.Thread(target=wait, daemon=True).start()\n'
            'sys.path.remove({folder!r}); del sys.modules["sonnet"]\n'
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
    assert 'as the server cannot fork them: it has ended;' in caplog.text
    assert reason in (tmp_path / 'logs' / 'forkserver.log').read_text()


@pytest.fixture
def server(tmp_path):
    made = forkserver.ForkServer(tmp_path / 'forkserver.log')
    programs.wait_for(made.is_ready, 60)
    yield made
    made.close()
    made.close()


def test_a_fork_that_the_launcher_does_not_know_runs_nothing(tmp_path, server):
    word, say = os.pipe()
    os.close(say)
    # The job is not there: a node that ran it would say so.
    fields = {'job': str(tmp_path / 'one.job'), 'environment': {}}
    (tmp_path / 'fields').write_text(json.dumps(fields))
    with (
        open(tmp_path / 'fields') as given,
        open(tmp_path / 'node', 'ab') as log,
        forkserver._adopting(),
    ):
        descriptors = [given.fileno(), log.fileno(), log.fileno(), word]
        socket.send_fds(server._channel, [b'fork'], descriptors)
        server._channel.settimeout(10)
        pid = int(server._channel.recv(64))
    os.close(word)
    assert forkserver.ForkedProcess(pid).wait() == 1
    assert (tmp_path / 'node').read_text() == ''


def make_child(folder, server):
    """A node that sleeps for long, not started."""
    return supervisor.ChildProcess(
        'one',
        ['one'],
        entry.make_job(lambda: time.sleep(300), 'one'),
        folder / 'one.log',
        {},
        lambda event: None,
        server,
    )


def test_a_kill_right_after_the_start_is_not_lost(tmp_path, server):
    for _ in range(20):
        child = make_child(tmp_path, server)
        child.start()
        assert child.pid is not None
        child.kill()
        programs.wait_for(lambda one=child: one.poll() is not None, 5)
        assert child.poll() == ''


def test_forks_leave_the_launcher_as_it_was(tmp_path, server):
    def opened():
        return set(os.listdir('/proc/self/fd'))

    before = opened()
    child = make_child(tmp_path, server)
    child.start()
    child.kill()
    programs.wait_for(lambda: child.poll() is not None, 5)
    adopts = ctypes.c_int()
    entry.control_process(37, ctypes.byref(adopts))  # PR_GET_CHILD_SUBREAPER
    assert not adopts.value
    # What other tests have left may open one for a moment, or close some meanwhile.
    programs.wait_for(lambda: not opened() - before, 5)


def test_a_server_that_hangs_is_told_of_and_done_without(
    tmp_path, server, monkeypatch, caplog
):
    monkeypatch.setattr(forkserver, '_FORK_SECONDS', 1.0)
    os.kill(server._process.pid, signal.SIGSTOP)
    child = make_child(tmp_path, server)
    child.start()
    shown = _command(child.pid)
    programs.wait_for(lambda: b'launch.entry' in programs.read(shown), 5)
    child.kill()
    programs.wait_for(lambda: child.poll() is not None, 5)
    assert 'it has not forked within 1 s' in caplog.text
    assert (tmp_path / 'forkserver.log').exists()


@pytest.fixture
def slow_import(tmp_path, monkeypatch):
    """The server imports for a minute."""
    folder = tmp_path / 'modules'
    folder.mkdir()
    (folder / 'sonnet.py').write_text('import time; time.sleep(60)')
    monkeypatch.setenv('PYTHONPATH', str(folder), prepend=os.pathsep)


def test_a_kill_while_the_server_imports_ends_the_run_at_once(tmp_path, slow_import):
    def started():
        return [c for c in programs.children(os.getpid()) if c not in before]

    before = list(programs.children(os.getpid()))
    made = programs.make_program(tmp_path, forked=True)
    run = launcher.launch(made, 'processes', tmp_path)
    programs.wait_for(lambda: len(started()) == 2, 20)  # The coordinator and it.
    run.kill()
    run.wait(timeout=5)
    assert not started()


def test_a_server_that_imports_for_long_is_done_without(
    tmp_path, slow_import, monkeypatch, caplog
):
    monkeypatch.setattr(forkserver, '_START_SECONDS', 1.0)
    made = make_program(lambda: (tmp_path / 'ran').touch())
    assert launcher.launch(made, 'processes', tmp_path).wait(30) == launcher.Result(0)
    assert (tmp_path / 'ran').exists()
    assert 'it has not imported within 1 s' in caplog.text


def test_variables_that_may_be_read_early_make_fresh_interpreters(tmp_path):
    path = tmp_path / 'a'

    def node():
        path.write_text(pathlib.Path('/proc/self/cmdline').read_text())

    environments = {'one': {'OPENBLAS_NUM_THREADS': '2'}}
    run = launcher.launch(make_program(node), 'processes', tmp_path, environments)
    assert run.wait(60) == launcher.Result(0)
    assert 'launch.entry' in path.read_text()


def test_the_server_starts_with_what_most_nodes_need_early(tmp_path):
    paths = [tmp_path / name for name in 'abc']

    def describe(path):
        def node():
            command = pathlib.Path('/proc/self/cmdline').read_text()
            kernels = os.environ.get('TF_ENABLE_ONEDNN_OPTS')
            path.write_text(json.dumps(['launch.forking' in command, kernels]))

        return node

    made = make_program(*map(describe, paths[:2]))
    with made.group('other'):
        made.add_node(lp.PyNode(describe(paths[2])))
    for node in made.groups['other']:
        node.forked = True
    environments = {'one': {'TF_ENABLE_ONEDNN_OPTS': '1'}}
    run = launcher.launch(made, 'processes', tmp_path, environments)
    assert run.wait(60) == launcher.Result(0)
    seen = [json.loads(path.read_text()) for path in paths]
    assert seen == [[True, '1'], [True, '1'], [False, None]]


@needs.jemalloc
def test_all_groups_have_the_allocator_and_are_forked(tmp_path, monkeypatch):
    monkeypatch.delenv(allocator.VARIABLE, raising=False)

    def describe(path):
        def node():
            command = pathlib.Path('/proc/self/cmdline').read_text()
            maps = pathlib.Path('/proc/self/maps').read_text()
            variable = os.environ['LD_PRELOAD']
            seen = ['launch.forking' in command, 'jemalloc' in maps, variable]
            path.write_text(json.dumps(seen))

        return node

    made = lp.Program('groups')
    paths = {name: tmp_path / name for name in ('one', 'two', 'fresh', 'own')}
    for name, path in paths.items():
        node = lp.PyNode(describe(path))
        node.forked = name != 'fresh'
        made.add_node(node, label=name)
    environments = {'one': {'OMP_NUM_THREADS': '1'}, 'own': {'LD_PRELOAD': ''}}
    run = launcher.launch(made, 'processes', tmp_path, environments)
    assert run.wait(60) == launcher.Result(0)
    found = allocator.find()
    assert {name: json.loads(path.read_text()) for name, path in paths.items()} == {
        'one': [True, True, found],
        'two': [True, True, found],
        'fresh': [False, True, found],
        'own': [False, False, ''],
    }


@pytest.mark.parametrize('value, expected', [('1', {'TF_X': '1'}), ('2', {})])
def test_a_server_has_one_thread_whatever_most_nodes_need(value, expected):
    threads = {'TF_X': value, 'OPENBLAS_NUM_THREADS': '2'}
    others = [{'TF_X': '1', 'MINE': 'x'}] if value == '1' else [{}]
    assert forkserver.most_wanted([threads, threads, *others]) == expected


def test_what_may_use_a_gpu_is_not_forked(tmp_path, monkeypatch):
    config = experiment.ExperimentConfig(agent=apex_dqn.Config(), environment='catch')
    topology = experiment.Topology(gpu_groups=('learner',))

    def forked():
        made = program.make_program(config, topology, tmp_path)
        return {group for group, [node] in made.groups.items() if node.forked}

    monkeypatch.setattr(program, '_GPUS', str(tmp_path / 'nvidia[0-9]*'))
    assert forked() == {'replay', 'learner', 'actor', 'evaluator'}
    (tmp_path / 'nvidia0').touch()
    assert forked() == {'replay', 'actor', 'evaluator'}


def test_a_server_that_cannot_be_started_is_done_without(tmp_path, caplog):
    (tmp_path / 'logs' / 'forkserver.log').mkdir(parents=True)
    made = make_program(lambda: (tmp_path / 'ran').touch())
    assert launcher.launch(made, 'processes', tmp_path).wait(60) == launcher.Result(0)
    assert (tmp_path / 'ran').exists()
    assert 'as the server cannot fork them: [Errno 21] Is a directory' in caplog.text


def test_two_programs_at_once_have_a_server_each(tmp_path):
    runs = []
    for name in 'a', 'b':
        folder = tmp_path / name
        folder.mkdir()
        made = make_program(describe(folder / '0'), describe(folder / '1'))
        runs.append(launcher.launch(made, 'processes', folder))
    assert [run.wait(60) for run in runs] == [launcher.Result(0)] * 2
    seen = [json.loads((tmp_path / n / i).read_text()) for n in 'ab' for i in '01']
    assert {one['parent'] for one in seen} == {os.getpid()}
    assert len({one['pid'] for one in seen}) == 4
