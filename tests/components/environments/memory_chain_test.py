from __future__ import annotations

import numpy as np
import pytest

from repertory.components.environments import memory_chain
from tests import conformance


def test_it_conforms_to_dm_env():
    conformance.check(lambda: memory_chain.MemoryChain(0), num_steps=60)


def play(environment, remember):
    timestep = environment.reset()
    cue = int(np.argmax(timestep.observation[:-1]))
    observations, rewards = [timestep.observation], []
    while not timestep.last():
        timestep = environment.step(cue if remember else 0)
        observations.append(timestep.observation)
        rewards.append(float(timestep.reward))
    return cue, np.array(observations), np.array(rewards), timestep


def test_an_agent_that_remembers_answers_every_query():
    environment = memory_chain.MemoryChain(0)
    _, observations, rewards, last = play(environment, remember=True)
    # Asked at 8, 16 ... 48; each reward comes with the next step.
    assert np.flatnonzero(observations[:, -1]).tolist() == list(range(8, 49, 8))
    np.testing.assert_allclose(np.flatnonzero(rewards), np.arange(8, 49, 8))
    assert rewards.sum() == pytest.approx(1)
    assert len(rewards) == 49
    assert last.discount == 0
    assert environment.last_episode_correct.tolist() == [True] * 6


def test_nothing_but_the_first_step_tells_the_cue_or_the_time():
    environment = memory_chain.MemoryChain(0)
    _, first, _, _ = play(environment, remember=True)
    _, second, _, _ = play(environment, remember=False)
    np.testing.assert_array_equal(first[1:], second[1:])
    asks = first[1:, -1] == 1
    assert len(np.unique(first[1:][asks], axis=0)) == 1
    assert len(np.unique(first[1:][~asks], axis=0)) == 1


def test_a_fixed_answer_is_right_one_time_in_four():
    environment = memory_chain.MemoryChain(0)
    right = []
    for _ in range(300):
        cue, _, rewards, _ = play(environment, remember=False)
        assert environment.last_episode_correct.tolist() == [cue == 0] * 6
        right.append(rewards.sum())
    assert np.mean(right) == pytest.approx(0.25, abs=0.07)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ({'num_symbols': 1}, 'num_symbols must be >= 2, got 1'),
        ({'query_period': 0}, 'query_period must be >= 1, got 0'),
        ({'num_queries': 0}, 'num_queries must be >= 1, got 0'),
    ],
)
def test_impossible_numbers_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        memory_chain.MemoryChain(0, **arguments)
