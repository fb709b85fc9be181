import json
import logging
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import portpicker
import pytest
import reverb
import yaml
from dm_env import specs

from repertory.replay import info, limits, server, tables

SIGNATURE = {'rows': specs.Array((2, 4), np.uint8, 'rows')}


def make_spec(**overrides):
    return tables.TableSpec(
        **{
            'name': 't',
            'sampler': 'prioritized',
            'max_size': 100,
            'signature': SIGNATURE,
            'rate_limit': limits.RateLimit(
                samples_per_insert=1.0, min_size=3, error_buffer=2.0
            ),
            **overrides,
        }
    )


UNLIMITED = make_spec(rate_limit=limits.RateLimit(min_size=3))


def insert(address, numbers, table='t'):
    client = reverb.Client(address)
    for i in numbers:
        client.insert({'rows': np.full((2, 4), i, np.uint8)}, {table: 1.0 + i})
    return client


def sample(client, count):
    return list(client.sample('t', count, emit_timesteps=False))


def test_statistics_count_and_say_what_the_table_waits_for(serve):
    running = serve(make_spec())
    [empty] = running.statistics()
    assert (empty.size, empty.max_size, empty.inserts, empty.samples) == (0, 100, 0, 0)
    assert empty.samples_per_insert == 1.0
    assert empty.measured_samples_per_insert is None
    assert empty.can_insert and not empty.can_sample
    assert empty.waits_for == 'inserts: it has 0 of min_size 3 items'
    client = insert(running.address, range(5))
    [full] = running.statistics()
    assert not full.can_insert and full.can_sample
    assert full.waits_for == (
        'samples: 5 inserts, 0 samples at 1 samples per insert leave 5, '
        'and an insert needs at most 4'
    )
    sample(client, 4)
    [drained] = running.statistics()
    assert drained.can_insert and not drained.can_sample
    assert drained.measured_samples_per_insert == 4 / 2
    assert drained.waits_for == (
        'inserts: 5 inserts, 4 samples at 1 samples per insert leave 1, '
        'and a sample needs 2'
    )
    assert drained.bytes_per_item == 8
    rates = info.rates([full], [drained], 2.0)
    assert rates == {'t': (0.0, 2.0)}
    text = info.render([drained], rates)
    assert 't: 5 of 100 items' in text and '(0.0/s, 2.0/s)' in text


def test_table_without_ratio_waits_for_nothing_once_it_has_its_items(serve):
    running = serve(make_spec(), limited=False)
    client = insert(running.address, range(30))
    sample(client, 90)
    [statistics] = running.statistics()
    assert statistics.samples_per_insert is None
    assert statistics.waits_for == ''


def test_taken_port_is_refused(serve):
    running = serve(make_spec())
    with pytest.raises(OSError, match=f'port must be free, got {running.port}'):
        server.ReplayServer([make_spec()], port=running.port)


def test_stopped_server_refuses_calls():
    with server.ReplayServer([make_spec()]) as running:
        pass
    running.stop()
    with pytest.raises(RuntimeError, match='has been stopped'):
        running.statistics()
    with pytest.raises(RuntimeError, match='has been stopped'):
        running.checkpoint()


def test_server_that_is_not_there_is_named():
    with pytest.raises(
        ConnectionError, match='no replay server answers at localhost:1'
    ):
        info.table_statistics('localhost:1', timeout=1)
    with pytest.raises(OSError, match='was not saved'):
        server.checkpoint('localhost:1')
    for address in ('localhost', 'unix:socket', 'localhost:http'):
        with pytest.raises(ValueError, match='address must be HOST:PORT, got'):
            info.table_statistics(address)


def test_a_server_is_found_as_soon_as_it_listens():
    port, made = portpicker.pick_unused_port(), []
    begin = time.monotonic()
    with pytest.raises(ConnectionError, match='nobody listens'):
        info.server_info(f'localhost:{port}', timeout=1.0)
    # Not asked over gRPC as well, which would look but seldom from then on.
    assert 1.0 <= time.monotonic() - begin < 1.9

    def start():
        made.append((server.ReplayServer([make_spec()], port=port), time.monotonic()))

    late = threading.Timer(2.5, start)
    late.start()
    assert set(info.server_info(f'localhost:{port}', timeout=30.0)) == {'t'}
    found = time.monotonic()
    late.join()
    [(running, started)] = made
    running.stop()
    assert found - started < 0.8


