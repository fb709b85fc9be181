"""The limiter's arithmetic alone; `tables_test.py` holds it against Reverb's."""

from repertory.replay import limits


def test_preloaded_items_neither_block_nor_count():
    preloaded = 10_000
    limit = limits.make_rate_limit(8.0, min_size=preloaded, batch_size=64)
    limiter = limit.limiter()
    assert all(limiter.can_insert(n, 0, 0) for n in range(preloaded))
    assert not limiter.can_sample(preloaded - 1, 0, 0)
    # From there on the ratio holds of what is added, within the buffer.
    assert limiter.can_sample(preloaded, 0, 0)
    for new in (0, 1_000, 100_000):
        inserts, owed, buffer = preloaded + new, 8 * new, limit.error_buffer
        assert limiter.can_sample(inserts, int(owed + buffer) - 1, 0)
        assert not limiter.can_sample(inserts, int(owed + buffer) + 1, 0)
        assert limiter.can_insert(inserts, owed, 0)
        assert not limiter.can_insert(inserts, int(owed - buffer) - 1, 0)
