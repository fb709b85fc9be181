"""The environment loop: step counts, returns, and a fair choice of episodes."""

import pytest

from repertory.components import core, environment_loop
from repertory.components.environments import vector
from tests import fakes


def make(episodes_by_lane):
    lanes = [fakes.ScriptedEnvironment(e, False) for e in episodes_by_lane]
    return vector.SerialVectorEnvironment(lanes)


def test_steps_returns_and_lengths():
    environment = make([[[1, 2, 3]], [[5]]])
    episodes = []
    loop = environment_loop.EnvironmentLoop(environment, fakes.Idle(2), episodes.append)
    counts = [loop.step() for _ in range(4)]
    # Lane 1 begins anew at each second step, lane 0 at the fourth: no step of either.
    assert counts == [2, 1, 2, 0]
    assert [(e.lane, e.episode_return, e.length) for e in episodes] == [
        (1, 5, 1),
        (0, 6, 3),
        (1, 5, 1),
    ]


@pytest.mark.parametrize('goes_on', [True, False])
def test_an_action_is_recorded_while_the_lanes_step_without_this_thread(goes_on):
    calls = []

    class Lanes(vector.SerialVectorEnvironment):
        def begin_step(self, action):
            calls.append('begin')
            super().begin_step(action)
            return goes_on

        def end_step(self):
            calls.append('end')
            return super().end_step()

    class Recording(fakes.Idle):
        def record(self, action):
            calls.append('record')

        def observe(self, action, next_timestep):
            calls.append('observe')

    lanes = Lanes([fakes.ScriptedEnvironment([[1, 2]], False)])
    environment_loop.EnvironmentLoop(lanes, Recording(1), print).step()
    assert calls == ['begin', *['record'] * goes_on, 'end', 'observe']


def test_each_lane_plays_its_share_of_episodes():
    environment = make([[[1] * 10], [[2]], [[3]]])
    episodes = environment_loop.run_episodes(environment, fakes.Idle(3), 4)
    assert sorted(e.episode_return for e in episodes) == [2, 3, 10, 10]


def test_an_evaluation_can_be_ended_early():
    def stop():
        raise core.Stopped

    with pytest.raises(core.Stopped):
        environment_loop.run_episodes(make([[[1]]]), fakes.Idle(1), 1, stop)


def test_no_episode_is_refused():
    with pytest.raises(ValueError, match='num_episodes must be >= 1, got 0'):
        environment_loop.run_episodes(make([[[1]]]), fakes.Idle(1), 0)
