"""Programs of small nodes on a Ray cluster of two nodes on this machine."""

import os
import pathlib
import signal
import sys
import time

import cloudpickle
import launchpad as lp
import pytest

from repertory.components import allocator
from repertory.launch import launcher, placement, progress, restarts
from tests import needs
from tests.launch import programs

ray = pytest.importorskip('ray')
from ray import cluster_utils  # noqa: E402

from repertory.launch import host  # noqa: E402

pytestmark = pytest.mark.timeout(240)
cloudpickle.register_pickle_by_value(sys.modules[__name__])
LOOPBACK = {'node_ip_address': '127.0.0.2'}


@pytest.fixture(scope='module')
def cluster():
    made = cluster_utils.Cluster(
        initialize_head=True, head_node_args={'num_cpus': 2, **LOOPBACK}
    )
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def launch(made, run_dir, kept=(), **config):
    return launcher.launch(
        made,
        'ray',
        run_dir,
        # Ray's workers have not the environment of this process.
        {'learner': {'RUN_DIR': str(run_dir)}},
        restarts=dict.fromkeys(kept, restarts.RestartPolicy(backoff_seconds=0.1)),
        ray=placement.RayConfig(
            resources=('learner:CPU=0.1', 'actor:CPU=0.1'), **config
        ),
    )


ALL = 'coordinator', 'learner', 'actor'


@pytest.mark.parametrize('field', ['address', 'working_dir'])
def test_what_a_connected_process_cannot_have_is_refused(cluster, tmp_path, field):
    wrong = {'address': '127.0.0.1:1', 'working_dir': str(tmp_path)}
    made = programs.make_program(tmp_path, actor_steps=50)
    with pytest.raises(ValueError, match=f'ray.{field} must be .* got {wrong[field]};'):
        launch(made, tmp_path, **{field: wrong[field]})


def test_the_address_of_the_connected_cluster_is_taken(cluster, tmp_path):
    made = programs.make_program(tmp_path, actor_steps=50)
    run = launch(made, tmp_path, address=cluster.address)
    assert run.wait(timeout=90) == launcher.Result(0)


def test_a_spent_budget_ends_everything_with_code_0(cluster, tmp_path):
    made = programs.make_program(tmp_path, actor_steps=50)
    run = launch(made, tmp_path)
    assert run.wait(timeout=90) == launcher.Result(0)
    assert (tmp_path / 'saved').exists()
    assert 50 <= progress.read(tmp_path / 'status.json')['counts']['actor_steps'] <= 51
    assert not programs.alive(programs.pids(run).values())


def test_an_exception_ends_the_program_with_its_traceback(cluster, tmp_path):
    made = programs.make_program(tmp_path, functions={'actor_1': programs.failing})
    result = launch(made, tmp_path).wait(timeout=90)
    assert (result.exit_code, result.failed_node) == (1, 'actor_1')
    assert result.failure.endswith('ValueError: actor_1 is broken')
    assert 'is broken' in (tmp_path / 'logs' / 'actor_1.log').read_text()


@pytest.mark.parametrize('victim', ['actor_0', 'coordinator'])
def test_a_killed_process_starts_again_on_its_port(cluster, tmp_path, victim):
    made = programs.make_program(tmp_path)
    run = launch(made, tmp_path, ALL)
    programs.wait_until_running(tmp_path)
    first = programs.pids(run)
    os.kill(first[victim], signal.SIGKILL)
    programs.wait_for(
        lambda: programs.pids(run)[victim] not in (first[victim], None), 30
    )
    before = programs.count(tmp_path, 'actor_steps')
    programs.wait_for(
        lambda: programs.count(tmp_path, 'actor_steps') > before + 100, 60
    )
    pids = programs.pids(run)
    assert {name for name in first if pids[name] != first[name]} == {victim}
    run.stop()
    assert run.wait(timeout=60) == launcher.Result(0)
    assert not programs.alive([*first.values(), *pids.values()])


@needs.jemalloc
def test_a_process_has_the_allocator_of_its_machine(cluster, tmp_path, monkeypatch):
    # The launcher's machine may have none, or another.
    monkeypatch.setattr(allocator, 'find', lambda: '/nowhere/libjemalloc.so.2')
    made = lp.Program('plain')
    for name in 'one', 'own':

        def node(path=tmp_path / name):
            path.write_text(pathlib.Path('/proc/self/maps').read_text())

        made.add_node(lp.PyNode(node), label=name)
    config = placement.RayConfig(resources=('one:CPU=0.1', 'own:CPU=0.1'))
    environments = {'own': {'LD_PRELOAD': ''}}
    run = launcher.launch(made, 'ray', tmp_path, environments, ray=config)
    assert run.wait(timeout=90) == launcher.Result(0)
    has = {name: 'jemalloc' in (tmp_path / name).read_text() for name in ('one', 'own')}
    assert has == {'one': True, 'own': False}


