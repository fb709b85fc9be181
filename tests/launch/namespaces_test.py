"""A program on three machines: network namespaces, of which one is unplugged.

What is not shared by real machines is here: files, users and the package.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from repertory.launch import progress
from tests.launch import programs

pytest.importorskip('ray')

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]

_IPS = {f'repertory{i}': f'10.77.0.{i}' for i in (1, 2, 3)}
_BRIDGE = 'repertory0'
_RAY = str(pathlib.Path(sys.executable).with_name('ray'))

_SCRIPT = """
import pathlib, sys
from repertory.launch import launcher, placement, progress, restarts
from tests.launch import programs
folder = pathlib.Path(sys.argv[1])
kept = dict.fromkeys(['learner', 'actor'], restarts.RestartPolicy(backoff_seconds=0.1))
run = launcher.launch(
    programs.make_program(folder, patience=progress.RESTARTING),
    'ray',
    folder,
    dict.fromkeys(['learner', 'coordinator'], {'RUN_DIR': str(folder)}),
    kept,
    placement.RayConfig(
        address='10.77.0.1:6399',
        resources=('learner:spare=1', 'actor:first=1'),
    ),
)
sys.exit(run.wait().exit_code)
"""


def ip(*arguments):
    return subprocess.run(['ip', *arguments], capture_output=True, text=True)


# Where Ray keeps files of its machine; each machine is to have its own.
_RAY_FILES = pathlib.Path(tempfile.gettempdir()) / 'ray'
_HOLD = (
    f'mount --make-rprivate / && mkdir -p {_RAY_FILES}'
    f' && mount -t tmpfs none {_RAY_FILES} && echo ready && exec sleep infinity'
)


def inside(holder, *command, **options):
    enter = ['nsenter', '--target', str(holder.pid), '--mount', '--net']
    return subprocess.Popen([*enter, *command], **options)


@pytest.fixture
def machines():
    done = ip('link', 'add', _BRIDGE, 'type', 'bridge') if shutil.which('ip') else None
    if done is None or done.returncode:
        pytest.skip(f'no network can be made here: {done and done.stderr.strip()}')
    holders = {}
    try:
        for i, (name, address) in enumerate(_IPS.items()):
            for command in (
                f'netns add {name}',
                f'link add rep{i} type veth peer name eth0 netns {name}',
                f'link set rep{i} master {_BRIDGE} up',
                f'-n {name} addr add {address}/24 dev eth0',
                f'-n {name} link set eth0 up',
                f'-n {name} link set lo up',
            ):
                done = ip(*command.split())
                if done.returncode:
                    pytest.skip(f'`ip {command}` is not allowed: {done.stderr.strip()}')
        ip('link', 'set', _BRIDGE, 'up')
        for name in _IPS:
            enter = ['ip', 'netns', 'exec', name, 'unshare', '--mount', 'sh', '-c']
            holders[name] = subprocess.Popen([*enter, _HOLD], stdout=subprocess.PIPE)
            assert holders[name].stdout.readline() == b'ready\n'
        yield holders
    finally:
        for holder in holders.values():
            holder.kill()
            holder.wait()
        for name in _IPS:
            ip('netns', 'del', name)
        ip('link', 'del', _BRIDGE)


@pytest.fixture
def cluster(machines, tmp_path):
    started = []
    for i, (name, address) in enumerate(_IPS.items()):
        where = (
            ['--head', '--port=6399', '--include-dashboard=false']
            if i == 0
            else ['--address=10.77.0.1:6399']
        )
        resource = '{"first": 4}' if i == 0 else '{"spare": 1}'
        command = [
            *(_RAY, 'start', '--block', f'--node-ip-address={address}', *where),
            *('--num-cpus=8', f'--resources={resource}'),
        ]
        log = open(tmp_path / f'{name}.log', 'wb')
        started.append(inside(machines[name], *command, stdout=log, stderr=log))
        if i == 0:
            programs.wait_for(
                lambda: (
                    b'Ray runtime started' in programs.read(tmp_path / 'repertory1.log')
                ),
                60,
            )
    yield
    for process in started:
        process.terminate()
    for process in started:
        process.wait(timeout=30)


def owner_of(run_dir, name='learner'):
    """Returns the namespace of the process of a node, and its id."""
    for path in pathlib.Path('/proc').glob('[0-9]*/environ'):
        variables = programs.read(path)
        if str(run_dir).encode() in variables:
            pid = path.parent.name
            if f'{name}.job'.encode() in programs.read(path.parent / 'cmdline'):
                return ip('netns', 'identify', pid).stdout.strip(), int(pid)
    return None, None


def test_a_program_outlives_the_loss_of_a_machine(machines, cluster, tmp_path):
    root = str(pathlib.Path(__file__).parents[2])
    run_dir = tmp_path / 'run'
    run_dir.mkdir()
    driver = inside(
        machines['repertory1'],
        *(sys.executable, '-c', _SCRIPT, str(run_dir)),
        env={**os.environ, 'PYTHONPATH': root},
    )
    try:
        check(run_dir)
        driver.terminate()
        assert driver.wait(timeout=90) == 128 + 15
    finally:
        driver.kill()
    assert progress.read(run_dir / 'status.json')['failure'] == ''


def check(run_dir):
    programs.wait_until_running(run_dir, 120)
    lost, pid = owner_of(run_dir)
    assert lost in ('repertory2', 'repertory3')
    assert owner_of(run_dir, 'coordinator')[0] == 'repertory1'  # As the driver.
    before = programs.count(run_dir, 'learner_steps')
    programs.wait_for(
        lambda: programs.count(run_dir, 'learner_steps') > before + 20, 30
    )
    ip('link', 'set', f'rep{int(lost[-1]) - 1}', 'down')
    actor_steps = programs.count(run_dir, 'actor_steps')

    def has_moved():
        where, _ = owner_of(run_dir)
        return where is not None and where != lost

    programs.wait_for(has_moved, 180)
    assert not programs.alive([pid])  # Its lease was over first.
    before = programs.count(run_dir, 'learner_steps')
    programs.wait_for(
        lambda: programs.count(run_dir, 'learner_steps') > before + 50, 60
    )
    assert programs.count(run_dir, 'actor_steps') > actor_steps + 1000  # They went on.
