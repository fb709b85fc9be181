from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repertory.components import schedules


@pytest.mark.parametrize(
    'expected',
    [
        [0.4],
        [0.4, 0.047156, 0.005559, 0.000655],
        [0.4, 0.16, 0.064, 0.0256, 0.01024, 0.004096, 0.0016384, 0.00065536],
    ],
)
def test_the_epsilon_ladder_matches_the_paper(expected):
    size = len(expected)
    actual = [schedules.epsilon_ladder(0.4, 7.0, i, size) for i in range(size)]
    np.testing.assert_allclose(actual, expected, atol=5e-7)


@pytest.mark.parametrize(
    'arguments, message',
    [
        ((1.1, 7.0, 0, 1), r'base must be in \[0, 1\], got 1.1'),
        ((0.4, -1.0, 0, 1), 'alpha must be >= 0, got -1.0'),
        ((0.4, 7.0, 2, 2), r'actor_index must be in \[0, num_actors\), got 2'),
        ((0.4, 7.0, -1, 2), r'actor_index must be in \[0, num_actors\), got -1'),
    ],
)
def test_the_epsilon_ladder_refuses_arguments_outside_their_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        schedules.epsilon_ladder(*arguments)


@pytest.mark.parametrize('convert', [int, np.int64, tf.constant])
def test_linear_reaches_its_end_and_stays(convert):
    schedule = schedules.linear(6e-4, 0.0, 100)
    actual = [schedule(convert(step)) for step in (0, 25, 100, 10_000_000)]
    np.testing.assert_allclose(actual, [6e-4, 4.5e-4, 0.0, 0.0], atol=1e-12)


def test_linear_refuses_no_steps():
    with pytest.raises(ValueError, match='steps must be >= 1, got 0'):
        schedules.linear(1.0, 0.0, 0)
