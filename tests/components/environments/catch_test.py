from __future__ import annotations

import numpy as np
import pytest

from repertory.components.environments import catch
from tests import conformance


def test_it_conforms_to_dm_env():
    conformance.check(lambda: catch.Catch(0), num_steps=60)


def play(environment, policy):
    timestep = environment.reset()
    rewards = []
    while not timestep.last():
        timestep = environment.step(policy(timestep.observation))
        rewards.append(float(timestep.reward))
    return rewards, timestep


def follow(board):
    ball = np.argmax(board[:-1].max(axis=0)) if board[:-1].any() else 0
    return int(np.sign(ball - np.argmax(board[-1]))) + 1


def test_a_paddle_that_follows_the_ball_always_catches():
    environment = catch.Catch(0)
    for _ in range(20):
        rewards, last = play(environment, follow)
        assert rewards == [0] * 8 + [1]
        assert last.discount == 0
        assert last.observation.sum() == 1  # the ball is in the paddle.


def test_a_paddle_in_a_corner_misses_four_times_in_five():
    environment = catch.Catch(1)
    returns = [sum(play(environment, lambda _: 0)[0]) for _ in range(500)]
    assert set(returns) == {-1, 1}
    assert np.mean(np.equal(returns, 1)) == pytest.approx(0.2, abs=0.06)


def test_seeds_repeat_and_differ():
    columns = {}
    for name, seed in (('a', 0), ('b', 0), ('c', 1)):
        environment = catch.Catch(seed)
        balls = [np.argmax(environment.reset().observation[0]) for _ in range(20)]
        columns[name] = balls
    assert columns['a'] == columns['b'] != columns['c']


def test_sizes_that_cannot_be_played_are_refused():
    with pytest.raises(ValueError, match='rows and columns must be >= 2, got 1 and 5'):
        catch.Catch(0, rows=1)
