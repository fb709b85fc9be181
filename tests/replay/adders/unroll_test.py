import threading

import numpy as np
import pytest

from repertory.components import core
from repertory.replay import datasets, tables
from repertory.replay.adders import unroll
from tests.replay import scripts
from tests.replay.scripts import Episode

LANES = [
    [Episode([1, 2, 3]), Episode([4, 5, 6, 7, 8], 1.0)],
    [Episode([1, 2, 3, 4, 5, 6, 7])],
]


def make_table(length, max_size=1000, state_codec=scripts.STATE_CODEC):
    signature = tables.signature(scripts.CODEC, length + 1, state_codec, len(LANES))
    return tables.make_queue('t', max_size, signature)


def make_adder(address, length, wait=scripts.never):
    return unroll.UnrollAdder(
        address, 't', scripts.CODEC, length, wait, state_codec=scripts.STATE_CODEC
    )


def make_dataset(address, length, batch_size):
    return datasets.make_trajectory_dataset(
        [address],
        't',
        scripts.CODEC,
        length + 1,
        batch_size,
        prefetch=False,
        state_codec=scripts.STATE_CODEC,
        num_lanes=len(LANES),
    )


@pytest.mark.parametrize(('length', 'batch_size'), [(1, 1), (3, 2)])
def test_unrolls_follow_each_other_and_overlap_by_one_row(serve, length, batch_size):
    address = serve(make_table(length)).address
    num_rows = 6 * length + 1
    rows = list(scripts.play(LANES, num_rows))
    with make_adder(address, length) as adder:
        for row in rows:
            adder.add(row)
        adder.flush()
        assert adder.num_items == 6
    samples = scripts.take(make_dataset(address, length, batch_size), 6 // batch_size)
    observed = np.stack([row.observation for row in rows], 1)  # [N, all T, 3]
    states = np.stack([row.extras['state'][0] for row in rows], 1)
    rewards = np.stack([row.reward for row in rows], 1)
    for number, sample in enumerate(samples):
        assert sample.info.key.shape == [1, batch_size]
        assert sample.data.rows.reward.shape == [1, batch_size * 2, length + 1]
        for item in range(batch_size):
            start = (number * batch_size + item) * length
            span = slice(start, start + length + 1)
            lanes = slice(2 * item, 2 * item + 2)
            np.testing.assert_array_equal(
                sample.data.rows.observation[0, lanes], observed[:, span]
            )
            np.testing.assert_array_equal(
                sample.data.rows.reward[0, lanes], rewards[:, span]
            )
            np.testing.assert_array_equal(
                sample.data.state[0][0, lanes], states[:, start]
            )


def test_full_queue_makes_the_actor_wait_and_drops_nothing(serve):
    address = serve(make_table(2, max_size=3)).address
    waiting = threading.Event()
    reasons = []

    def wait(reason, waited_seconds):
        reasons.append(reason)
        waiting.set()

    num_items = 20

    def act():
        with make_adder(address, 2, wait) as adder:
            for row in scripts.play(LANES, 2 * num_items + 1):
                adder.add(row)
            adder.flush()

    actor = threading.Thread(target=act)
    actor.start()
    assert waiting.wait(20)
    assert actor.is_alive()
    samples = scripts.take(make_dataset(address, 2, 1), num_items)
    actor.join(20)
    assert not actor.is_alive()
    assert 'insert into table `t` (3 of 3 items) waits for samples' in reasons[0]
    lane = [sample.data.rows.observation[0, 1].numpy() for sample in samples]
    expected = [row.observation[1] for row in scripts.play(LANES, 2 * num_items + 1)]
    for i, rows in enumerate(lane):
        np.testing.assert_array_equal(rows, expected[2 * i : 2 * i + 3])


def test_waiting_actor_can_be_stopped(serve):
    address = serve(make_table(1, max_size=2)).address

    made = []

    def wait(reason, waited_seconds):
        if made:  # A busy server may take a second to answer a new adder.
            raise core.Stopped(reason)

    with make_adder(address, 1, wait) as adder, pytest.raises(core.Stopped):
        made.append(adder)
        for row in scripts.play(LANES, 10):
            adder.add(row)


def test_length_below_one_is_refused():
    with pytest.raises(ValueError, match='unroll_length must be >= 1, got 0'):
        make_adder('localhost:1', 0)