def test_checkpoint_brings_back_items_priorities_and_counts(serve, tmp_path):
    first = serve(UNLIMITED, checkpoint_dir=tmp_path)
    client = insert(first.address, range(4))
    keys = {s.info.key for s in sample(client, 2)}
    folder = first.checkpoint()
    assert pathlib.Path(folder).parent == tmp_path
    assert (pathlib.Path(folder) / 'DONE').exists()
    insert(first.address, [9])  # After the checkpoint: lost.
    first.stop()
    second = serve(UNLIMITED, checkpoint_dir=tmp_path, restore=True)
    [statistics] = second.statistics()
    assert (statistics.size, statistics.inserts, statistics.samples) == (4, 4, 2)
    restored = sample(reverb.Client(second.address), 2)
    for item in restored:
        assert item.info.priority == 1.0 + item.data[0][0][0, 0]
        assert item.data[0][0].max() < 9
    assert keys  # Keys are the same, so late priorities still arrive.
    client = reverb.Client(second.address)
    client.mutate_priorities('t', updates={int(key): 1e9 for key in keys})
    insert(second.address, range(3))
    assert {s.info.key for s in sample(client, 3)} <= keys


@pytest.mark.parametrize('exists', [True, False])
def test_nothing_is_said_to_be_lost_where_nothing_was(serve, tmp_path, caplog, exists):
    folder = tmp_path if exists else tmp_path / 'new'
    serve(UNLIMITED, checkpoint_dir=folder, restore=True)
    said = f'replay begins empty: nothing has been saved in {folder} yet'
    assert said in caplog.text and 'lost' not in caplog.text


@pytest.mark.parametrize('keeps', [True, False])
def test_replay_that_has_nothing_to_restore_says_so(serve, tmp_path, caplog, keeps):
    folder = tmp_path if keeps else None
    serve(UNLIMITED, checkpoint_dir=folder)
    assert 'begins empty' not in caplog.text  # A new one is to be empty.
    (tmp_path / 'cut short').mkdir()
    serve(UNLIMITED, checkpoint_dir=folder, restore=True)
    assert 'replay begins empty: there is no finished checkpoint in ' in caplog.text
    assert (str(tmp_path) if keeps else 'not checkpointed') in caplog.text


def test_counts_go_on_after_a_restore(serve, tmp_path):
    spec = make_spec(max_size=3, rate_limit=limits.RateLimit())
    first = serve(spec, checkpoint_dir=tmp_path)
    sample(insert(first.address, range(5)), 4)
    first.checkpoint()
    first.stop()
    second = serve(spec, checkpoint_dir=tmp_path, restore=True)
    sample(insert(second.address, [5]), 1)
    [statistics] = second.statistics()
    # Of the items removed before the restore too.
    assert (statistics.size, statistics.inserts, statistics.samples) == (3, 6, 5)


def test_restored_replay_that_is_at_its_limit_says_so(serve, tmp_path):
    first = serve(make_spec(), checkpoint_dir=tmp_path)
    sample(insert(first.address, range(4)), 3)
    assert not first.statistics()[0].can_sample
    first.checkpoint()
    first.stop()
    second = serve(make_spec(), checkpoint_dir=tmp_path, restore=True)
    assert 'a sample needs' in second.statistics()[0].waits_for
    assert len(sample(insert(second.address, [7]), 1)) == 1


def test_checkpoint_that_was_cut_short_is_not_loaded(serve, tmp_path):
    first = serve(make_spec(), checkpoint_dir=tmp_path)
    insert(first.address, range(4))
    good = pathlib.Path(first.checkpoint())
    first.stop()
    cut = tmp_path / '2999-01-01T00:00:00.000000000+00:00'
    cut.mkdir()
    for file in good.iterdir():
        if file.name != 'DONE':
            (cut / file.name).write_bytes(file.read_bytes()[:10])
    second = serve(make_spec(), checkpoint_dir=tmp_path, restore=True)
    assert second.statistics()[0].size == 4


def test_restored_table_of_another_ratio_is_refused(serve, tmp_path):
    first = serve(make_spec(), checkpoint_dir=tmp_path, limited=False)
    insert(first.address, range(5))
    first.checkpoint()
    first.stop()
    with pytest.raises(ValueError, match='resume the run as it was launched'):
        serve(make_spec(), checkpoint_dir=tmp_path, restore=True)
    again = serve(make_spec(), checkpoint_dir=tmp_path, restore=True, limited=False)
    [table] = again.statistics()
    assert (table.size, table.samples_per_insert) == (5, None)


