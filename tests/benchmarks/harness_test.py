from __future__ import annotations

import argparse
import json
import sys

import pytest

from benchmarks import __main__ as main
from benchmarks import harness, records, timing

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
    assert written['versions']['ours']['tensorflow'] == '2.8.4'
    assert written['pairs'][1][0] == {'steps_per_second': 31.0}
    assert row['median_first'] == 30.5
    [line] = [x for x in records.table([row]).splitlines() if 'actor_fake' in x]
    assert '30.5 | 10.5 (theirs) | 2.91 (2.82 ... 3)' in line


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


def test_timing_counts_what_comes_after_the_warm_up(monkeypatch):
    now = iter(range(1_000))
    monkeypatch.setattr(timing.time, 'perf_counter', lambda: float(next(now)))
    args = argparse.Namespace(seconds=10.0, warm_up_seconds=3.0)
    ends = []
    result = timing.measure(args, lambda: 5, lambda: ends.append(None))
    # The clock, which moves on by one each time it is asked, is asked once a step.
    assert result['steps'] == 5 * 9
    assert result['seconds'] == 11
    assert len(ends) == 2
