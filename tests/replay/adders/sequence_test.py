import numpy as np
import pytest
import tensorflow as tf

from repertory.components import types
from repertory.replay import datasets, tables
from repertory.replay.adders import sequence
from tests.replay import scripts
from tests.replay.scripts import Episode


def make_adder(address, burn_in, trace, period, num_lanes, **options):
    return sequence.SequenceAdder(
        address,
        't',
        scripts.CODEC,
        burn_in,
        trace,
        period,
        num_lanes,
        wait=scripts.never,
        **options,
    )


def write(serve, lanes, num_rows, burn_in, trace, period, with_state=True, **options):
    """Returns all items written, as one Trajectory, and their priorities."""
    state_codec = scripts.STATE_CODEC if with_state else None
    length = burn_in + trace + 1
    signature = tables.signature(scripts.CODEC, length, state_codec)
    address = serve(scripts.fifo(signature)).address
    options['state_codec'] = state_codec
    with make_adder(address, burn_in, trace, period, len(lanes), **options) as adder:
        for row in scripts.play(lanes, num_rows):
            adder.add(row)
        adder.flush()
        num_items = adder.num_items
    packed, priorities = scripts.read(address, num_items)
    data = datasets.to_trajectory(packed, scripts.CODEC, state_codec)
    return tf.nest.map_structure(lambda leaf: leaf.numpy(), data), priorities


def starts_and_ends(data, burn_in=0):
    """Returns (episode, first and last step) of each trace, checking its item's rows.

    A row before the episode is its first one as PADDING, a row behind it the last one.
    """
    found = []
    for i in range(len(data.rows.reward)):
        tags = data.rows.observation[i].astype(int)
        assert len(set(map(tuple, tags[:, :2]))) == 1  # One lane, one episode.
        real = np.flatnonzero(data.rows.step_type[i] != types.StepType.PADDING)
        last = tags[real[-1], 2]
        start = tags[real[-1], 2] - real[-1]  # Of the first row; negative in padding.
        steps = start + np.arange(len(tags))
        np.testing.assert_array_equal(tags[:, 2], np.clip(steps, 0, last))
        is_padding = (steps < 0) | (steps > last)
        np.testing.assert_array_equal(np.flatnonzero(~is_padding), real)
        assert not data.rows.reward[i][is_padding].any()
        assert (data.rows.discount[i][is_padding] == 1).all()
        found.append((tags[0, 1], start + burn_in, last))
    return found


@pytest.mark.parametrize(
    ('num_steps', 'expected'),
    [
        (1, [(0, 0, 1)]),
        (2, [(0, 0, 2)]),
        (3, [(0, 0, 3)]),
        (4, [(0, 0, 3), (0, 2, 4)]),
        (5, [(0, 0, 3), (0, 2, 5)]),
        (6, [(0, 0, 3), (0, 2, 5), (0, 4, 6)]),
    ],
)
def test_sequences_without_burn_in(serve, num_steps, expected):
    lanes = [[Episode(np.arange(num_steps) + 1.0)]]
    data, _ = write(serve, lanes, num_steps + 1, burn_in=0, trace=3, period=2)
    assert starts_and_ends(data) == expected


@pytest.mark.parametrize(
    ('num_steps', 'expected'),
    [
        (1, [(0, 0, 1)]),
        (2, [(0, 0, 2)]),
        (3, [(0, 0, 2), (0, 2, 3)]),
        (5, [(0, 0, 2), (0, 2, 4), (0, 4, 5)]),
    ],
)
def test_burn_in_comes_before_the_trace(serve, num_steps, expected):
    lanes = [[Episode([1.0] * num_steps)]]
    data, _ = write(serve, lanes, num_steps + 1, burn_in=3, trace=2, period=2)
    assert starts_and_ends(data, burn_in=3) == expected


@pytest.mark.parametrize('period', [1, 2, 3])
@pytest.mark.parametrize('burn_in', [0, 2])
def test_every_step_is_in_a_trace(serve, period, burn_in):
    lanes = [
        [Episode([1.0] * 7, 1.0), Episode([1.0] * 4)],
        [Episode([1.0] * 9), Episode([1.0])],
    ]
    num_rows = 26
    data, _ = write(serve, lanes, num_rows, burn_in, 3, period)
    traced = set()
    for i, (number, first, last) in enumerate(starts_and_ends(data, burn_in)):
        lane = int(data.rows.observation[i, 0, 0])
        traced |= {(lane, number, t) for t in range(first, min(last, first + 3))}
    expected = set()
    for lane, episodes in enumerate(lanes):
        row, number = 0, 0
        while row < num_rows:
            length = len(episodes[number % 2].rewards)
            if row + length < num_rows:
                expected |= {(lane, number, t) for t in range(length)}
            row, number = row + length + 1, number + 1
    assert expected <= traced


def test_state_is_the_one_before_the_first_row(serve):
    lanes = [[Episode([1.0] * 7), Episode([1.0] * 5)], [Episode([1.0] * 4)]]
    data, _ = write(serve, lanes, 40, burn_in=1, trace=3, period=2)
    # Before an episode there is padding, and the state is that of its first row.
    np.testing.assert_array_equal(data.state[0], data.rows.observation[:, 0, 1:])
    assert {0.0, 1.0, 3.0} <= set(data.rows.observation[:, 0, 2])


def test_policy_without_memory_has_no_state(serve):
    data, _ = write(serve, [[Episode([1.0] * 5)]], 6, 0, 3, 2, with_state=False)
    assert data.state == ()
    assert starts_and_ends(data) == [(0, 0, 3), (0, 2, 5)]


def test_priorities_see_the_rows_of_the_trace(serve):
    lanes = [[Episode([1, 2, 3, 4, 5, 6, 7.0], 1.0)], [Episode([9.0, 8], 0.0)]]
    calls = []

    def priority(extras, reward, discount, step_type):
        calls.append((extras['q'], reward, discount, step_type))
        return 1 + reward.sum(axis=1) + extras['q'][:, 0]

    data, priorities = write(serve, lanes, 30, 1, 2, 2, priority_fn=priority)
    rows = data.rows
    q = 100 * rows.observation[..., 1] + rows.observation[..., 2]
    trace = [x[:, 1:] for x in (q, rows.reward, rows.discount, rows.step_type)]
    # Two lanes have two writers, whose items meet in any order.
    seen = np.concatenate([np.concatenate(call, axis=1) for call in calls])
    written = np.concatenate(trace, axis=1)
    assert sorted(seen.tolist()) == sorted(written.tolist())
    np.testing.assert_allclose(priorities, 1 + trace[1].sum(1) + trace[0][:, 0])


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ((-1, 2, 1), 'burn_in_length must be >= 0, got -1'),
        ((0, 0, 1), 'trace_length must be >= 1, got 0'),
        ((5, 2, 3), r'period must be in \[1, trace_length = 2\], got 3'),
        ((5, 2, 0), r'period must be in \[1, trace_length = 2\], got 0'),
    ],
)
def test_lengths_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_adder('localhost:1', *arguments, num_lanes=1)
