"""The variable client: versions, periods, faults, and that it never blocks."""

import gc
import threading

import numpy as np
import pytest
import tensorflow as tf

from repertory.components import core, variables


class Source(core.VariableSource):
    """Publishes its version; can be held up."""

    def __init__(self):
        self.version = 0
        self.calls = 0
        self.error = None
        self.open = threading.Event()
        self.open.set()

    def get_variables(self):
        self.calls += 1
        self.open.wait(10)
        if self.error is not None:
            raise self.error
        return self.version, [np.full([2], self.version, np.float32)]


def finish(client):
    """Waits for the fetch that is under way."""
    if client._is_fetching:
        answer = client._fetcher.answers.get(timeout=10)
        client._fetcher.answers.put(answer)


def test_update_does_not_wait_for_a_slow_source():
    source, variable = Source(), tf.Variable([9.0, 9.0])
    client = variables.VariableClient(source, [variable], update_period=1)
    source.open.clear()
    source.version = 7
    for _ in range(5):
        client.update(1)  # Would hang if it waited.
    np.testing.assert_array_equal(variable, [9, 9])
    source.open.set()
    finish(client)
    client.update(0)
    np.testing.assert_array_equal(variable, [7, 7])
    assert client.version == 7
    client.update(wait=True)
    # One fetch for the first five calls, one that the sixth began, and this one.
    assert source.calls == 3


def test_the_thread_that_fetches_ends_with_its_client():
    before = threading.enumerate()
    client = variables.VariableClient(Source(), [tf.Variable([9.0, 9.0])], 1)
    client.update(1)
    finish(client)
    [thread] = set(threading.enumerate()) - set(before)
    assert thread.is_alive()
    del client
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


def test_a_fetch_begins_each_period():
    source, variable = Source(), tf.Variable([9.0, 9.0])
    client = variables.VariableClient(source, [variable], update_period=10)
    for _ in range(30):
        client.update(1)
        finish(client)
    assert source.calls == 3


def test_the_version_in_use_is_known():
    source, variable = Source(), tf.Variable([9.0, 9.0])
    client = variables.VariableClient(source, [variable], 1, background=False)
    assert client.version == -1
    for version in 5, 12, 12, 13:
        source.version = version
        client.update(1)
        assert client.version == version


def test_waiting_takes_the_newest():
    source, variable = Source(), tf.Variable([9.0, 9.0])
    client = variables.VariableClient(source, [variable], update_period=1000)
    source.version = 3
    client.update(wait=True)
    np.testing.assert_array_equal(variable, [3, 3])


def test_arrays_that_do_not_fit_are_refused():
    client = variables.VariableClient(
        Source(), [tf.Variable([1.0])], 1, background=False
    )
    with pytest.raises(ValueError, match=r'shapes \[\(1,\)\], got \[\(2,\)\]'):
        client.update(1)


def test_a_source_that_does_not_answer_is_an_error_in_the_end(monkeypatch):
    monkeypatch.setattr(variables, '_GIVE_UP_SECONDS', 0.0)
    source = Source()
    source.error = ConnectionError('gone')
    client = variables.VariableClient(source, [tf.Variable([1.0, 1.0])], 1)
    with pytest.raises(RuntimeError, match='is the learner alive'):
        for _ in range(3):
            client.update(1)
            finish(client)


def test_a_period_below_one_is_refused():
    with pytest.raises(ValueError, match='update_period must be >= 1'):
        variables.VariableClient(Source(), [], 0)
