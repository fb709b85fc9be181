"""Two learners, a process each, against one that has the whole batch."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from repertory.components import collectives
from repertory.launch import addresses
from tests.components import ranks

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope='module')
def results(tmp_path_factory):
    """What each of two ranks saw."""
    folder = tmp_path_factory.mktemp('ranks')
    where = [f'localhost:{addresses.free_port()}' for _ in range(ranks.SIZE)]
    paths = [folder / f'{rank}.npz' for rank in range(ranks.SIZE)]
    children = [
        subprocess.Popen(
            [sys.executable, '-m', ranks.__name__, str(rank), ','.join(where), path],
            stderr=subprocess.STDOUT,
            stdout=open(folder / f'{rank}.log', 'w'),
        )
        for rank, path in enumerate(paths)
    ]
    try:
        for rank, child in enumerate(children):
            code = child.wait(timeout=240)
            assert code == 0, (folder / f'{rank}.log').read_text()[-4000:]
    finally:
        for child in children:
            child.kill()
            child.wait()
    return [dict(np.load(path)) for path in paths]


@pytest.fixture(scope='module', params=['apex_dqn', 'impala'])
def case(request, results):
    """What each rank saw of one agent, and what a single learner saw."""
    one = ranks.cases()[request.param]
    whole = (one.sample(call) for call in range(ranks.CALLS))
    found = [
        {
            key.partition('/')[2]: value
            for key, value in rank.items()
            if key.startswith(f'{request.param}/')
        }
        for rank in results
    ]
    return found, ranks.run(one, 0, whole)


def test_the_joined_gradient_is_that_of_the_joined_batch(case):
    found, whole = case
    for rank in found:
        error = np.abs(rank['gradients'][0] - whole['gradients'][0]).max()
        assert error < 1e-5
        assert np.abs(whole['gradients'][0]).max() > 1e-2
        np.testing.assert_allclose(rank['loss'][0], whole['loss'][0], rtol=1e-5)


def test_twenty_steps_leave_the_same_variables_on_all_ranks(case):
    found, whole = case
    assert all(rank['steps'] == 20 for rank in found)
    for key in 'variables', 'state', 'gradients', 'loss':
        np.testing.assert_array_equal(found[0][key], found[1][key])
    np.testing.assert_allclose(found[0]['variables'], whole['variables'], atol=1e-3)


def test_all_stop_where_one_stops(results):
    # Rank 1 had three calls' samples, rank 0 seven.
    assert [rank['stopped/steps'] for rank in results] == [6, 6]


def test_a_nan_on_one_rank_stops_all_before_they_change(results):
    for rank in results:
        assert str(rank['nan/message']).startswith('FloatingPointError loss and')
        assert 'in learner step 1, which changed nothing' in str(rank['nan/message'])
        assert rank['nan/steps'] == 0 and rank['nan/change'] == 0


def printed(function):
    """Returns the addresses that a rank of its own process was given, and its lines."""
    where = [f'localhost:{addresses.free_port()}' for _ in range(2)]
    code = f'from tests.components import ranks; ranks.{function}({where})'
    done = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, timeout=120
    )
    assert done.stdout, done.stderr
    return where, done.stdout.splitlines()


def test_a_wait_for_one_that_is_gone_can_be_ended():
    _, [line] = printed('wait_alone')
    assert line.startswith('learner 0 of 2 lost the others: ')
    assert 'learner_1 is gone' in line


def test_one_that_never_starts_is_named():
    where, lines = printed('wait_in_vain')
    assert lines == [
        'all 2 learners must start within 1.5 s, got no answer from learner 1 at '
        f'{where[1]}; see the log there, and start all at once.',
        f'the start of learner 1 at {where[1]}',
    ]


def test_one_that_does_not_join_or_learn_is_named():
    where, lines = printed('wait_for_one_that_hangs')
    for what in 'join', 'take the next step':
        assert lines.pop(0) == (
            f'all 2 learners must {what} within 2.5 s, got learner 0 and not all of '
            f'learner 1 at {where[1]}; see the logs.'
        )
        assert lines.pop(0) == f'learner 1 at {where[1]}, to {what}'


@pytest.mark.parametrize('rank', [-1, 2])
def test_a_rank_without_an_address_is_refused(rank):
    with pytest.raises(ValueError, match=rf'rank must be in \[0, 2\), .* got {rank}'):
        collectives.Group(['localhost:1', 'localhost:2'], rank)


def test_a_group_comes_before_all_else_that_is_done_with_tensorflow():
    tf.zeros([1])
    with pytest.raises(RuntimeError, match='must be configured at program startup'):
        collectives.Group(['localhost:1', 'localhost:2'], 0)


class Group:
    """One that broadcasts nothing."""

    rank, size = 0, 2

    def broadcast(self, variables):
        pass


def test_a_learner_joins_once_and_before_it_learns():
    case = ranks.cases()['apex_dqn']
    joined, *_ = case.make(0, iter(()))
    joined.join(Group())
    learned, *_ = case.make(0, iter([case.sample(0)]))
    learned.step()
    prepared, *_ = case.make(0, iter(tf.data.Dataset.from_tensors(case.sample(0))))
    prepared.prepare()
    for made, step in (joined, 0), (learned, ranks.UPDATES), (prepared, 0):
        with pytest.raises(
            RuntimeError, match=f'join must be called once, .* at step {step}; make'
        ):
            made.join(Group())


def test_a_tensor_of_unknown_shape_cannot_be_reduced():
    @tf.function(input_signature=[tf.TensorSpec([None])])
    def reduce(tensor):
        return collectives.Group.all_reduce(Group(), [tensor])

    with pytest.raises(ValueError, match=r'tensors must have known shapes, got \(None'):
        reduce(tf.zeros([3]))
