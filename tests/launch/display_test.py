import io

import pytest
import rich.console

from repertory.launch import coordinator as coordinator_lib
from repertory.launch import display, progress


@pytest.fixture
def status():
    clock = iter(range(100))
    coordinator = coordinator_lib.Coordinator(
        progress.Budget(actor_steps=1000, target_return=0.9),
        ['actor_0', 'actor_1', 'learner', 'evaluator', 'replay_0'],
        clock=lambda: next(clock),
    )
    coordinator.status()
    for index, value in enumerate((0.5, 0.25)):
        coordinator.heartbeat(
            f'actor_{index}',
            counts={'steps': 200},
            metrics={'episode_return': value, 'policy_lag': 10 * index},
        )
    coordinator.heartbeat('evaluator', metrics={'episode_return': 0.75})
    coordinator.heartbeat(
        'replay_0',
        metrics={
            'size': 1500,
            'max_size': 20000,
            'samples_per_insert': 7.96,
            'samples_per_insert_asked': 8.0,
            'memory_gib': 1.25,
        },
    )
    return coordinator.status()


def test_figures_are_those_of_the_status(status):
    figures = display.figures(status)
    assert figures['phase'] == 'run'
    assert figures['environment steps'] == '400 (of 1,000)'
    assert figures['return, actors'] == '0.375'
    assert figures['return, evaluator'] == '0.75 (of 0.9)'
    assert figures['replay size'] == '1,500 (of 20,000)'
    assert figures['replay process'] == '1.25 GiB'
    assert figures['samples per insert'] == '7.96 (asked 8)'
    assert figures['policy lag'] == '10 learner steps'
    assert figures['learner steps'] == '0'
    assert figures['time left'] != '-'


def test_no_time_is_left_once_a_run_ends(status):
    status['phase'] = 'exit'
    assert display.figures(status)['time left'] == '-'


def test_a_ratio_without_limit_can_be_shown(status):
    metrics = status['nodes']['replay_0']['metrics']
    metrics['samples_per_insert_asked'] = float('inf')
    assert display.figures(status)['samples per insert'] == '7.96 (asked inf)'


def test_a_status_before_the_first_heartbeat_can_be_shown():
    status = coordinator_lib.Coordinator(progress.Budget(actor_steps=5), ['a']).status()
    line = display.summary_line(status)
    assert 'environment steps: 0 (of 5)' in line
    assert 'starting: a' in line
    assert 'return' not in line


def test_a_table_shows_who_waits_and_what_failed(status):
    status['nodes']['actor_1']['waits_for'] = 'the rate limiter'
    status['failure'] = 'learner: was killed'
    console = rich.console.Console(file=io.StringIO(), width=80)
    console.print(display.make_table(status, 'a run'))
    text = console.file.getvalue()
    for expected in ('a run', 'actor_1 waits', 'the rate limiter', 'was killed'):
        assert expected in text


@pytest.mark.parametrize('terminal', [True, False])
def test_the_last_status_is_shown_at_the_end(status, tmp_path, terminal):
    path, out = tmp_path / 'status.json', io.StringIO()
    console = rich.console.Console(file=out, force_terminal=terminal, width=200)
    with display.Display(path, 'a run', console=console):
        progress.write(path, status)
    assert '400 (of 1,000)' in out.getvalue()


@pytest.mark.parametrize('terminal', [True, False])
def test_warnings_of_nodes_are_shown(status, tmp_path, terminal):
    path, out = tmp_path / 'status.json', io.StringIO()
    console = rich.console.Console(file=out, force_terminal=terminal, width=200)
    with display.Display(path, 'a run', tmp_path, console):
        (tmp_path / 'learner.log').write_text(
            '2026-01-02 03:04:05,678 WARNING repertory.agents.d4pg: vmin [too] high\n'
        )
        progress.write(path, status)
    assert out.getvalue().count('warning: learner: vmin [too] high') == 1
