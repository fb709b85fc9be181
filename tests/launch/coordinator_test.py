import json

import pytest

from repertory.launch import coordinator as coordinator_lib
from repertory.launch import progress


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def make(roles=('actor_0', 'actor_1', 'learner'), clock=None, path=None, **budget):
    return coordinator_lib.Coordinator(
        progress.Budget(**budget),
        roles,
        path,
        progress.Patience(),
        clock or Clock(),
    )


def test_leases_never_exceed_the_budget():
    coordinator = make(actor_steps=100)
    first = coordinator.heartbeat('actor_0', wanted=64)
    second = coordinator.heartbeat('actor_1', wanted=64)
    assert (first['granted'], first['exhausted']) == (64, False)
    assert (second['granted'], second['exhausted']) == (36, True)


def test_steps_not_used_go_back_to_the_budget():
    coordinator = make(actor_steps=100)
    coordinator.heartbeat('actor_0', wanted=100)
    # 60 done and 20 still held: the other 20 were given back.
    coordinator.heartbeat('actor_0', counts={'steps': 60}, lease=20)
    assert coordinator.heartbeat('actor_1', wanted=100)['granted'] == 20


def test_a_heartbeat_that_comes_twice_counts_once():
    coordinator = make(actor_steps=100)
    for _ in range(2):
        coordinator.heartbeat('actor_0', 'a', counts={'steps': 30, 'episodes': 2})
    assert coordinator.counts()['actor_steps'] == 30
    assert coordinator.counts()['actor_episodes'] == 2


def test_a_restarted_role_counts_on():
    coordinator = make(actor_steps=100)
    coordinator.heartbeat('actor_0', 'a', counts={'steps': 30})
    coordinator.heartbeat('actor_0', 'b', counts={'steps': 10})
    assert coordinator.counts()['actor_steps'] == 40


def test_evaluation_steps_are_no_actor_steps():
    coordinator = make(actor_steps=100, roles=('actor_0', 'evaluator'))
    coordinator.heartbeat('evaluator', counts={'steps': 1000})
    assert coordinator.phase == 'run'


@pytest.mark.parametrize(
    ('budget', 'role', 'news', 'reason'),
    [
        ({'actor_steps': 10}, 'actor_0', {'counts': {'steps': 10}}, 'max_actor_steps'),
        (
            {'learner_steps': 10},
            'learner',
            {'counts': {'steps': 11}},
            'max_learner_steps',
        ),
        (
            {'target_return': 0.9},
            'evaluator',
            {'metrics': {'lower_of_two_returns': 0.95}},
            'target_return',
        ),
    ],
)
def test_a_spent_budget_ends_the_run(budget, role, news, reason):
    coordinator = make(roles=('actor_0', 'learner', 'evaluator'), **budget)
    coordinator.heartbeat('actor_1')
    assert coordinator.heartbeat('actor_0')['phase'] == 'run'
    assert coordinator.heartbeat(role, **news)['phase'] != 'run'
    assert reason in coordinator.reason


def test_an_actors_return_does_not_reach_the_target():
    coordinator = make(target_return=0.9)
    coordinator.heartbeat('actor_0', metrics={'lower_of_two_returns': 1.0})
    assert coordinator.phase == 'run'


def test_seconds_end_the_run_and_continue_after_a_resume():
    clock = Clock()
    coordinator = make(clock=clock, seconds=100)
    coordinator.restore({'seconds': 95.0, 'actor_steps': 7})
    coordinator.tick()
    assert coordinator.phase == 'run'
    clock.now = 5.0
    coordinator.tick()
    assert coordinator.phase != 'run'
    assert coordinator.counts() == {'seconds': 100.0, 'actor_steps': 7}


