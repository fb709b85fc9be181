import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from dm_env import specs as dm_specs

from repertory.components import core, specs, types
from repertory.replay import datasets, limits, prefetching, rows, tables
from repertory.replay.adders import transition
from tests import fakes
from tests.replay import scripts
from tests.replay.scripts import Episode

LANES = [[Episode([1, 2, 3, 4]), Episode([5], 1.0)], [Episode([6, 7], 1.0)]]


def write(address, num_rows=30, n_step=3, lanes=LANES):
    with transition.TransitionAdder(
        address, 't', scripts.CODEC, n_step, 0.9, len(lanes), wait=scripts.never
    ) as adder:
        for row in scripts.play(lanes, num_rows):
            adder.add(row)
        adder.flush()
        return adder.num_items


def make_dataset(addresses, batch_size=4, n_step=3, **options):
    return datasets.make_transition_dataset(
        addresses, 't', scripts.CODEC, n_step, 0.9, batch_size, **options
    )


def uniform(n_step=3, **limit):
    return tables.TableSpec(
        name='t',
        sampler='uniform',
        max_size=1000,
        signature=tables.signature(scripts.CODEC, n_step + 1),
        rate_limit=limits.RateLimit(**limit),
    )


@pytest.mark.parametrize('prefetch', [False, True])
def test_batches_are_the_items_in_their_shapes(serve, prefetch):
    address = serve(uniform()).address
    write(address)
    dataset = make_dataset([address], updates_per_call=2, prefetch=prefetch)
    [sample] = scripts.take(dataset, 1)
    tf.nest.map_structure(
        lambda spec, leaf: spec.shape.assert_is_compatible_with(leaf.shape),
        dataset.element_spec,
        sample,
    )
    assert sample.info.key.shape == [2, 4] and sample.info.key.dtype == tf.uint64
    assert sample.info.probability.dtype == tf.float64
    assert sample.data.observation.shape == [2, 4, 3]
    assert sample.data.reward.shape == sample.data.discount.shape == [2, 4]
    np.testing.assert_array_equal(
        sample.data.observation[..., :2], sample.data.next_observation[..., :2]
    )
    assert (sample.data.next_observation[..., 2] > sample.data.observation[..., 2])[
        0, 0
    ]


def test_several_servers_give_their_shares(serve):
    addresses = [serve(uniform()).address for _ in range(2)]
    write(addresses[0], lanes=LANES[:1])
    write(addresses[1], lanes=[[Episode([1.0])], [Episode([-1.0])]])
    [sample] = scripts.take(make_dataset(addresses, batch_size=6), 1)
    is_first = sample.info.table_size.numpy()[0] == sample.info.table_size[0, 0].numpy()
    assert is_first.tolist() == [True, False] * 3


def test_little_is_sampled_ahead_without_prefetch(serve):
    server = serve(uniform())
    write(server.address)
    samples = scripts.take(make_dataset([server.address], prefetch=False), 5)
    assert len(samples) == 5
    assert 20 <= server.statistics()[0].samples <= 30


def test_nested_rows_of_many_dtypes_pass_through(serve):
    environment = fakes.NestedEnvironment(seed=3)
    spec = specs.make_environment_spec(environment)
    extras = {'log_prob': dm_specs.Array((), np.float16)}
    codec = rows.RowCodec(rows.make_row_spec(spec, extras, ['log_prob']))
    address = serve(scripts.fifo(tables.signature(codec, 3))).address

    def batch(leaf, of):
        return np.asarray(leaf, of.dtype)[None]

    steps = [environment.reset()]
    action = {'push': np.array([0.5], np.float32), 'jump': np.int64(1)}
    while not steps[-1].last():
        steps.append(environment.step(action))
    observations = [
        tf.nest.map_structure(batch, step.observation, spec.observations)
        for step in steps
    ]
    with transition.TransitionAdder(
        address, 't', codec, 2, 1.0, 1, wait=scripts.never
    ) as adder:
        for step, observation in zip(steps, observations, strict=True):
            adder.add(
                types.Row(
                    observation,
                    {'push': action['push'][None], 'jump': np.array([1])},
                    np.array([step.reward or 0], np.float32),
                    np.array([1 if step.first() else step.discount], np.float32),
                    np.array([step.step_type], np.uint8),
                    {'log_prob': np.array([-0.5], np.float16), 'unused': np.zeros(1)},
                )
            )
        adder.flush()
    dataset = datasets.make_transition_dataset([address], 't', codec, 2, 1.0, 1)
    for start, sample in enumerate(scripts.take(dataset, 3)):
        for actual, expected in [
            (sample.data.observation, observations[start]),
            (sample.data.next_observation, observations[min(start + 2, 3)]),
        ]:
            assert list(actual) == list(spec.observations)

            def check(a, b):
                assert a.dtype == b.dtype
                np.testing.assert_array_equal(a[0], b)

            tf.nest.map_structure(check, actual, expected)
        assert sample.data.action['jump'].dtype == tf.int64
        assert sample.data.extras == {'log_prob': np.float16(-0.5)}


@pytest.mark.parametrize(
    ('spec', 'message'),
    [
        (
            tables.TableSpec(
                name='t',
                sampler='uniform',
                max_size=9,
                signature=None,
                rate_limit=limits.RateLimit(),
            ),
            'table `t` at .* must have a signature, got none; set TableSpec.signature',
        ),
        (uniform(n_step=4), 'must have the columns .*4, 25.* got .*5, 25'),
        (
            scripts.fifo({}, name='other'),
            r"table must be one of \['other'\] .* got `t`",
        ),
    ],
)
def test_table_that_does_not_fit_is_refused(serve, spec, message):
    with pytest.raises(ValueError, match=message):
        make_dataset([serve(spec).address])


def test_server_that_does_not_answer_is_named():
    with pytest.raises(
        ConnectionError, match='no replay server answers at localhost:1'
    ):
        datasets.check_signature('localhost:1', 't', {}, timeout=1)


def test_prefetcher_hands_out_the_samples_in_order():
    dataset = tf.data.Dataset.range(5)
    with prefetching.Prefetcher(dataset, scripts.never) as samples:
        assert [int(x) for x in samples] == list(range(5))
        with pytest.raises(StopIteration):
            next(samples)
    with pytest.raises(RuntimeError, match='closed'):
        next(samples)


def test_prefetcher_raises_what_the_dataset_raises():
    def fail(x):
        tf.debugging.assert_less(x, tf.constant(1, tf.int64), 'too far')
        return x

    samples = prefetching.Prefetcher(tf.data.Dataset.range(5).map(fail), scripts.never)
    assert int(next(samples)) == 0
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match='too far'):
            next(samples)
    samples.close()


def test_waiting_learner_says_for_what_and_can_be_stopped_and_closed(serve):
    server = serve(uniform(min_size=1000, samples_per_insert=1, error_buffer=99))
    num_items = write(server.address)
    reasons = []

    def wait(reason, waited_seconds):
        reasons.append((reason, waited_seconds))
        if len(reasons) == 2:
            raise core.Stopped

    samples = prefetching.Prefetcher(
        make_dataset([server.address]), wait, datasets.describe_wait([server.address])
    )
    with pytest.raises(core.Stopped):
        next(samples)
    assert (
        f'table `t` waits for inserts: it has {num_items} of min_size 1000 items'
        in (reasons[0][0])
    )
    # A run that is stopped does not wait for a second.
    assert 0.1 < reasons[0][1] < reasons[1][1] < 0.9
    start = time.monotonic()
    samples.close()
    assert time.monotonic() - start < 10
    assert 'prefetcher' not in [thread.name for thread in threading.enumerate()]
