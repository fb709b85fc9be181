import threading
import time

import pytest

from repertory.components import core
from repertory.launch import control as control_lib
from repertory.launch import coordinator as coordinator_lib
from repertory.launch import progress


def act(role, coordinator, num_lanes, first_steps=0):
    """Steps until told to stop; each tenth vector step holds FIRST lanes."""
    with control_lib.NodeControl(role, coordinator) as control:
        number = 0
        while control.take_steps(num_lanes):
            number += 1
            control.count_steps(num_lanes - (first_steps if number % 10 == 0 else 0))
        control.done()


@pytest.mark.parametrize('num_actors', [1, 2, 4])
@pytest.mark.parametrize('limit', [5, 2000])
def test_the_budget_is_exceeded_by_at_most_a_vector_step_an_actor(num_actors, limit):
    roles = [f'actor_{index}' for index in range(num_actors)]
    coordinator = coordinator_lib.Coordinator(progress.Budget(actor_steps=limit), roles)
    threads = [
        threading.Thread(target=act, args=(role, coordinator, 16, 5)) for role in roles
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert limit <= coordinator.counts()['actor_steps'] < limit + 16 * num_actors
    assert coordinator.phase == 'exit'


def test_one_thread_needs_no_heartbeat_thread():
    coordinator = coordinator_lib.Coordinator(
        progress.Budget(actor_steps=1000), ['actor_0']
    )
    before = threading.active_count()
    control = control_lib.NodeControl('actor_0', coordinator, background=False)
    steps = 0
    while control.take_steps(10):
        steps += 10
        control.count_steps(10)
        assert threading.active_count() == before
    assert steps == 1000
    control.done()
    assert control.phase == 'exit'
    assert control.counts['actor_steps'] == 1000


def test_in_one_thread_a_target_return_ends_the_run_as_soon_as_it_is_reported():
    coordinator = coordinator_lib.Coordinator(
        progress.Budget(target_return=5.0), ['actor_0', 'evaluator']
    )
    actor, evaluator = (
        control_lib.NodeControl(role, coordinator, background=False)
        for role in ('actor_0', 'evaluator')
    )
    assert actor.take_steps(1) and not evaluator.stopping
    evaluator.report({'lower_of_two_returns': 4.0})
    assert coordinator.phase == 'run'
    evaluator.report({'lower_of_two_returns': 6.0})
    assert 'target_return of 5 reached: 6' in coordinator.reason


def test_wait_raises_stopped_once_the_run_ends():
    coordinator = coordinator_lib.Coordinator(
        progress.Budget(actor_steps=1), ['actor_0']
    )
    with control_lib.NodeControl('actor_0', coordinator) as control:
        control.wait('a table', 1.0)
        coordinator.request_stop('test')
        assert control.wait_until('drain', seconds=5)
        with pytest.raises(core.Stopped, match='actor_0 stopped while .* a table'):
            control.wait('a table', 2.0)
        assert control.take_steps(1) == 0
        assert control.wait_until('drain', 5)
        assert not control.wait_until('exit', seconds=0.05)


def test_a_node_that_is_stopped_as_it_waits_has_not_failed():
    coordinator = coordinator_lib.Coordinator(progress.Budget(), ['actor_0'])
    coordinator.request_stop('test')
    with control_lib.NodeControl('demonstrator', coordinator) as control:
        assert control.wait_until('drain', seconds=5)
        control.wait('a table', 1.0)
        pytest.fail('not stopped')
    with pytest.raises(ZeroDivisionError), control:
        raise ZeroDivisionError


def test_wait_tells_the_coordinator_after_some_seconds():
    coordinator = coordinator_lib.Coordinator(
        progress.Budget(actor_steps=1), ['learner']
    )
    control = control_lib.NodeControl('learner', coordinator, background=False)
    control.wait('120 of 1000 items', 1.0)
    control.report({})
    assert coordinator.status()['nodes']['learner']['waits_for'] == ''
    control.wait('120 of 1000 items', 6.0)
    control.done()
    assert coordinator.status()['nodes']['learner']['waits_for'] == '120 of 1000 items'


def test_wait_logs_after_five_seconds_then_each_thirty(caplog):
    coordinator = coordinator_lib.Coordinator(
        progress.Budget(actor_steps=1), ['learner']
    )
    control = control_lib.NodeControl('learner', coordinator, background=False)
    for second in range(70):
        control.wait('120 of 1000 items', second)
    assert len(caplog.records) == 3  # At 5, 35 and 65 s.
    assert 'learner waits: 120 of 1000 items' in caplog.text


class Dead:
    def heartbeat(self, *unused, **also_unused):
        raise ConnectionError('nobody is there')


def test_an_unreachable_coordinator_is_an_error_that_says_so():
    with control_lib.NodeControl('actor_0', Dead(), start_seconds=0.2) as control:
        with pytest.raises(
            RuntimeError, match='not answered actor_0 .* nobody is there'
        ):
            control.take_steps(1)


class Hanging:
    """A coordinator that answers once, and then takes calls without an answer."""

    def __init__(self):
        self.calls = 0
        self.over = threading.Event()

    def heartbeat(self, *unused, **also_unused):
        self.calls += 1
        if self.calls > 1:
            self.over.wait(20)
        answer = {'phase': 'run', 'granted': 0, 'exhausted': False, 'lost': []}
        return {**answer, 'counts': {'a': 1}}


def test_who_is_asked_to_stop_ends_without_a_coordinator_that_is_gone():
    coordinator, asked = Hanging(), threading.Event()
    begin = time.monotonic()
    with control_lib.NodeControl(
        'replay_0', coordinator, asked_to_stop=asked.is_set
    ) as control:
        assert not control.wait_until('exit', seconds=0.5)
        asked.set()
        assert control.wait_until('exit', seconds=10)
        control.done()
    assert time.monotonic() - begin < 0.5 + 4.0  # What the launcher gives.
    assert coordinator.calls == 2
    coordinator.over.set()


def test_without_being_asked_to_stop_a_silent_coordinator_is_waited_for():
    coordinator = Hanging()
    with control_lib.NodeControl('replay_0', coordinator) as control:
        assert not control.wait_until('exit', seconds=3)
        coordinator.over.set()


def test_taking_steps_from_the_lease_is_quick():
    coordinator = coordinator_lib.Coordinator(
        progress.Budget(actor_steps=10**9), ['actor_0']
    )
    with control_lib.NodeControl('actor_0', coordinator) as control:
        for _ in range(20_000):  # Lets the lease grow to the rate.
            control.take_steps(16)
            control.count_steps(16)
        begin = time.perf_counter()
        for _ in range(20_000):
            control.take_steps(16)
            control.count_steps(16)
        each = (time.perf_counter() - begin) / 20_000
    assert each < 200e-6


def test_reports_reach_the_coordinator():
    coordinator = coordinator_lib.Coordinator(
        progress.Budget(actor_steps=1), ['evaluator']
    )
    with control_lib.NodeControl('evaluator', coordinator) as control:
        control.report({'episode_return': 0.5})
    metrics = coordinator.status()['nodes']['evaluator']['metrics']
    assert metrics == {'episode_return': 0.5}
