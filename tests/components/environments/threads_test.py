import threading

import numpy as np
import pytest

from repertory.components.environments import catch, threads, vector

_LANES = 5


def make_lanes(kind=catch.Catch, **arguments):
    return [kind(seed=seed, **arguments) for seed in range(_LANES)]


def test_lanes_in_threads_do_what_lanes_in_turn_do():
    serial = vector.SerialVectorEnvironment(make_lanes())
    rng = np.random.default_rng(0)
    with threads.ThreadVectorEnvironment(make_lanes()) as threaded:
        one, other = serial.reset(), threaded.reset()
        for _ in range(60):
            for a, b in zip(one, other, strict=True):
                np.testing.assert_array_equal(a, b)
            action = rng.integers(0, 3, _LANES).astype(serial.spec.actions.dtype)
            one, other = serial.step(action), threaded.step(action)


class Meeting(catch.Catch):
    """Steps only once all lanes are in theirs."""

    def __init__(self, seed, barrier):
        super().__init__(seed=seed)
        self._barrier = barrier

    def step(self, action):
        self._barrier.wait(timeout=20)
        return super().step(action)


def test_all_lanes_are_stepped_at_the_same_time():
    barrier = threading.Barrier(_LANES)
    lanes = make_lanes(Meeting, barrier=barrier)
    with threads.ThreadVectorEnvironment(lanes) as environment:
        environment.reset()
        step = environment.step(np.zeros(_LANES, environment.spec.actions.dtype))
    assert not barrier.broken and (step.discount == 1.0).all()


def test_whoever_has_begun_a_step_goes_on_while_the_lanes_step():
    barrier = threading.Barrier(_LANES + 1)
    with threads.ThreadVectorEnvironment(
        make_lanes(Meeting, barrier=barrier)
    ) as environment:
        environment.reset()
        action = np.zeros(_LANES, environment.spec.actions.dtype)
        environment.begin_step(action)
        barrier.wait(timeout=20)  # No lane is done before.
        assert (environment.end_step().step_type == 1).all()


@pytest.mark.parametrize(
    'kind', [vector.SerialVectorEnvironment, threads.ThreadVectorEnvironment]
)
def test_a_step_begins_and_ends_in_turn(kind):
    with kind(make_lanes()) as environment:
        environment.reset()
        action = np.zeros(_LANES, environment.spec.actions.dtype)
        with pytest.raises(RuntimeError, match='got end_step without one'):
            environment.end_step()
        environment.begin_step(action)
        with pytest.raises(
            RuntimeError, match='begin_step must be followed by end_step, got another'
        ):
            environment.begin_step(action)
        assert (environment.end_step().step_type == 1).all()


class Failing(catch.Catch):
    def __init__(self, seed):
        super().__init__(seed=seed)
        self._fails = seed >= 2
        self._name = f'lane {seed} is broken'

    def step(self, action):
        if self._fails:
            raise OSError(self._name)
        return super().step(action)


def test_what_the_lowest_failing_lane_raises_is_raised():
    with threads.ThreadVectorEnvironment(make_lanes(Failing)) as environment:
        environment.reset()
        with pytest.raises(OSError, match='lane 2 is broken'):
            environment.step(np.zeros(_LANES, environment.spec.actions.dtype))


def test_threads_end_when_it_is_closed():
    before = threading.active_count()
    environment = threads.ThreadVectorEnvironment(make_lanes())
    assert threading.active_count() == before + _LANES
    environment.close()
    environment.close()
    assert threading.active_count() == before
