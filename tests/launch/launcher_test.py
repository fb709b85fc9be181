"""Programs of small nodes without TensorFlow: how they end, and what they leave."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

import cloudpickle
import launchpad as lp
import pytest

from repertory.launch import launcher, progress, restarts
from tests.launch import programs

# The nodes' functions travel by value: a child cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.mark.parametrize('mode', ['processes', 'threads'])
def test_a_spent_budget_ends_everything_with_code_0(tmp_path, mode):
    run = launcher.launch(
        programs.make_program(tmp_path, actor_steps=50), mode, tmp_path
    )
    result = run.wait(timeout=90)
    assert result == launcher.Result(0)
    result.check()
    assert (tmp_path / 'saved').exists()
    status = progress.read(tmp_path / 'status.json')
    assert status['phase'] == 'exit'
    assert 50 <= status['counts']['actor_steps'] <= 51
    if mode == 'processes':
        assert not programs.alive(programs.pids(run).values())
        logs = {path.name for path in (tmp_path / 'logs').iterdir()}
        assert logs == {
            f'{name}.log' for name in ('coordinator', 'learner', 'actor_0', 'actor_1')
        }


@pytest.mark.parametrize('mode', ['processes', 'threads'])
@pytest.mark.parametrize('role', ['actor_1', 'learner'])
def test_an_exception_stops_everything_and_is_reported(tmp_path, mode, role):
    made = programs.make_program(tmp_path, functions={role: programs.failing})
    begin = time.monotonic()
    result = launcher.launch(made, mode, tmp_path).wait(timeout=90)
    assert result.exit_code == 1
    assert result.failed_node == role
    assert result.failure.endswith(f'ValueError: {role} is broken')
    assert 'Traceback' in result.failure
    assert 'is broken' in (tmp_path / 'logs' / f'{role}.log').read_text()
    with pytest.raises(RuntimeError, match=f'{role} .*(?s:.*){role} is broken'):
        result.check()
    assert (tmp_path / 'saved').exists() == (role != 'learner')
    assert time.monotonic() - begin < 60


@pytest.mark.parametrize('victim', ['actor_0', 'learner', 'coordinator'])
def test_a_killed_node_stops_everything(tmp_path, victim):
    run = launcher.launch(programs.make_program(tmp_path), 'processes', tmp_path)
    programs.wait_until_running(tmp_path)
    begin = time.monotonic()
    os.kill(programs.pids(run)[victim], signal.SIGKILL)
    result = run.wait(timeout=60)
    assert time.monotonic() - begin < 30
    assert result.exit_code == 1
    assert result.failed_node == victim
    assert result.failure.startswith('was killed by signal 9 (SIGKILL)')
    assert not programs.alive(programs.pids(run).values())


def littering(unused_role, unused_coordinator):
    _, path = tempfile.mkstemp()
    pathlib.Path(os.environ['RUN_DIR'], 'litter').write_text(path)
    os.kill(os.getpid(), signal.SIGKILL)


def test_temporary_files_of_a_killed_node_are_removed(tmp_path):
    made = programs.make_program(tmp_path, functions={'actor_1': littering})
    result = launcher.launch(made, 'processes', tmp_path).wait(timeout=90)
    assert result.failed_node == 'actor_1'
    litter = pathlib.Path((tmp_path / 'litter').read_text())
    assert litter.parent.name.startswith('repertory_')
    assert not litter.parent.exists()


def launch_kept(made, run_dir, **policy):
    groups = 'coordinator', 'learner', 'actor'
    policies = dict.fromkeys(groups, restarts.RestartPolicy(**policy))
    return launcher.launch(made, 'processes', run_dir, restarts=policies)


@pytest.mark.parametrize(
    ('victim', 'forked'),
    [('actor_0', False), ('learner', False), ('coordinator', False), ('learner', True)],
)
def test_a_killed_node_that_is_kept_starts_again_and_counts_go_on(
    tmp_path, victim, forked, capsys
):
    made = programs.make_program(tmp_path, forked=forked)
    run = launch_kept(made, tmp_path, backoff_seconds=0.1)
    programs.wait_until_running(tmp_path)
    programs.wait_for(lambda: programs.count(tmp_path, 'actor_steps') > 20, 20)
    before = {
        name: programs.count(tmp_path, f'{name}_steps') for name in ('actor', 'learner')
    }
    first = programs.pids(run)
    os.kill(first[victim], signal.SIGKILL)
    programs.wait_for(lambda: programs.pids(run)[victim] != first[victim], 20)
    seen = [before]
    while min(seen[-1][n] - before[n] for n in before) < 200:
        assert run.alive and len(seen) < 3000
        seen.append({n: programs.count(tmp_path, f'{n}_steps') for n in before})
        time.sleep(0.01)
    for name in before:
        totals = [one[name] for one in seen]
        assert totals == sorted(totals)
    assert {n for n in first if programs.pids(run)[n] != first[n]} == {victim}
    run.stop()
    assert run.wait(timeout=60) == launcher.Result(0)
    assert (tmp_path / 'saved').exists()
    shown = capsys.readouterr().err
    assert f'{victim} was killed by signal 9 (SIGKILL)' in shown
    assert f'{victim} starts again in 0.1 s, restart 1 of 5' in shown
    assert not programs.alive([*first.values(), *programs.pids(run).values()])


def test_a_node_that_always_fails_ends_the_run_with_its_traceback(tmp_path):
    made = programs.make_program(tmp_path, functions={'actor_1': programs.failing})
    run = launch_kept(made, tmp_path, max_restarts=2, backoff_seconds=0.1)
    result = run.wait(timeout=90)
    assert result.exit_code == 1 and result.failed_node == 'actor_1'
    assert result.failure.endswith('ValueError: actor_1 is broken')
    log = (tmp_path / 'logs' / 'actor_1.log').read_text()
    assert log.count('ValueError: actor_1 is broken') == 3
    assert (tmp_path / 'saved').exists()


def test_a_spent_budget_is_no_failure_of_the_coordinator(tmp_path):
    run = launch_kept(programs.make_program(tmp_path, actor_steps=50), tmp_path)
    first = programs.pids(run)
    assert run.wait(timeout=90) == launcher.Result(0)
    assert first.keys() == programs.pids(run).keys()
    assert (tmp_path / 'logs' / 'coordinator.log').read_text().count(
        'Binding: run'
    ) == 1


@pytest.mark.parametrize('forked', [False, True])
def test_what_a_dead_node_started_in_sessions_of_its_own_is_killed(tmp_path, forked):
    def parent(path):
        child = subprocess.Popen(['sleep', '300'], start_new_session=True)
        path.write_text(str(child.pid))
        os.kill(os.getpid(), signal.SIGSEGV)

    made = lp.Program('plain')
    node = lp.PyNode(parent, tmp_path / 'pid')
    node.forked = forked
    made.add_node(node, label='one')
    result = launcher.launch(made, 'processes', tmp_path).wait(60)
    assert result.failure.startswith('was killed by signal 11 (SIGSEGV)')
    programs.wait_for(
        lambda: not programs.alive([int((tmp_path / 'pid').read_text())]), 5
    )


def test_threads_cannot_be_restarted(tmp_path):
    policies = {'actor': restarts.RestartPolicy()}
    with pytest.raises(
        ValueError, match='restart must be empty in threads, got actor;'
    ):
        launcher.launch(
            programs.make_program(tmp_path), 'threads', tmp_path, restarts=policies
        )


def test_stop_is_clean_and_saves(tmp_path):
    run = launcher.launch(programs.make_program(tmp_path), 'processes', tmp_path)
    programs.wait_until_running(tmp_path)
    begin = time.monotonic()
    run.stop()
    assert run.wait(timeout=60) == launcher.Result(0)
    assert time.monotonic() - begin < 15
    assert (tmp_path / 'saved').exists()


@pytest.mark.parametrize('forked', [False, True])
def test_stop_right_after_the_launch_leaves_nothing(tmp_path, forked):
    made = programs.make_program(tmp_path, forked=forked)
    run = launcher.launch(made, 'processes', tmp_path)
    run.stop()
    assert run.wait(timeout=60).exit_code == 0
    assert not programs.alive(programs.pids(run).values())


@pytest.mark.parametrize('forked', [False, True])
def test_kill_does_not_wait(tmp_path, forked):
    def deaf(role, coordinator):
        del role, coordinator
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1)

    made = programs.make_program(tmp_path, functions={'learner': deaf}, forked=forked)
    run = launcher.launch(made, 'processes', tmp_path)
    programs.wait_for(lambda: None not in programs.pids(run).values(), 30)
    with pytest.raises(TimeoutError, match='learner.* still run after'):
        run.wait(timeout=2)
    run.kill()
    assert run.wait(timeout=10).failed_node == ''
    assert not programs.alive(programs.pids(run).values())


def test_launches_follow_one_another_in_any_thread(tmp_path):
    results = []

    def launch_twice():
        for index in range(2):
            folder = tmp_path / str(index)
            folder.mkdir()
            made = programs.make_program(folder, actor_steps=5)
            results.append(launcher.launch(made, 'processes', folder).wait(90))

    thread = threading.Thread(target=launch_twice)
    thread.start()
    thread.join()
    assert results == [launcher.Result(0)] * 2


def test_nodes_of_the_user_are_told_to_stop_and_may_stop_the_program(tmp_path):
    def user(path):
        lp.wait_for_stop()
        path.touch()

    def stopper(run_dir):
        programs.wait_until_running(run_dir)
        lp.stop()

    made = programs.make_program(tmp_path)
    made.add_node(lp.PyNode(user, tmp_path / 'told'), label='user')
    made.add_node(lp.PyNode(stopper, tmp_path), label='stopper')
    result = launcher.launch(made, 'processes', tmp_path).wait(timeout=90)
    assert result == launcher.Result(0)
    assert (tmp_path / 'told').exists()


def test_a_program_without_a_coordinator_runs_too(tmp_path):
    made = lp.Program('plain')
    made.add_node(lp.PyNode(lambda: (tmp_path / 'ran').touch()), label='one')
    assert launcher.launch(made, 'processes', tmp_path).wait(60) == launcher.Result(0)
    assert (tmp_path / 'ran').exists()


def test_what_cannot_be_pickled_is_refused_by_name(tmp_path):
    lock = threading.Lock()
    made = lp.Program('plain')
    made.add_node(lp.PyNode(lambda: lock.acquire()), label='one')
    with pytest.raises(TypeError, match='one_0 must be made of what can be pickled'):
        launcher.launch(made, 'processes', tmp_path)


_SCRIPT = """
import pathlib, sys
from repertory.launch import launcher
from tests.launch import programs
folder = pathlib.Path(sys.argv[1])
made = programs.make_program(folder, forked=folder.name.startswith('forked'))
run = launcher.launch(made, 'processes', folder)
sys.exit(run.wait().exit_code)
"""


@pytest.mark.parametrize('kind', ['fresh', 'forked'])
@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_cleanly(tmp_path, number, kind):
    folder = tmp_path / kind
    folder.mkdir()
    script = programs.start_script(_SCRIPT, folder)
    programs.wait_until_running(folder)
    script.send_signal(number)
    assert script.wait(timeout=20) == 128 + number
    assert (folder / 'saved').exists()


@pytest.mark.parametrize(('kind', 'processes'), [('fresh', 4), ('forked', 5)])
def test_a_killed_launcher_leaves_nobody(tmp_path, kind, processes):
    folder = tmp_path / kind
    folder.mkdir()
    script = programs.start_script(_SCRIPT, folder)
    programs.wait_until_running(folder)
    nodes = [int(status['pid']) for status in programs.children(script.pid)]
    assert len(nodes) == processes
    script.kill()
    script.wait()
    programs.wait_for(lambda: not programs.alive(nodes), 15)
