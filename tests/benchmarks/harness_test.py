from __future__ import annotations

import argparse
import json
import sys

import pytest

from benchmarks import __main__ as main
from benchmarks import harness, records, timing, whole
from repertory.components import allocator

SERVER = """
import json, sys
if sys.argv[1] == 'serve':
    print(json.dumps({'address': 'here'}), flush=True)
    sys.stdin.read()
    print(json.dumps({'items': 3}))
elif sys.argv[2:] == ['--good']:
    print('noise')
    print(json.dumps({'steps': 7}))
else:
    sys.exit('it broke')
"""


@pytest.fixture
def side() -> harness.Side:
    return harness.Side(name='fake', command=[sys.executable, '-c', SERVER])


def test_pairs_take_turns_in_who_begins():
    order = []

    def make(name):
        return lambda index: order.append(name) or {'name': name, 'index': index}

    pairs = harness.run_pairs(2, make('first'), make('second'))
    assert order == ['first', 'second', 'second', 'first']
    assert pairs[1] == (
        {'name': 'first', 'index': 1},
        {'name': 'second', 'index': 1},
    )


def test_the_summary_is_of_paired_ratios():
    # The quotient of the medians, 2.5, is not the median of the quotients.
    summary = harness.summary([(10, 2), (20, 10), (30, 8)])
    assert summary['median_first'] == 20
    assert summary['median_second'] == 8
    assert summary['median_ratio'] == 3.75
    assert (summary['min_ratio'], summary['max_ratio']) == (2, 5)


def test_a_server_says_where_it_is_and_at_its_end_what_it_holds(side):
    with side.serve() as said:
        assert said == {'address': 'here'}
        assert side.run('act', ['--good'], 10) == {'steps': 7}
    assert said == {'address': 'here', 'items': 3}


def test_what_a_failed_actor_wrote_is_shown(side):
    with pytest.raises(RuntimeError, match='fake failed:\nit broke'):
        side.run('act', ['--bad'], 10)


def test_what_a_failed_server_wrote_is_shown():
    side = harness.Side(name='fake', command=[sys.executable, '-c', 'exit("no port")'])
    with pytest.raises(RuntimeError, match='fake failed:\nno port'):
        with side.serve():
            pass


def test_a_comparison_is_written_with_versions_and_command(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, 'argv', ['benchmarks/__main__.py', 'actor', '--quick'])
    sides = tuple(
        harness.Side(name=name, command=[sys.executable]) for name in ('ours', 'theirs')
    )
    speeds = {'ours': 30.0, 'theirs': 10.0}
    row = harness.compare(
        argparse.Namespace(pairs=2, seed=5, results=tmp_path),
        'actor_fake',
        'steps/s',
        sides,
        lambda side, pair: {'steps_per_second': speeds[side.name] + pair},
    )
    written = json.loads((tmp_path / 'actor_fake.json').read_text())
    assert written['command'] == 'python -m benchmarks actor --quick'
    assert written['seed'] == 5
    assert written['allocator'] == records.own_allocator()
    assert written['versions']['ours']['tensorflow'] == '2.8.4'
    assert written['pairs'][1][0] == {'steps_per_second': 31.0}
    assert row['median_first'] == 30.5
    [line] = [x for x in records.table([row]).splitlines() if 'actor_fake' in x]
    assert '30.5 | 10.5 (theirs) | 2.91 (2.82 ... 3)' in line


def test_the_table_says_which_runs_a_limit_ended():
    summary = harness.summary([(20, 180), (30, 90), (40, 180)], limit=180)
    assert summary['ended_by_limit'] == [0, 2]
    row = {'name': 'whole', 'unit': 's', 'second': 'theirs', **summary}
    [line] = [x for x in records.table([row]).splitlines() if 'whole' in x]
    assert '| 30 | >180 (theirs) | <0.222 (0.111 ... 0.333)' in line


@pytest.mark.parametrize(
    'pair, ratio', [((180, 90), '>2 '), ((180, 180), '?1 '), ((90, 90), '| 1 ')]
)
def test_a_ratio_with_a_limit_in_it_is_the_bound_that_it_is(pair, ratio):
    summary = harness.summary([pair], limit=180)
    row = {'name': 'whole', 'unit': 's', 'second': 'theirs', **summary}
    assert ratio in records.table([row])


def test_a_whole_run_counts_from_its_command_up_to_the_limit(monkeypatch):
    clock = iter([1_000.0, 1_011.0, 2_000.0, 2_250.0])
    monkeypatch.setattr(whole.time, 'time', lambda: next(clock))
    reached = iter([1_009.0, 2_190.0])
    side = argparse.Namespace(run=lambda *_: {'reached_at': next(reached)})
    early, late = (whole.run_to_mark(side, 'catch', 0, 180.0, 2.0) for _ in range(2))
    assert early == {
        'reached': True,
        'seconds': 9.0,
        'seconds_until_its_process_ended': 11.0,
    }
    assert (late['reached'], late['seconds']) == (False, 180.0)


