"""Calls within one machine, in the place of Courier's."""

import socket
import threading
from concurrent import futures

import pytest

from repertory.launch import channels


class Node:
    """Stands for a node's Courier client; counts what is asked by it."""

    def __init__(self, name):
        self.name = name
        self.names_asked = 0
        self.called = []

    def channel(self):
        self.names_asked += 1
        if isinstance(self.name, Exception):
            raise self.name
        return self.name

    @property
    def futures(self):
        return self

    def act(self, packed):
        self.called.append(packed)
        future = futures.Future()
        future.set_result(b'by courier')
        return future


def test_many_callers_are_answered_each_with_its_own():
    large = b'x' * 1_000_000  # More than a socket holds.
    meeting = threading.Barrier(3)

    def answer(message):
        meeting.wait(timeout=20)  # All are heard at once.
        return message[:1] + large

    answers = {}
    with channels.Server(answer) as server:
        node = Node(server.name)

        def call(number):
            client = channels.Client(node)
            answers[number] = [client.act(b'%d' % number + large)() for _ in range(2)]

        threads = [threading.Thread(target=call, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
            assert not thread.is_alive()
    assert answers == {i: [b'%d' % i + large] * 2 for i in range(3)}
    assert node.names_asked == 3 and not node.called


def test_what_the_server_raises_is_raised_and_the_next_call_is_answered():
    def answer(message):
        if message == b'bad':
            raise ValueError('no such step')
        return message

    with channels.Server(answer) as server:
        client = channels.Client(Node(server.name))
        with pytest.raises(RuntimeError, match='ValueError: no such step'):
            client.act(b'bad')()
        assert client.act(b'good')() == b'good'


def test_an_answer_that_comes_late_is_not_taken_for_the_next_one():
    late = threading.Event()

    def answer(message):
        if message == b'slow':
            assert late.wait(timeout=20)
        return message

    with channels.Server(answer) as server:
        client = channels.Client(Node(server.name), timeout_seconds=0.2)
        wait = client.act(b'slow')
        with pytest.raises(TimeoutError, match='must come within 0.2 s, got none'):
            wait()
        late.set()
        assert client.act(b'next')() == b'next'
        assert client.act(b'other')() == b'other'


def test_a_server_that_is_replaced_is_found_again():
    with channels.Server(lambda message: b'old') as server:
        node = Node(server.name)
        client = channels.Client(node)
        assert client.act(b'')() == b'old'
        # As when its process has died.
        client._socket.close()
        node.name = RuntimeError('Deadline Exceeded')
        for _ in range(2):
            with pytest.raises((OSError, RuntimeError)):
                client.act(b'')()
    with channels.Server(lambda message: b'new') as server:
        node.name = server.name
        assert client.act(b'')() == b'new'
    assert not node.called


def test_a_server_of_another_machine_is_called_by_courier():
    with channels.Server(lambda message: b'') as server:
        node = Node(server.name)
    client = channels.Client(node)  # Nobody listens there any more.
    assert [client.act(b'1')(), client.act(b'2')()] == [b'by courier'] * 2
    assert node.called == [b'1', b'2'] and node.names_asked == 1


def test_other_users_are_not_heard(monkeypatch):
    monkeypatch.setattr(channels, '_user', lambda caller: -1)
    with channels.Server(lambda message: b'') as server:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.settimeout(10.0)
            caller.connect(f'\0{server.name}')
            assert caller.recv(1) == b''  # It is closed.
        # Nor does a client ask a server of another user.
        node = Node(server.name)
        assert channels.Client(node).act(b'1')() == b'by courier'


def test_a_second_call_before_the_answer_is_refused():
    with channels.Server(lambda message: message) as server:
        client = channels.Client(Node(server.name))
        wait = client.act(b'first')
        with pytest.raises(RuntimeError, match='another call'):
            client.act(b'second')
        assert wait() == b'first'
        assert client.act(b'third')() == b'third'
