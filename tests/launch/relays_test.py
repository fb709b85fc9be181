"""Relays between a learner and its actors, over Courier."""

import collections
import contextlib
import time

import courier
import numpy as np
import portpicker
import pytest
import tensorflow as tf

from repertory.components import core, variables
from repertory.launch import relays, remote

pytestmark = pytest.mark.timeout(120)


class Learner(core.VariableSource):
    version = 0

    def get_variables(self):
        return self.version, [np.full(3, self.version, np.float32)]


class Control:
    def __init__(self, wait=lambda: None):
        self.phase = 'run'
        self._wait = wait

    def wait(self, reason, waited_seconds):
        self._wait()


@contextlib.contextmanager
def serving(source, port=None, counts=None):
    """Serves `source`, counting its calls and the arrays that it sends."""
    answer = remote.versioned(source)
    counts = collections.Counter() if counts is None else counts

    def get_variables(known):
        result = answer(known)
        counts['calls'] += 1
        counts['sent'] += len(result[1])
        return result

    port = port or portpicker.pick_unused_port()
    server = courier.Server('x', port=port)
    server.Bind('get_variables', get_variables)
    server.Start()
    try:
        yield port
    finally:
        server.Stop()
        server.Join()


def connect(port, control=None):
    client = courier.Client(f'localhost:{port}', call_timeout=2.0)
    return remote.RemoteVariables(client, control or Control())


def test_the_learner_serves_relays_and_these_the_actors_each_version_once():
    learner, from_learner = Learner(), collections.Counter()
    from_relays = [collections.Counter() for _ in range(2)]
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(serving(learner, counts=from_learner))
        passing = [relays.Relay(connect(port)) for _ in range(2)]
        ports = [
            stack.enter_context(serving(relay, counts=counts))
            for relay, counts in zip(passing, from_relays, strict=True)
        ]
        actors = [connect(ports[i % 2]) for i in range(8)]
        for version in (0, 1, 5):
            learner.version = version
            for relay in passing:
                for _ in range(3):
                    relay.fetch()
            for actor in actors:
                for _ in range(4):
                    found, [array] = actor.get_variables()
                    assert found == version
                    np.testing.assert_array_equal(array, np.full(3, version))
    assert from_learner == {'calls': 3 * 2 * 3, 'sent': 2 * 3}
    assert from_relays == [{'calls': 4 * 4 * 3, 'sent': 4 * 3}] * 2


def test_an_actor_waits_for_a_relay_that_has_nothing_yet():
    relay = relays.Relay(Learner())
    assert relay.get_variables() == (-1, ())
    with serving(relay) as port:
        waits = []

        def wait():
            waits.append(True)
            if len(waits) == 2:
                relay.fetch()

        assert connect(port, Control(wait)).get_variables()[0] == 0
    assert len(waits) == 2


def test_who_waits_for_a_learner_that_does_not_listen_is_stopped_or_gives_up(
    monkeypatch,
):
    port, waits = portpicker.pick_unused_port(), []

    def wait():
        waits.append(time.monotonic())
        if len(waits) == 3:
            raise core.Stopped

    with pytest.raises(core.Stopped):
        connect(port, Control(wait)).get_variables()
    assert waits[-1] - waits[0] < 2.0
    monkeypatch.setattr(remote, '_POLL_SECONDS', 0.2)
    monkeypatch.setattr(remote, '_GIVE_UP_SECONDS', 0.2)
    with pytest.raises(Exception, match='(?i)deadline'):
        connect(port).get_variables()


def test_an_actor_acts_on_while_its_relay_is_gone_and_hears_of_it_again():
    learner = Learner()
    relay = relays.Relay(learner)
    relay.fetch()
    port = portpicker.pick_unused_port()
    variable = tf.Variable(np.zeros(3, np.float32))
    with serving(relay, port):
        client = variables.VariableClient(connect(port), [variable], update_period=1)
        client.update(wait=True)
    assert client.version == 0
    learner.version = 7
    slowest = 0.0
    for _ in range(50):
        begin = time.monotonic()
        client.update(1)
        slowest = max(slowest, time.monotonic() - begin)
        time.sleep(0.01)
    assert slowest < 1.0  # A call to it takes 2 s to be given up.
    assert client.version == 0
    again = relays.Relay(learner)
    again.fetch()
    with serving(again, port):
        end = time.monotonic() + 60
        while client.version != 7:
            assert time.monotonic() < end
            client.update(1)
            time.sleep(0.01)
    np.testing.assert_array_equal(variable, np.full(3, 7))