def test_each_whole_run_of_a_peer_stands_beside_all_of_ours(tmp_path, monkeypatch):
    taken = {'sync': 30.0, 'processes': 20.0, 'acme': 180.0, 'sb3': 60.0}
    started = []

    def make(name):
        return harness.Side(name=name, command=[sys.executable])

    def run_to_mark(side, task, seed, limit_seconds, period_seconds):
        started.append((side.name, seed))
        return {
            'reached': taken[side.name] < limit_seconds,
            'seconds': taken[side.name],
        }

    monkeypatch.setattr(harness, 'own_side', lambda script, flags: make(flags[-1]))
    monkeypatch.setattr(harness, 'peer_side', lambda args, peer, *_: make(peer))
    monkeypatch.setattr(whole, 'run_to_mark', run_to_mark)
    args = main.parse(['--launch', 'sync', 'processes', '--task', 'cartpole'])
    args.pairs, args.seed, args.results = 2, 5, tmp_path
    rows = {row['name']: row for row in whole.run(args)}
    names = ['sync', 'processes', 'acme', 'sb3']
    assert started == [(x, 5) for x in names] + [(x, 6) for x in names[::-1]]
    assert {path.stem for path in tmp_path.iterdir()} == set(rows)
    assert rows['whole_cartpole_processes_sb3']['median_ratio'] == pytest.approx(1 / 3)
    assert rows['whole_cartpole_sync_acme']['ended_by_limit'] == [0, 2]
    assert len(rows) == 4


def test_what_is_measured_alone_has_no_ratio():
    row = {'name': 'memory', 'unit': 'bytes', 'median_first': 12.0}
    assert records.table([row]).splitlines()[-1] == '| memory | bytes | 12 |  |  |'


def test_an_unknown_benchmark_is_refused(capsys):
    with pytest.raises(SystemExit):
        main.parse(['actor', 'nonsense'])
    assert 'got nonsense' in capsys.readouterr().err


def test_a_quick_run_leaves_the_results_alone():
    args = main.parse(['actor', '--quick'])
    assert (args.pairs, args.seconds) == (1, 2.0)
    assert args.results != records.RESULTS


def test_results_of_other_options_have_names_of_their_own():
    options = 'lanes', 'items', 'updates_per_call', 'peer_allocator'
    assert harness.variant(main.parse([]), *options) == ''
    args = main.parse(['actor', '--lanes', '64', '--updates-per-call', '1'])
    assert harness.variant(args, *options) == '_lanes_64_updates_per_call_1'
    args = main.parse(['actor', '--peer-allocator'])
    assert harness.variant(args, *options) == '_peer_allocator'


@pytest.mark.parametrize(
    ('set_to', 'found', 'name'),
    [
        (None, '/a/libjemalloc.so.2', 'libjemalloc.so.2'),
        (None, None, 'libc'),
        ('', '/a/libjemalloc.so.2', 'libc'),
        ('/b/libtcmalloc.so.4', '/a/libjemalloc.so.2', 'libtcmalloc.so.4'),
        ('/c/one.so:/b/libmalloc.so /d.so', None, 'libmalloc.so'),
        ('/b/libstdbuf.so', '/a/libjemalloc.so.2', 'libc'),
    ],
)
def test_the_allocator_of_our_sides_is_named(monkeypatch, set_to, found, name):
    monkeypatch.delenv(allocator.VARIABLE, raising=False)
    if set_to is not None:
        monkeypatch.setenv(allocator.VARIABLE, set_to)
    monkeypatch.setattr(allocator, 'find', lambda: found)
    assert records.own_allocator() == name
    chosen = {} if set_to is not None or found is None else {'LD_PRELOAD': found}
    assert harness.own_side('actor', []).variables == chosen


@pytest.mark.parametrize('own', [None, '', 'y'])
def test_the_peer_has_our_allocator_only_if_asked(monkeypatch, own):
    monkeypatch.setattr(harness, 'peer_python', lambda peer: 'python')
    monkeypatch.setattr(allocator, 'find', lambda: 'x')
    monkeypatch.delenv(allocator.VARIABLE, raising=False)
    if own is not None:
        monkeypatch.setenv(allocator.VARIABLE, own)

    def variables(*options):
        args = main.parse(['actor', *options])
        return harness.peer_side(args, 'acme', 'actor', []).variables

    assert variables() == {'LD_PRELOAD': ''}
    expected = {'LD_PRELOAD': 'x' if own is None else own}
    assert variables('--peer-allocator') == expected


def test_timing_counts_what_comes_after_the_warm_up(monkeypatch):
    now = iter(range(1_000))
    monkeypatch.setattr(timing.time, 'perf_counter', lambda: float(next(now)))
    args = argparse.Namespace(seconds=10.0, warm_up_seconds=3.0)
    ends = []
    result = timing.measure(args, lambda: 5, lambda: ends.append(None))
    # The clock, which moves on by one each time it is asked, is asked once a step.
    assert (result['steps'], result['calls']) == (5 * 9, 9)
    assert result['earlier_steps'] == 5 * (1 + 2)
    assert result['seconds'] == 11
    assert len(ends) == 2
