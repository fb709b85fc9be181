import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import portpicker
import psutil
import pytest
from dm_env import specs

from repertory.components import core
from repertory.replay import info, limits, tables, writers
from tests.replay import scripts


def signature(num_rows, with_state=False):
    columns = {'rows': specs.Array((num_rows, 3), np.uint8, 'rows')}
    if with_state:
        columns['state'] = specs.Array((2,), np.uint8, 'state')
    return columns


def row(value):
    return np.full(3, value, np.uint8)


@pytest.mark.parametrize('fast', [True, False])
def test_items_are_the_last_rows_of_their_lane(serve, monkeypatch, fast):
    if not fast:  # As if another version of Reverb had another binding.
        original = writers._LaneWriter.__init__

        def without_binding(self, *arguments):
            original(self, *arguments)
            self._binding = None

        monkeypatch.setattr(writers._LaneWriter, '__init__', without_binding)
    address = serve(scripts.fifo(signature(2, with_state=True))).address
    writer = writers.RowWriter(
        address, 't', num_lanes=2, num_rows=2, wait=scripts.never, has_state=True
    )
    for t in range(4):
        for lane in range(2):
            state = np.array([lane, t], np.uint8) if t % 2 == 0 else None
            writer.append(lane, row(10 * lane + t), state)
    # Its last two rows are 12 and 13, and a state came with 12.
    writer.create_item(1, 2.5)
    writer.flush()
    for t in (6, 7, 8):
        writer.append(1, row(t), np.array([9, t], np.uint8))
    writer.create_item(1, 1.0)
    writer.create_item(0, 1.0)
    writer.flush()
    assert writer.num_items == 3
    writer.close()
    items, priorities = scripts.read(address, 3)
    first_rows = items['rows'][:, :, 0].numpy().tolist()
    states = items['state'].numpy().tolist()
    found = list(zip(first_rows, states, strict=True))
    assert found[0] == ([12, 13], [1, 2]) and priorities[0] == 2.5
    assert sorted(found[1:]) == [([2, 3], [0, 2]), ([7, 8], [9, 7])]


def test_context_is_the_rows_before_and_at_first_copies(serve):
    address = serve(scripts.fifo(signature(4, with_state=True))).address
    writer = writers.RowWriter(
        address,
        't',
        num_lanes=1,
        num_rows=4,
        wait=scripts.never,
        has_state=True,
        num_context=2,
    )
    for t in range(4):
        writer.append(0, row(t), np.array([t, t], np.uint8))
        if t:
            writer.create_item(0, 1.0)
    writer.flush()
    writer.close()
    items, _ = scripts.read(address, 3)
    expected = [[0, 0, 0, 1], [0, 0, 1, 2], [0, 1, 2, 3]]
    assert items['rows'][:, :, 0].numpy().tolist() == expected
    # Of the first row that is the item's own.
    assert items['state'][:, 0].numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize('rows_at_once', [1, 3, 8])
def test_rows_are_handed_on_together_and_items_keep_their_place(
    serve, monkeypatch, rows_at_once
):
    monkeypatch.setattr(writers, '_WAITING_SECONDS', 100.0)
    server = serve(scripts.fifo(signature(2)))
    writer = writers.RowWriter(
        server.address, 't', 2, 2, scripts.never, rows_at_once=rows_at_once
    )
    handed_on, original = [], writer._append

    def append(*arguments):
        handed_on.append(arguments)
        original(*arguments)

    writer._append = append
    for t in range(1, 8):
        writer.append_all(np.stack([row(t), row(100 + t)]))
        assert len(handed_on) == 2 * (t - t % rows_at_once)
        if t > 1:
            writer.create_item(t % 2, float(t))
    writer.flush()
    assert len(handed_on) == 14 and server.statistics()[0].size == 6
    writer.close()
    items, priorities = scripts.read(server.address, 6)
    found = dict(zip(priorities.tolist(), items['rows'][:, :, 0].numpy().tolist()))
    assert found == {
        float(t): [t - 1 + 100 * (t % 2), t + 100 * (t % 2)] for t in range(2, 8)
    }


def test_rows_that_come_slowly_are_handed_on_at_once(serve, monkeypatch):
    monkeypatch.setattr(writers, '_WAITING_SECONDS', 0.0)
    writer = writers.RowWriter(
        serve(scripts.fifo(signature(1))).address, 't', 1, 1, scripts.never
    )
    for t in range(3):
        writer.append(0, row(t))
        writer.create_item(0, 1.0)
        assert len(writer._waiting[0]) == 1  # The item: no row is before it.
    writer.close()


