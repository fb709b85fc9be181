import threading

import numpy as np
import pytest
import reverb
import tensorflow as tf

from repertory.components import core
from repertory.replay import limits, priorities, tables
from tests import golden


@pytest.mark.parametrize('case', golden.cases('q_learning', 'importance_weights'))
def test_importance_weights_match_recorded_ones(case):
    actual = priorities.importance_weights(
        tf.cast(case.inputs['probabilities'], tf.float64), case.params['exponent']
    )
    case.check(weights=actual)


@pytest.mark.parametrize(
    ('alpha', 'beta', 'expected'),
    [
        (0.6, 0.4, [1, 0.846745, 0.716978, 1]),
        (0.9, 0.6, [1, 0.687771, 0.473029, 1]),
    ],
)
def test_importance_weights_of_the_golden_priorities(alpha, beta, expected):
    powers = np.array([1, 2, 4, 1]) ** alpha
    actual = priorities.importance_weights(tf.constant(powers / powers.sum()), beta)
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_importance_weights_are_at_most_one_and_finite():
    actual = priorities.importance_weights(tf.constant([0.9, 0.1], tf.float64), 0.6)
    np.testing.assert_allclose(actual, [(1 / 9) ** 0.6, 1], rtol=1e-6)
    tiny = tf.constant([1e-300, 1e-12, 1.0], tf.float64)
    actual = priorities.importance_weights(tiny, 1.0).numpy()
    assert np.isfinite(actual).all() and actual.max() == 1


@pytest.mark.parametrize('exponent', [-0.1, 1.1])
def test_exponent_out_of_range_is_refused(exponent):
    with pytest.raises(ValueError, match=f'exponent must be in .*, got {exponent}'):
        priorities.importance_weights(tf.constant([1.0], tf.float64), exponent)


def test_probabilities_of_another_rank_are_refused():
    with pytest.raises(ValueError, match='rank'):
        priorities.importance_weights(tf.ones([2, 1], tf.float64), 0.5)


def prioritized(alpha=1.0, max_size=100):
    return tables.TableSpec(
        name='t',
        sampler='prioritized',
        priority_exponent=alpha,
        max_size=max_size,
        signature=None,
        rate_limit=limits.RateLimit(),
    )


def fill(address, values):
    client = reverb.Client(address)
    for i, value in enumerate(values):
        client.insert([np.array([i])], {'t': value})
    return client


def draw(client, num_samples):
    """Returns for each draw the item's number, its key and its probability."""
    drawn = [s[0] for s in client.sample('t', num_samples)]
    return (
        np.array([int(s.data[0].item()) for s in drawn]),
        np.array([s.info.key for s in drawn], np.uint64),
        np.array([s.info.probability for s in drawn]),
    )


@pytest.mark.parametrize('alpha', [0.0, 0.6, 1.0])
def test_sampled_frequencies_match_the_probabilities(serve, alpha):
    values = np.array([1, 2, 4, 1, 0.5, 8])
    client = fill(serve(prioritized(alpha)).address, values)
    expected = values**alpha / (values**alpha).sum()
    num_samples = 6000
    numbers, _, probabilities = draw(client, num_samples)
    np.testing.assert_allclose(probabilities, expected[numbers], rtol=1e-5)
    counts = np.bincount(numbers, minlength=6)
    chi_square = ((counts - num_samples * expected) ** 2 / num_samples / expected).sum()
    assert chi_square < 30  # 5 degrees of freedom: exceeded once in 70,000 times.


def test_update_changes_later_sampling(serve):
    address = serve(prioritized()).address
    client = fill(address, [1.0] * 4)
    numbers, keys, _ = draw(client, 60)
    key_of = dict(zip(numbers.tolist(), keys.tolist(), strict=True))
    with priorities.PriorityUpdater([address], 't') as update:
        update(
            np.array([[key_of[0], key_of[1]], [key_of[2], key_of[3]]], np.uint64),
            np.array([[1e-9, 1e-9], [3.0, 1.0]], np.float32),
        )
        update.flush()
    numbers, _, probabilities = draw(client, 400)
    assert set(numbers) == {2, 3}
    np.testing.assert_allclose(probabilities, np.where(numbers == 2, 0.75, 0.25))


def test_every_shard_is_told_and_ignores_keys_that_it_lacks(serve):
    addresses = [serve(prioritized()).address for _ in range(2)]
    clients = [fill(address, [1.0, 1.0]) for address in addresses]
    with priorities.PriorityUpdater(addresses, 't') as update:
        for client in clients:
            numbers, keys, _ = draw(client, 30)
            update(keys, np.where(numbers == 0, 9.0, 1.0))
        update.flush()
    for client in clients:
        numbers, _, probabilities = draw(client, 30)
        np.testing.assert_allclose(probabilities, np.where(numbers == 0, 0.9, 0.1))


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
def test_priorities_that_are_not_finite_are_raised_and_none_is_written(serve, bad):
    address = serve(prioritized()).address
    client = fill(address, [1.0, 1.0])
    _, keys, before = draw(client, 20)
    with priorities.PriorityUpdater([address], 't') as update:
        values = np.full(20, 5.0)
        values[7] = bad
        with pytest.raises(FloatingPointError, match=f'got {bad} at index 7'):
            update(keys, values)
        update.flush()
    np.testing.assert_array_equal(draw(client, 20)[2], before)