def test_phases_follow_when_everybody_is_done():
    roles = 'actor_0', 'learner', 'evaluator'
    coordinator = make(roles=roles, actor_steps=10)
    for role in roles:
        coordinator.heartbeat(role)
    assert coordinator.heartbeat('actor_0', counts={'steps': 10})['phase'] == 'drain'
    assert coordinator.heartbeat('learner')['phase'] == 'drain'
    assert coordinator.heartbeat('actor_0', done=True, leaves=True)['phase'] == 'save'
    answer = coordinator.heartbeat('learner', done=True)
    assert answer['phase'] == 'final_evaluation'
    assert coordinator.heartbeat('evaluator', done=True)['phase'] == 'exit'
    assert not coordinator.finished
    coordinator.heartbeat('learner')
    assert coordinator.finished


def test_the_first_learner_saves_once_the_others_have_written_back():
    roles = 'actor_0', 'learner', 'learner_1'
    coordinator = make(roles=roles, actor_steps=10)
    for role in roles:
        coordinator.heartbeat(role)
    coordinator.request_stop('test')
    assert coordinator.heartbeat('actor_0', done=True)['phase'] == 'drain'
    assert coordinator.heartbeat('learner')['phase'] == 'drain'
    assert coordinator.heartbeat('learner_1', done=True)['phase'] == 'save'
    assert coordinator.heartbeat('learner', done=True)['phase'] == 'exit'


def test_all_hear_who_is_lost():
    coordinator = make(roles=('learner', 'learner_1'), actor_steps=10)
    assert coordinator.heartbeat('learner')['lost'] == []
    coordinator.lose('learner_1', 'was killed')
    assert coordinator.heartbeat('learner')['lost'] == ['learner_1']


def test_a_requested_stop_skips_the_final_evaluation():
    roles = 'actor_0', 'learner', 'evaluator'
    coordinator = make(roles=roles, actor_steps=10)
    for role in roles:
        coordinator.heartbeat(role)
    coordinator.request_stop('Ctrl-C')
    coordinator.heartbeat('actor_0', done=True)
    assert coordinator.heartbeat('learner', done=True)['phase'] == 'exit'
    assert coordinator.reason == 'Ctrl-C'
    assert not coordinator.failure


def test_a_stop_during_the_final_evaluation_ends_it():
    roles = 'actor_0', 'learner', 'evaluator'
    coordinator = make(roles=roles, actor_steps=10)
    for role in roles:
        coordinator.heartbeat(role)
    coordinator.heartbeat('actor_0', counts={'steps': 10}, done=True)
    answer = coordinator.heartbeat('learner', done=True)
    assert answer['phase'] == 'final_evaluation'
    coordinator.request_stop('Ctrl-C')
    assert coordinator.heartbeat('evaluator')['phase'] == 'exit'
    assert coordinator.reason == 'max_actor_steps of 10 reached'
    assert not coordinator.failure


def test_a_lost_node_is_not_waited_for():
    roles = 'actor_0', 'learner', 'evaluator'
    coordinator = make(roles=roles, actor_steps=10)
    for role in roles:
        coordinator.heartbeat(role)
    coordinator.lose('actor_0', 'was killed by signal 9')
    assert coordinator.phase == 'save'
    assert coordinator.heartbeat('learner', done=True)['phase'] == 'exit'
    assert coordinator.failure == 'actor_0: was killed by signal 9'


def test_a_silent_node_fails_the_run_by_name():
    clock = Clock()
    coordinator = make(clock=clock, actor_steps=10)
    for role in 'actor_0', 'actor_1', 'learner':
        coordinator.heartbeat(role)
    clock.now = 50.0
    coordinator.heartbeat('actor_0')
    coordinator.heartbeat('learner')
    clock.now = 61.0
    coordinator.tick()
    assert coordinator.failure.startswith('actor_1: has not answered for 61 s')
    assert coordinator.phase == 'drain'


def test_a_node_that_never_starts_fails_the_run_by_name():
    clock = Clock()
    coordinator = make(clock=clock, roles=('actor_0',), actor_steps=10)
    clock.now = 301.0
    coordinator.tick()
    assert coordinator.failure.startswith('actor_0: has not started for 301 s')
    assert coordinator.phase == 'exit'


