"""How learners that learn as one meet, and give each other up."""

import threading

import launchpad as lp
import pytest

from repertory.components import collectives, core
from repertory.launch import control as control_lib
from repertory.launch import coordinator as coordinator_lib
from repertory.launch import learner_worker, learners, progress, remote


@pytest.fixture
def coordinator():
    return coordinator_lib.Coordinator(
        progress.Budget(actor_steps=100), ['learner', 'learner_1', 'actor_0']
    )


@pytest.fixture
def control(coordinator):
    with control_lib.NodeControl('learner_1', coordinator) as control:
        yield control


class Group:
    """Notes why it was given up."""

    def __init__(self):
        self.aborted, self.reason = threading.Event(), ''

    def abort(self, reason):
        self.reason = reason
        self.aborted.set()


def test_who_starts_when_the_run_ends_meets_nobody(coordinator):
    coordinator.request_stop('test')
    with control_lib.NodeControl('learner_1', coordinator) as control:
        # Addresses that nobody has bound: to meet there would raise.
        assert learners._meet([lp.Address(), lp.Address()], 1, control) is None


def watch(group, control):
    threading.Thread(target=learners._watch, args=(group, control), daemon=True).start()


def test_the_loss_of_a_learner_ends_the_waits_for_it(coordinator, control):
    group = Group()
    watch(group, control)
    coordinator.lose('actor_0', 'was killed')
    assert not group.aborted.wait(1.0)
    coordinator.lose('learner', 'was killed')
    assert group.aborted.wait(5.0)
    assert group.reason == 'learner is gone'


def test_a_run_that_ends_ends_the_waits_for_who_started_again(
    coordinator, control, monkeypatch
):
    monkeypatch.setattr(learners, '_LEAVE_SECONDS', 0.5)
    group = Group()
    watch(group, control)
    assert not group.aborted.wait(1.0)
    coordinator.request_stop('test')
    assert group.aborted.wait(5.0)
    assert group.reason == 'the run ends'


class Lonely:
    """A learner whose others are gone."""

    def join(self, group):
        raise collectives.PeerLostError('the others are gone')


def test_who_finds_nobody_goes_on_alone_only_where_the_run_ends(
    coordinator, control, monkeypatch
):
    monkeypatch.setattr(learner_worker, '_LOST_SECONDS', 0.2)
    with pytest.raises(collectives.PeerLostError, match='the others are gone'):
        learner_worker.join(Lonely(), Group(), control)
    coordinator.request_stop('test')
    learner_worker.join(Lonely(), Group(), control)
    learner_worker.join(Lonely(), None, control)


class Writes:
    """Notes when it is flushed."""

    def __init__(self, coordinator):
        self._coordinator, self.flushed_in = coordinator, ''

    def step(self):
        raise core.Stopped

    def flush(self):
        self.flushed_in = self._coordinator.phase

    def close(self):
        pass


def test_a_follower_writes_priorities_back_before_the_run_is_saved(
    coordinator, control
):
    learner = Writes(coordinator)
    follower = learner_worker.Follower(learner, iter(()), control)
    coordinator.heartbeat('actor_0', done=True)
    coordinator.heartbeat('learner')
    coordinator.request_stop('test')
    thread = threading.Thread(target=follower.run, daemon=True)
    thread.start()
    assert control.wait_until('save', 5.0)
    assert learner.flushed_in == 'drain'
    coordinator.heartbeat('learner', done=True)
    thread.join(10.0)
    assert not thread.is_alive()


def test_actors_wait_for_longer_than_learners_may_take_to_meet():
    assert remote._GIVE_UP_SECONDS > progress.RESTARTING.answer
    assert remote._GIVE_UP_SECONDS > collectives._START_SECONDS
