from __future__ import annotations

import sys

import pytest

from benchmarks import harness

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
        assert side.act(['--good'], 10) == {'steps': 7}
    assert said == {'address': 'here', 'items': 3}


def test_what_a_failed_actor_wrote_is_shown(side):
    with pytest.raises(RuntimeError, match='fake failed:\nit broke'):
        side.act(['--bad'], 10)


def test_what_a_failed_server_wrote_is_shown():
    side = harness.Side(name='fake', command=[sys.executable, '-c', 'exit("no port")'])
    with pytest.raises(RuntimeError, match='fake failed:\nno port'):
        with side.serve():
            pass