def test_a_phase_that_does_not_end_names_who_is_late():
    clock = Clock()
    coordinator = make(clock=clock, actor_steps=10)
    for role in 'actor_0', 'actor_1', 'learner':
        coordinator.heartbeat(role)
    coordinator.request_stop('test')
    coordinator.heartbeat('actor_0', done=True)
    for clock.now in (30.0, 59.0, 61.0):
        coordinator.heartbeat('learner')
        coordinator.heartbeat('actor_1')
    assert coordinator.failure.startswith('actor_1: did not end the phase drain')
    assert coordinator.phase == 'save'


def test_a_coordinator_continues_from_the_status_of_one_that_died():
    clock = Clock()
    first = make(clock=clock, actor_steps=1000, learner_steps=500)
    first.restore({'actor_steps': 100, 'seconds': 50.0})
    first.heartbeat('actor_0', 'a', counts={'steps': 30}, metrics={'x': 1})
    first.heartbeat('actor_1', 'b', counts={'steps': 20}, lease=40)
    clock.now = 10.0
    status = json.loads(json.dumps(first.status()))
    # What comes after the last status is told again in the totals.
    first.heartbeat('actor_0', 'a', counts={'steps': 35})

    second = make(clock=Clock(), actor_steps=1000, learner_steps=500)
    second.continue_from(status)
    assert second.counts() == {'actor_steps': 150, 'seconds': 60.0}
    assert second.status()['nodes']['actor_0']['metrics'] == {'x': 1}
    answer = second.heartbeat('actor_0', 'a', counts={'steps': 45}, wanted=1000)
    assert answer['counts']['actor_steps'] == 100 + 45 + 20
    assert answer['granted'] == 1000 - 165 - 40  # actor_1 still holds its lease.
    assert second.heartbeat('learner', 'c', counts={'steps': 7})['phase'] == 'run'


def test_a_coordinator_that_died_while_the_run_ended_ends_it():
    first = make(roles=('actor_0', 'learner', 'evaluator'), actor_steps=10)
    for role in 'actor_0', 'learner', 'evaluator':
        first.heartbeat(role)
    first.lose('evaluator', 'was killed')
    second = make(roles=('actor_0', 'learner', 'evaluator'), actor_steps=10)
    second.continue_from(json.loads(json.dumps(first.status())))
    assert (second.phase, second.failure) == ('drain', 'evaluator: was killed')
    assert second.heartbeat('actor_0', done=True)['phase'] == 'save'
    # In a hurry, without the evaluation that nobody could play.
    assert second.heartbeat('learner', done=True)['phase'] == 'exit'


def test_who_had_ended_is_not_waited_for_by_the_coordinator_that_follows():
    first = make(roles=('actor_0', 'actor_1', 'learner'), actor_steps=10)
    for role in 'actor_0', 'actor_1', 'learner':
        first.heartbeat(role)
    first.heartbeat('actor_0', counts={'steps': 10})
    assert first.heartbeat('actor_0', done=True)['phase'] == 'drain'
    second = make(roles=('actor_0', 'actor_1', 'learner'), actor_steps=10)
    second.continue_from(json.loads(json.dumps(first.status())))
    assert second.heartbeat('actor_1', done=True)['phase'] == 'save'


def test_status_is_whole_json_with_rates_and_time_left(tmp_path):
    clock, path = Clock(), tmp_path / 'status.json'
    coordinator = make(clock=clock, path=path, actor_steps=1000)
    coordinator.heartbeat('actor_0')
    clock.now = 2.0
    coordinator.heartbeat('actor_0', counts={'steps': 200}, metrics={'x': 1.5})
    status = json.loads(path.read_text())
    assert status['counts'] == {'actor_steps': 200, 'seconds': 2.0}
    assert status['rates']['actor_steps'] == pytest.approx(100.0)
    assert status['seconds_left'] == pytest.approx(8.0)
    assert status['nodes']['actor_0']['metrics'] == {'x': 1.5}
    assert status['starting'] == ['actor_1', 'learner']
    assert [p.name for p in tmp_path.iterdir()] == ['status.json']
