import math

import numpy as np
import pytest
import reverb
from dm_env import specs

from repertory.components import specs as specs_lib
from repertory.replay import limits, rows, tables
from tests import golden

SIGNATURE = {'rows': specs.Array((4, 10), np.uint8, 'rows')}


def make_spec(**overrides):
    return tables.TableSpec(
        **{
            'name': 't',
            'sampler': 'uniform',
            'max_size': 100,
            'signature': SIGNATURE,
            'rate_limit': limits.RateLimit(min_size=10),
            **overrides,
        }
    )


@pytest.mark.parametrize('case', golden.cases('rate_limiters', 'trace'))
def test_limiter_agrees_with_recorded_tables(case):
    derived = case.params['derived']
    limiter = limits.Limiter(
        samples_per_insert=derived['samples_per_insert'],
        min_size=derived['min_size_to_sample'],
        min_diff=derived['min_diff'],
        max_diff=derived['max_diff'],
    )
    states = case.expected['states']
    for state in states:
        counts = [int(state[name]) for name in ('inserts', 'samples', 'deletes')]
        assert limiter.can_insert(*counts) == state['can_insert'], counts
        assert limiter.can_sample(*counts) == state['can_sample'], counts


def limiter_of(params):
    """Returns our limiter of the recorded arguments; None if we have no such one."""
    if params['limiter'] == 'Queue':
        return tables.make_queue('q', params['max_size'], SIGNATURE).limiter()
    if params['limiter'] == 'MinSize':
        return limits.RateLimit(min_size=params['min_size_to_sample']).limiter()
    if isinstance(params.get('error_buffer'), float):
        return limits.RateLimit(
            samples_per_insert=params['samples_per_insert'],
            min_size=params['min_size_to_sample'],
            error_buffer=params['error_buffer'],
        ).limiter()
    return None


@pytest.mark.parametrize(
    'case',
    [
        case
        for case in golden.cases('rate_limiters', 'trace')
        if limiter_of(case.values[0].params)
    ],
)
def test_rate_limit_derives_the_recorded_bounds(case):
    limiter, derived = limiter_of(case.params), case.params['derived']
    assert limiter.samples_per_insert == derived['samples_per_insert']
    assert limiter.min_size == derived['min_size_to_sample']
    assert limiter.min_diff == derived['min_diff']
    assert limiter.max_diff == derived['max_diff']


def test_table_that_reverb_makes_blocks_where_the_limiter_says():
    spec = make_spec(
        rate_limit=limits.RateLimit(samples_per_insert=2, min_size=3, error_buffer=4)
    )
    table, limiter = tables.to_reverb(spec), spec.limiter()
    assert table.can_insert(1) == limiter.can_insert(0, 0, 0)
    assert table.can_sample(1) == limiter.can_sample(0, 0, 0)
    info = table.info
    assert info.rate_limiter_info.min_diff == limiter.min_diff
    assert info.rate_limiter_info.max_diff == limiter.max_diff
    unlimited = tables.to_reverb(spec, limited=False).info.rate_limiter_info
    assert unlimited.min_size_to_sample == 3
    assert unlimited.max_diff > 1e300


@pytest.mark.parametrize('ratio', [None, math.inf])
def test_no_ratio_limits_nothing_but_the_start(ratio):
    for limit in (
        limits.RateLimit(samples_per_insert=ratio, min_size=2),
        limits.make_rate_limit(ratio, min_size=2, batch_size=32),
    ):
        assert limit.limiter().can_insert(10**9, 0, 0)
        assert limit.limiter().can_sample(2, 10**9, 0)
        assert not limit.limiter().can_sample(1, 0, 0)
        reverb.Server([tables.to_reverb(make_spec(rate_limit=limit))]).stop()


@pytest.mark.parametrize(
    ('make', 'message'),
    [
        (
            lambda: make_spec(rate_limit=limits.RateLimit(min_size=101)),
            'min_size must be <= max_size, got 101 > 100',
        ),
        (
            lambda: limits.RateLimit(samples_per_insert=4, error_buffer=3.9),
            r'error_buffer must be >= max\(1, samples_per_insert\) = 4, got 3.9',
        ),
        (
            lambda: limits.RateLimit(samples_per_insert=0.5, error_buffer=0.9),
            r'error_buffer must be >= .* = 1.0, got 0.9',
        ),
        (lambda: limits.RateLimit(samples_per_insert=0), 'samples_per_insert must be'),
        (lambda: limits.RateLimit(min_size=0), 'min_size must be >= 1, got 0'),
        (lambda: make_spec(sampler='best'), "sampler must be one of .*, got 'best'"),
        (lambda: make_spec(remover='best'), "remover must be one of .*, got 'best'"),
        (lambda: make_spec(name=''), 'name must not be empty'),
        (lambda: make_spec(max_size=0), 'max_size must be >= 1, got 0'),
        (lambda: make_spec(rate_limit=None), 'rate_limit must be given unless'),
        (lambda: make_spec(priority_exponent=-1.0), 'priority_exponent must be >= 0'),
        (
            lambda: make_spec(
                max_times_sampled=2,
                rate_limit=limits.RateLimit(samples_per_insert=3, error_buffer=9),
            ),
            'samples_per_insert must be <= max_times_sampled, got 3 > 2',
        ),
        (
            lambda: tables.check_batch(make_spec(), 101),
            'batch_size must be <= max_size of table `t`, got 101 > 100',
        ),
        (
            lambda: tables.check_batch(tables.make_queue('q', 9, SIGNATURE), 8),
            r'max_size must be > batch_size \+ 1 = 9 for the queue `q`, got 9',
        ),
        (
            lambda: tables.check_batch(
                make_spec(
                    rate_limit=limits.RateLimit(samples_per_insert=1, error_buffer=31)
                ),
                32,
            ),
            'error_buffer of table `t` must be >= batch_size, got 31 < 32',
        ),
    ],
)
def test_what_cannot_work_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize('ratio', [0.1, 1.0, 8.0, 32.0])
@pytest.mark.parametrize('batch_size', [1, 32, 256])
def test_made_rate_limit_fits_its_batch(ratio, batch_size):
    limit = limits.make_rate_limit(ratio, min_size=50, batch_size=batch_size)
    spec = make_spec(max_size=1000, rate_limit=limit)
    tables.check_batch(spec, batch_size)


def test_estimate_counts_rows_that_windows_share_once():
    assert make_spec().estimated_bytes == 100 * (10 + 1000)
    spec = make_spec(
        signature={
            'rows': specs.Array((21, 2, 10), np.uint8),
            'state': specs.Array((2, 8), np.uint8),
        },
        new_rows_per_item=20,
    )
    assert spec.estimated_bytes == 100 * (20 * 20 + 16 + 1000)
    queue = tables.make_queue('q', 100, SIGNATURE)
    assert queue.estimated_bytes == 100 * (4 * 10 + 1000)


def test_a_row_of_atari_is_one_frame_and_the_estimate_knows_it():
    pytest.importorskip('ale_py')
    from repertory.components.environments.wrappers import atari

    spec = specs_lib.make_environment_spec(atari.make('pong', 0))
    codec = rows.RowCodec(rows.make_row_spec(spec, {}))
    signature = tables.signature(codec, length=4)
    assert signature['rows'].shape == (3 + 4, codec.num_bytes)
    assert 84 * 84 < codec.num_bytes <= 7500
    table = make_spec(signature=signature)
    assert table.estimated_bytes == 100 * (codec.num_bytes + 1000)
    assert tables.estimate_bytes(spec, max_size=100) == table.estimated_bytes