@pytest.mark.parametrize(
    ('values', 'message'),
    [
        (np.array([1.0, 0.0]), 'priorities must be > 0, got 0.0 at index 1'),
        (np.array([1.0]), r'must have the same shape, got \[2\] and \[1\]'),
    ],
)
def test_priorities_that_cannot_be_are_refused(serve, values, message):
    with priorities.PriorityUpdater([serve(prioritized()).address], 't') as update:
        with pytest.raises(ValueError, match=message):
            update(np.arange(2, dtype=np.uint64), values)


@pytest.mark.parametrize('values', [[0.0] * 3, [0.0, 1e-6, 0.0]])
def test_table_of_zero_priorities_still_gives_finite_weights(serve, values):
    client = fill(serve(prioritized(0.6)).address, values)
    numbers, _, probabilities = draw(client, 50)
    weights = priorities.importance_weights(tf.constant(probabilities), 0.4).numpy()
    assert np.isfinite(weights).all() and (weights > 0).all() and weights.max() == 1
    if any(values):
        assert set(numbers) == {1}


def test_failed_update_is_raised_by_the_next_call(serve, monkeypatch):
    monkeypatch.setattr(priorities, '_MAX_RETRIES', 0)
    update = priorities.PriorityUpdater([serve(prioritized()).address], 'other')
    update(np.array([1], np.uint64), np.array([1.0]))
    with pytest.raises(RuntimeError, match='priorities of table `other` could not be'):
        update.flush()
    with pytest.raises(RuntimeError, match='priorities of table `other` could not be'):
        update(np.array([1], np.uint64), np.array([1.0]))
    update.close()
    assert not update._thread.is_alive()


ONE = (np.array([1], np.uint64), np.array([1.0]))


@pytest.fixture
def stuck(serve, monkeypatch):
    """Returns an updater that writes nothing, as if its server were busy; and that."""
    may_write = threading.Event()
    monkeypatch.setattr(priorities, '_POLL_SECONDS', 0.05)
    monkeypatch.setattr(priorities, '_CLOSE_SECONDS', 0.2)
    monkeypatch.setattr(
        priorities.PriorityUpdater, '_write', lambda *_: may_write.wait()
    )
    server = serve(prioritized())
    update = priorities.PriorityUpdater([server.address], 't', max_pending=1)
    update(*ONE)
    update(*ONE)
    yield update, server
    may_write.set()
    update.close()
    update._thread.join(10)
    assert not update._thread.is_alive()


def test_server_that_is_gone_is_named(stuck, monkeypatch):
    monkeypatch.setattr(priorities, '_UNREACHABLE_SECONDS', 0.2)
    update, server = stuck
    server.stop()
    message = rf"answers at \['{server.address}'\] for .* of table `t` wait"
    with pytest.raises(ConnectionError, match=message):
        for _ in range(2):
            update(*ONE)
    with pytest.raises(ConnectionError, match=message):
        update.flush()


def test_busy_server_is_waited_for_until_the_limit(stuck, monkeypatch):
    monkeypatch.setattr(priorities, '_UNREACHABLE_SECONDS', 0.0)
    monkeypatch.setattr(priorities, '_BUSY_SECONDS', 0.5)
    monkeypatch.setattr(priorities, '_FLUSH_SECONDS', 0.2)
    update, server = stuck
    message = rf"of table `t` were not written .* by \['{server.address}'\]"
    with pytest.raises(TimeoutError, match=message):
        for _ in range(2):
            update(*ONE)
    with pytest.raises(TimeoutError, match=message):
        update.flush()


def test_close_ends_a_call_that_waits_and_the_next_are_refused(stuck):
    update, _ = stuck
    timer = threading.Timer(0.3, update.close)
    timer.start()
    with pytest.raises(core.Stopped):
        for _ in range(2):
            update(*ONE)
    timer.join()
    with pytest.raises(RuntimeError, match='has been closed'):
        update(*ONE)


def test_close_writes_what_is_pending(serve):
    address = serve(prioritized()).address
    client = fill(address, [1.0, 1.0])
    numbers, keys, _ = draw(client, 30)
    update = priorities.PriorityUpdater([address], 't')
    update(keys, np.where(numbers == 0, 9.0, 1.0))
    update.close()
    update.close()
    update.flush()
    numbers, _, probabilities = draw(client, 30)
    np.testing.assert_allclose(probabilities, np.where(numbers == 0, 0.9, 0.1))
