"""What a run on one machine opens, as another machine sees it: a network namespace."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys

import pytest

from repertory.agents.apex_dqn import config
from repertory.launch import experiment as experiment_lib
from repertory.launch import launcher, program, progress
from repertory.replay import ports
from tests.launch import programs

# Of this process alone, nearly: other tests may run beside these.
_NAME = f'rep{os.getpid()}'
_NET = f'198.{18 + os.getpid() // 256 % 2}.{os.getpid() % 256}'  # For tests: RFC 2544.
_HERE, _THERE = f'{_NET}.1', f'{_NET}.2'
_CONNECT = """
import socket, sys
for port in sys.argv[2:]:
    try:
        socket.create_connection((sys.argv[1], int(port)), timeout=1.5).close()
    except OSError:
        continue
    print(port)
"""


def ip(command):
    return subprocess.run(['ip', *command.split()], capture_output=True, text=True)


@pytest.fixture
def reached():
    """Returns which of some ports of this machine another one can connect to."""
    try:
        for command in (
            f'netns add {_NAME}',
            f'link add {_NAME} type veth peer name eth0 netns {_NAME}',
            f'addr add {_HERE}/24 dev {_NAME}',
            f'link set {_NAME} up',
            f'-n {_NAME} addr add {_THERE}/24 dev eth0',
            f'-n {_NAME} link set eth0 up',
        ):
            done = ip(command) if shutil.which('ip') else None
            if done is None or done.returncode:
                pytest.skip(f'no network can be made here: {done and done.stderr}')

        def reached(numbers):
            connect = [sys.executable, '-c', _CONNECT, _HERE, *map(str, numbers)]
            enter = ['ip', 'netns', 'exec', _NAME]
            done = subprocess.run([*enter, *connect], capture_output=True, text=True)
            assert not done.stderr
            return {int(line) for line in done.stdout.split()}

        yield reached
    finally:
        ip(f'netns del {_NAME}')
        ip(f'link del {_NAME}')


@contextlib.contextmanager
def server(family, host):
    with socket.socket(family) as made:
        made.bind((host, 0))
        made.listen()
        yield made.getsockname()[1]


@pytest.mark.parametrize(
    ('family', 'host'), [(socket.AF_INET, '0.0.0.0'), (socket.AF_INET6, '::')]
)
def test_a_port_is_closed_to_other_machines(reached, family, host):
    with server(family, host) as port, server(family, host) as other:
        assert reached([port, other]) == {port, other}
        assert ports.keep_local(port)
        assert reached([port, other]) == {other}
        for address in '127.0.0.1', _HERE, *(['::1'] * (family == socket.AF_INET6)):
            socket.create_connection((address, port), timeout=5).close()


def test_a_port_on_which_nobody_listens_is_said_to_be_so():
    with server(socket.AF_INET, '127.0.0.1') as port:
        pass
    assert not ports.keep_local(port)


def test_a_kernel_that_takes_no_filter_is_told_of(monkeypatch, caplog):
    def refuse(unused):
        raise OSError(92, 'Protocol not available')

    monkeypatch.setattr(ports, '_drop_others', refuse)
    with server(socket.AF_INET, '127.0.0.1') as port:
        ports._keep_local([port])
    assert f'Ports {port} may be reached by other machines: the kernel' in caplog.text


@pytest.fixture(params=['processes', 'threads', 'ray'])
def mode(request):
    ray = pytest.importorskip('ray') if request.param == 'ray' else None
    yield request.param
    if ray is not None:
        ray.shutdown()


def test_the_nodes_of_one_machine_are_closed_to_others(reached, tmp_path, mode):
    made = programs.make_program(tmp_path)
    # Ray's workers have not the environment of this process.
    environments = {'learner': {'RUN_DIR': str(tmp_path)}}
    run = launcher.launch(made, mode, tmp_path, environments)
    programs.wait_until_running(tmp_path)
    [address] = made.groups['coordinator'][0].addresses
    port = int(address.resolve().rpartition(':')[2])
    socket.create_connection(('localhost', port), timeout=5).close()
    programs.wait_for(lambda: not reached([port]), 10)
    run.stop()
    assert run.wait(timeout=60) == launcher.Result(0)


def listening(pids):
    """Returns the ports on which processes listen on all interfaces."""
    inodes = set()
    for pid in pids:
        for path in pathlib.Path(f'/proc/{pid}/fd').iterdir():
            with contextlib.suppress(OSError):
                inodes.add(str(path.readlink()))
    found = set()
    for name in 'tcp', 'tcp6':
        lines = pathlib.Path(f'/proc/net/{name}').read_text().splitlines()[1:]
        for fields in map(str.split, lines):
            host, _, port = fields[1].partition(':')
            is_listening = fields[3] == '0A' and not host.strip('0')
            if is_listening and f'socket:[{fields[9]}]' in inodes:
                found.add(int(port, 16))
    return found


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_learners_and_their_replay_are_closed_to_other_machines(reached, tmp_path):
    experiment = experiment_lib.ExperimentConfig(
        agent=config.Config(min_replay_size=100), environment='catch'
    )
    topology = experiment_lib.Topology(num_learners=2)
    run = launcher.launch(
        program.make_program(experiment, topology, tmp_path), 'processes', tmp_path
    )

    def learns():
        status = progress.read(tmp_path / 'status.json')
        assert run.alive, run.wait().failure
        return status.get('counts', {}).get('learner_steps', 0) > 50

    try:
        programs.wait_for(learns, 240)
        opened = listening(programs.pids(run).values())
        print(f'\nlistening on all interfaces: {sorted(opened)}')
        # The coordinator, the first learner, the replay, and TensorFlow's of each.
        assert len(opened) == 5
        assert not reached(opened)
    finally:
        run.stop()
        assert run.wait(timeout=90) == launcher.Result(0)
