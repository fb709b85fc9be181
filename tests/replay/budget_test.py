import fractions
import math

import pytest

from repertory.replay import budget, tables


@pytest.mark.parametrize('ratio', [0.1, 0.5, 1, 4, 16, 0.7])
@pytest.mark.parametrize('batch_size', [1, 7, 256])
def test_budget_keeps_the_exact_ratio(ratio, batch_size):
    counted = budget.SampleBudget(ratio, min_size=13, batch_size=batch_size)
    done = 0
    for inserted in range(0, 5000, 16):
        owed = counted.owed(inserted)
        counted.spend(owed)
        done += owed
        exact = fractions.Fraction(str(ratio)) * max(inserted - 13, 0) / batch_size
        assert done == math.floor(exact)
    assert counted.owed(inserted) == 0


@pytest.mark.parametrize('ratio', [None, math.inf])
def test_without_a_ratio_one_step_is_owed_each_time(ratio):
    counted = budget.SampleBudget(ratio, min_size=10, batch_size=4)
    assert counted.owed(9) == 0
    assert counted.owed(10) == 1
    counted.spend(1)
    assert counted.owed(10) == 1


def test_queue_owes_a_step_for_each_batch():
    counted = budget.SampleBudget.for_table(tables.make_queue('q', 9, {}), 4)
    assert [counted.owed(n) for n in (3, 4, 7, 8)] == [0, 1, 1, 2]


def test_restored_budget_goes_on_where_it_was():
    first = budget.SampleBudget(2.0, min_size=10, batch_size=4)
    first.spend(first.owed(25))
    second = budget.SampleBudget(2.0, min_size=10, batch_size=4)
    second.restore(first.state())
    assert second.owed(0) == 0
    assert second.owed(1) == 1  # floor(2 * 16 / 4) - floor(2 * 15 / 4)
    assert second.state() == {'inserted': 26, 'steps': 7}


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ((1.0, 1, 0), 'batch_size must be >= 1, got 0'),
        ((1.0, -1, 1), 'min_size must be >= 0, got -1'),
        ((0.0, 1, 1), 'samples_per_insert must be > 0, got 0.0'),
    ],
)
def test_what_cannot_work_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        budget.SampleBudget(*arguments)
