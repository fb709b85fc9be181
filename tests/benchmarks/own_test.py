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
    # An episode of 9 steps is as many windows; one that goes on has up to 5 fewer.
    written = result['earlier_steps'] + result['steps']
    assert written - 2 * 5 <= server['items'] <= written
    # Of ten vector steps one begins new episodes.
    assert result['steps'] == pytest.approx(1.8 * result['calls'], abs=2)


@pytest.mark.slow
@pytest.mark.parametrize('subcommand, lanes', [('bare', 1), ('vectorized', 3)])
def test_steps_that_begin_an_episode_do_not_count(subcommand, lanes):
    side = harness.own_side('environment', ['--lanes', '3'])
    result = side.run(subcommand, SHORT, 60)
    assert result['steps'] == pytest.approx(0.9 * lanes * result['calls'], abs=lanes)
    assert result['calls'] > 100


@pytest.mark.slow
@pytest.mark.parametrize(
    'subcommand, flags',
    [
        ('learn', ['--batch-size', '16']),
        ('learn', ['--data', 'replay']),
        ('sample', ['--observation-size', '8']),
    ],
)
def test_a_call_is_as_many_learner_steps_or_batches_as_it_is_told(subcommand, flags):
    side = harness.own_side(
        'learner', ['--items', '100', '--updates-per-call', '3', *flags]
    )
    result = side.run(subcommand, SHORT, 60)
    assert result['calls'] > 1
    assert result['steps'] == 3 * result['calls']


@pytest.mark.slow
@pytest.mark.parametrize('flags', [[], ['--changing']])
def test_our_client_asks_once_in_a_hundred_calls(flags):
    side = harness.own_side('fetch', flags)
    with side.serve() as server:
        options = ['--address', server['address'], '--seconds', '0.6']
        result = side.run('fetch', [*options, '--warm-up-seconds', '0'], 60)
    assert 0 < result['calls'] <= 600
    # Before its first call it waits for the first parameters.
    assert server['asked'] == 1 + result['calls'] // 100
    assert result['longest_microseconds'] >= result['microseconds_per_call']


@pytest.mark.slow
def test_our_side_says_when_the_mark_was_reached():
    side = harness.own_side('whole', ['--launch', 'sync'])
    options = ['--task', 'catch', '--mark', '-1', '--period-seconds', '0.1']
    result = side.run('learn', [*options, '--episodes', '1', '--seconds', '60'], 90)
    assert result['reached_at'] is not None
    assert result['actor_steps'] >= 0