def test_a_write_that_is_stopped_goes_on_where_it_was(serve, monkeypatch):
    monkeypatch.setattr(writers, '_FLUSH_SECONDS', 0.0)
    server = serve(tables.make_queue('t', 6, signature(1)))
    stopped = []

    def wait(reason, waited_seconds):
        stopped.append(reason)
        raise core.Stopped

    writer = writers.RowWriter(server.address, 't', 2, 1, wait, max_pending=10)
    with pytest.raises(core.Stopped):
        for value in range(30):
            writer.append_all(np.stack([row(value), row(100 + value)]))
            for lane in (0, 1):
                writer.create_item(lane, 1.0)
    created, seen = writer.num_items, []
    while len(seen) < created:
        with contextlib.suppress(core.Stopped):
            writer.flush()
        items, _ = scripts.read(server.address, 1)
        seen += items['rows'][:, 0, 0].numpy().tolist()
    # The rows whose write was stopped are in, though their items came to be no more.
    half = list(range(created // 2))
    assert [value for value in seen if value < 100] == half
    assert [value - 100 for value in seen if value >= 100] == half
    assert len(stopped) > 1
    writer.flush()
    assert server.statistics()[0].size == 0
    writer.close()


def test_pending_items_are_bounded_by_waiting(serve):
    spec = tables.TableSpec(
        name='t',
        sampler='uniform',
        max_size=100,
        signature=signature(1),
        rate_limit=limits.RateLimit(samples_per_insert=1, error_buffer=5),
    )
    server = serve(spec)
    created, waits = [], []

    def wait(reason, waited_seconds):
        waits.append((len(created), reason))
        assert waited_seconds < 0.9  # So long takes who is stopped.
        raise core.Stopped

    writer = writers.RowWriter(server.address, 't', 1, 1, wait)
    with pytest.raises(core.Stopped):
        for i in range(200):
            writer.append(0, row(i))
            writer.create_item(0, 1.0)
            created.append(i)
    [(count, reason)] = waits
    [statistics] = server.statistics()
    assert statistics.inserts == 6  # max_diff = 1 + 5 at one sample an insert.
    waiting = writers.MAX_PENDING + writers._ROWS_AT_ONCE
    assert count - statistics.inserts <= waiting
    assert 'insert into table `t` (6 of 100 items) waits for samples' in reason
    writer.close()
    writer.close()


def test_a_flush_tries_for_a_second_before_it_is_stopped(serve):
    limit = limits.RateLimit(samples_per_insert=1, error_buffer=5)
    spec = tables.TableSpec(
        name='t',
        sampler='uniform',
        max_size=9,
        signature=signature(1),
        rate_limit=limit,
    )
    waited = []

    def wait(reason, waited_seconds):
        waited.append(waited_seconds)
        raise core.Stopped

    writer = writers.RowWriter(serve(spec).address, 't', 1, 1, wait)
    for i in range(8):  # Two more than the limiter lets in.
        writer.append(0, row(i))
        writer.create_item(0, 1.0)
    with pytest.raises(core.Stopped):
        writer.flush()
    assert len(waited) == 1 and waited[0] >= 0.95
    writer.close()


def test_unknown_table_is_named(serve):
    address = serve(scripts.fifo(signature(1), name='other')).address
    writer = writers.RowWriter(address, 't', 1, 1, wait=scripts.never)
    writer.append(0, row(1))
    writer.create_item(0, 1.0)
    with pytest.raises(RuntimeError, match='table t was not found'):
        writer.flush()


def test_a_writer_waits_for_its_server_to_start():
    reasons = []

    def wait(reason, waited_seconds):
        reasons.append(reason)
        raise core.Stopped

    address = f'localhost:{portpicker.pick_unused_port()}'
    with pytest.raises(core.Stopped):
        writers.RowWriter(address, 'table', num_lanes=1, num_rows=2, wait=wait)
    assert reasons == [f'the replay server at {address} to start']


SERVER = """
import sys
from repertory.replay import server
from tests.replay import scripts, writers_test
with server.ReplayServer([scripts.fifo(writers_test.signature(1))]) as running:
    print(running.port, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def server_process():
    """Returns a process that serves table `t`, and its address."""
    with subprocess.Popen(
        [sys.executable, '-c', SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=pathlib.Path(__file__).parents[2],
        env={**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '2'},
    ) as process:
        yield process, f'localhost:{process.stdout.readline().strip()}'
        process.kill()


def test_busy_server_is_waited_for_and_dead_one_is_an_error(
    server_process, monkeypatch
):
    process, address = server_process
    monkeypatch.setattr(writers, '_UNREACHABLE_SECONDS', 1.0)
    reasons = []

    def wait(reason, waited_seconds):
        reasons.append(reason)
        assert waited_seconds < 60, reason
        # Of a stopped process the port takes connections, as of a busy one.
        if sum('is busy' in reason for reason in reasons) >= 2:
            process.send_signal(signal.SIGCONT)

    writer = writers.RowWriter(address, 't', 1, 1, wait)
    reasons.clear()  # It may have been busy as it started.
    process.send_signal(signal.SIGSTOP)
    while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)  # On a busy machine it lives on for a moment.
    writer.append(0, row(1))
    writer.create_item(0, 1.0)
    writer.flush()
    assert f'the replay server at {address}, which is busy' in reasons[0]
    [table] = info.table_statistics(address)
    assert table.inserts == 1

    process.kill()
    process.wait()
    writer.append(0, row(2))
    writer.create_item(0, 1.0)
    with pytest.raises(
        ConnectionError,
        match=f'server at {address} does not answer, for .* in table `t` are lost',
    ):
        writer.flush()
    writer.close()
