from __future__ import annotations

import pytest

from benchmarks import harness

SHORT = ['--seconds', '0.3', '--warm-up-seconds', '0.1']


@pytest.mark.slow
@pytest.mark.parametrize('subcommand', ['act', 'add'])
def test_what_an_actor_or_adder_wrote_is_in_the_table(subcommand):
    side = harness.own_side('actor', ['--agent', 'apex_dqn', '--lanes', '2'])
    with side.serve() as server:
        options = ['--address', server['address'], *SHORT]
        result = side.run(subcommand, options, 60)
    # An episode of 9 steps is as many windows; one that goes on has fewer.
    assert server['items'] >= result['steps'] - 2 * 9 > 0
    assert result['steps_per_second'] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    'script, subcommand, flags',
    [
        ('environment', 'bare', []),
        ('environment', 'vectorized', []),
        ('learner', 'learn', ['--items', '100', '--batch-size', '16']),
        ('learner', 'learn', ['--items', '100', '--data', 'replay']),
        ('learner', 'sample', ['--items', '100', '--observation-size', '8']),
    ],
)
def test_our_side_measures(script, subcommand, flags):
    result = harness.own_side(script, flags).run(subcommand, SHORT, 60)
    assert result['steps'] > 0
    assert result['seconds'] >= 0.3
    assert result['steps_per_second'] == result['steps'] / result['seconds']


@pytest.mark.slow
@pytest.mark.parametrize('flags', [[], ['--changing']])
def test_our_side_measures_what_parameters_take(flags):
    side = harness.own_side('fetch', flags)
    with side.serve() as server:
        result = side.run('fetch', ['--address', server['address'], *SHORT], 60)
    assert 0 < result['calls'] < 300 + 1
    assert result['longest_microseconds'] >= result['microseconds_per_step']


@pytest.mark.slow
def test_our_side_says_when_the_mark_was_reached():
    side = harness.own_side('whole', ['--launch', 'sync'])
    options = ['--task', 'catch', '--mark', '-1', '--period-seconds', '0.1']
    result = side.run('learn', [*options, '--episodes', '1', '--seconds', '60'], 90)
    assert result['reached_at'] is not None
    assert result['actor_steps'] >= 0