def test_what_cannot_be_placed_is_named(cluster, tmp_path):
    made = lp.Program('plain')
    made.add_node(lp.PyNode(lambda: None), label='one')
    config = placement.RayConfig(resources=('one:tpu=1',), place_seconds=2.0)
    with pytest.raises(TimeoutError, match='got none for one_0 .CPU=1, tpu=1. within'):
        launcher.launch(made, 'ray', tmp_path, ray=config)


def test_a_worker_that_dies_before_it_is_placed_is_replaced(
    cluster, tmp_path, monkeypatch
):
    class DiesOnce(host.Host):
        def prepare(self, number, wanted):
            if self._name == 'coordinator' and not (tmp_path / 'died').exists():
                (tmp_path / 'died').touch()
                os._exit(1)
            return super().prepare(number, wanted)

    monkeypatch.setattr(host, 'Host', DiesOnce)
    run = launch(programs.make_program(tmp_path, actor_steps=50), tmp_path)
    assert (tmp_path / 'died').exists()
    assert run.wait(timeout=90) == launcher.Result(0)


@pytest.mark.parametrize('text', ['learner', 'learner:GPU', 'learner:GPU=x', ':GPU=1'])
def test_resources_of_another_form_are_refused(text):
    with pytest.raises(ValueError, match='ray.resources must be of the form'):
        placement.RayConfig(resources=(text,))


def test_a_lost_machine_is_replaced_and_the_counts_go_on(cluster, tmp_path):
    """The learner's and an actor's machine goes; both are placed on the other one."""
    lost = cluster.add_node(num_cpus=2, resources={'second': 2}, **LOOPBACK)
    cluster.wait_for_nodes()
    made = programs.make_program(tmp_path)
    run = launcher.launch(
        made,
        'ray',
        tmp_path,
        {'learner': {'RUN_DIR': str(tmp_path)}},
        restarts=dict.fromkeys(ALL, restarts.RestartPolicy(backoff_seconds=0.1)),
        ray=placement.RayConfig(
            resources=('learner:second=1', 'learner:CPU=0.1', 'actor:CPU=0.1')
        ),
    )
    programs.wait_until_running(tmp_path)
    first = programs.pids(run)
    begin = time.monotonic()
    replacement = cluster.add_node(num_cpus=2, resources={'second': 2}, **LOOPBACK)
    cluster.remove_node(lost, allow_graceful=False)
    programs.wait_for(lambda: programs.pids(run)['learner'] != first['learner'], 90)
    before = programs.count(tmp_path, 'learner_steps')
    programs.wait_for(
        lambda: programs.count(tmp_path, 'learner_steps') > before + 50, 90
    )
    print(f'\nlost machine: learning again after {time.monotonic() - begin:.1f} s')
    assert not programs.alive([first['learner']])
    run.stop()
    assert run.wait(timeout=60) == launcher.Result(0)
    cluster.remove_node(replacement)


_SCRIPT = """
import pathlib, sys
from repertory.launch import launcher, placement
from tests.launch import programs
folder = pathlib.Path(sys.argv[1])
run = launcher.launch(programs.make_program(folder), 'ray', folder)
sys.exit(run.wait().exit_code)
"""


@pytest.mark.slow
@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_driver_ends_everything(tmp_path, number):
    script = programs.start_script(_SCRIPT, tmp_path)
    programs.wait_until_running(tmp_path, 120)
    nodes = [
        int(path.parent.name)
        for path in pathlib.Path('/proc').glob('[0-9]*/environ')
        if f'RUN_DIR={tmp_path}\0'.encode() in programs.read(path)
        and b'REPERTORY_NODE_ID' in programs.read(path)
    ]
    assert len(nodes) >= 4
    script.send_signal(number)
    code = script.wait(timeout=60)
    assert code == (-9 if number == signal.SIGKILL else 128 + number)
    programs.wait_for(lambda: not programs.alive(nodes), 30)
    assert (tmp_path / 'saved').exists() == (number != signal.SIGKILL)
