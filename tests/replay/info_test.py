"""What waits say of themselves; the statistics are tested with the server."""

from repertory.replay import info


def _table(**fields):
    known = {
        'name': 't',
        'size': 6,
        'max_size': 100,
        'inserts': 6,
        'samples': 0,
        'samples_per_insert': 1.0,
        'measured_samples_per_insert': None,
        'min_size': 5,
        'can_insert': False,
        'can_sample': True,
        'waits_for': 'x',
        'bytes_per_item': None,
    }
    return info.TableStatistics(**{**known, **fields})


def test_a_wait_is_alarming_only_where_nothing_moves():
    ordinary = info.describe_insert_wait(_table(), still=5.0)
    assert ordinary.endswith('ordinary until the learner has compiled its first step')
    behind = info.describe_insert_wait(_table(samples=9), still=5.0)
    assert behind.endswith('ordinary where actors are faster than the learner')
    stuck = info.describe_insert_wait(_table(samples=9), still=31.0)
    assert stuck.endswith('nothing has been sampled for 31 s: see the learner')
    filling = info.describe_sample_wait(_table(size=2), still=5.0)
    assert filling.endswith('waits for x; learning begins when they are in')
    empty = info.describe_sample_wait(_table(size=2), still=25.0)
    assert empty.endswith('nothing has been inserted for 25 s: see the actors')
    ready = info.describe_sample_wait(_table(waits_for=''), still=25.0)
    assert ready == 'table `t` can be sampled: 6 items'


def test_motion_tells_how_long_a_count_has_stood_still():
    now = [10.0]
    motion = info.Motion(clock=lambda: now[0])
    assert motion.seconds_still(3) == 0.0
    now[0] = 14.0
    assert motion.seconds_still(3) == 4.0
    assert motion.seconds_still(4) == 0.0