def test_restored_table_of_other_rows_is_refused(serve, tmp_path):
    first = serve(make_spec(), checkpoint_dir=tmp_path)
    first.checkpoint()
    first.stop()
    other = {'rows': specs.Array((9, 7), np.uint8, 'rows')}
    with pytest.raises(ValueError, match=r'columns .*9, 7.* got .*no-replay, which'):
        serve(make_spec(signature=other), checkpoint_dir=tmp_path, restore=True)


def test_folder_of_another_run_is_refused(serve, tmp_path):
    first = serve(make_spec(), checkpoint_dir=tmp_path)
    first.checkpoint()
    first.stop()
    with pytest.raises(ValueError, match='checkpoint_dir must be empty where restore'):
        server.ReplayServer([make_spec()], checkpoint_dir=tmp_path)


def test_restoring_from_an_empty_folder_starts_empty(serve, tmp_path):
    running = serve(make_spec(), checkpoint_dir=tmp_path / 'new', restore=True)
    assert running.statistics()[0].size == 0


def test_estimate_of_memory_is_logged(serve, caplog):
    with caplog.at_level(logging.INFO):
        serve(make_spec(max_size=1_000_000))
    assert 'table `t`: up to 1000000 items, about 1004.0 MB' in caplog.text


CONFIG = {
    'tables': [
        {
            'name': 't',
            'sampler': 'uniform',
            'max_size': 50,
            'rate_limit': {'samples_per_insert': 2, 'error_buffer': 10},
            'signature': {'rows': {'shape': [2, 4], 'dtype': 'uint8'}},
        },
        {
            'name': 'q',
            'sampler': 'fifo',
            'max_size': 5,
            'max_times_sampled': 1,
            'rate_limit': None,
            'signature': None,
        },
    ]
}


def test_served_file_makes_its_tables_until_it_is_interrupted(tmp_path, capsys):
    path = tmp_path / 'replay.yaml'
    path.write_text(yaml.safe_dump(CONFIG))
    code = f'from repertory.replay import server; server.serve({str(path)!r})'
    with subprocess.Popen(
        [sys.executable, '-c', code], stdout=subprocess.PIPE, text=True
    ) as process:
        line = process.stdout.readline()
        assert line.startswith("serving ['t', 'q'] on port ")
        address = f'localhost:{line.split()[-1]}'
        insert(address, [1])
        info.print_info(address, seconds=0.1)
        printed = capsys.readouterr().out
        assert 't: 1 of 50 items' in printed and 'q: 0 of 5 items' in printed
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert 'nothing is saved without checkpoint_dir' in process.stdout.read()


def test_served_tables_are_saved_when_they_are_stopped(tmp_path):
    path = tmp_path / 'replay.yaml'
    saving = {**CONFIG, 'checkpoint_dir': str(tmp_path / 'saved'), 'restore': True}
    path.write_text(yaml.safe_dump(saving))
    code = f'from repertory.replay import server; server.serve({str(path)!r})'
    for round_ in (0, 1):
        with subprocess.Popen(
            [sys.executable, '-c', code], stdout=subprocess.PIPE, text=True
        ) as process:
            address = f'localhost:{process.stdout.readline().split()[-1]}'
            before, _ = sorted(info.table_statistics(address), key=lambda t: -t.size)
            assert before.size == round_
            insert(address, [1])
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            assert f'saved to {tmp_path}/saved/' in process.stdout.read()


@pytest.mark.parametrize(
    ('config', 'message'),
    [
        ({}, 'tables must be listed in .*, got none'),
        ({'tables': [{'name': 't', 'size': 3}]}, r"fields of TableSpec, got \['name'"),
        ({**CONFIG, 'prot': 3}, "must hold fields of ReplayServer: .*'prot'"),
    ],
)
def test_file_that_cannot_be_served_is_refused(tmp_path, config, message):
    path = tmp_path / 'replay.json'
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        server.serve(path)


def test_a_server_that_ended_a_moment_ago_leaves_its_port_to_the_next():
    with socket.create_server(('', 0)) as listener:
        port = listener.getsockname()[1]
        client = socket.create_connection(('localhost', port))
        served, _ = listener.accept()
        served.close()  # The side that closes first keeps the port for a minute.
        client.close()
    with server.ReplayServer([make_spec()], port=port) as replay:
        assert replay.port == port
        assert replay.statistics()[0].size == 0
