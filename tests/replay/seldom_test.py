from repertory.replay import seldom


def test_a_function_is_called_at_most_once_a_second():
    times = iter([0.0, 0.3, 1.0, 1.2, 1.4, 9.0, 9.0])
    results = iter('ab')
    # Its first call ends at 0.3, so that the second is due at 1.3.
    one = seldom.Seldom(lambda: next(results), clock=lambda: next(times))
    assert [one() for _ in range(4)] == ['a', 'a', 'a', 'b']
