"""Calls within one machine, in the place of Courier's."""

import asyncio
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


def always(answer):
    async def give(message):
        return answer

    return give


async def echo(message):
    return message


def test_many_callers_are_answered_each_with_its_own():
    large = b'x' * 1_000_000  # More than a socket holds.
    waiting = []

    async def answer(message):
        waiting.append(asyncio.get_running_loop().create_future())
        if len(waiting) % 3 == 0:  # All are heard at once.
            for each in waiting[-3:]:
                each.set_result(None)
        await waiting[-1]
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
    async def answer(message):
        if message == b'bad':
            raise ValueError('no such step')
        return message

    with channels.Server(answer) as server:
        client = channels.Client(Node(server.name))
        with pytest.raises(RuntimeError, match='ValueError: no such step'):
            client.act(b'bad')()
        assert client.act(b'good')() == b'good'


def test_an_answer_that_comes_late_is_not_taken_for_the_next_one():
    late = asyncio.Event()

    async def answer(message):
        if message == b'slow':
            await late.wait()
        return message

    with channels.Server(answer) as server:
        client = channels.Client(Node(server.name), timeout_seconds=0.2)
        wait = client.act(b'slow')
        with pytest.raises(TimeoutError, match='must come within 0.2 s, got none'):
            wait()
        server.loop.call_soon_threadsafe(late.set)
        assert client.act(b'next')() == b'next'
        assert client.act(b'other')() == b'other'


def test_a_server_that_is_replaced_is_found_again():
    with channels.Server(always(b'old')) as server:
        node = Node(server.name)
        client = channels.Client(node)
        assert client.act(b'')() == b'old'
        # As when its process has died.
        client._socket.close()
        node.name = RuntimeError('Deadline Exceeded')
        for _ in range(2):
            with pytest.raises((OSError, RuntimeError)):
                client.act(b'')()
    with channels.Server(always(b'new')) as server:
        node.name = server.name
        assert client.act(b'')() == b'new'
    assert not node.called


def test_a_server_of_another_machine_is_called_by_courier():
    with channels.Server(always(b'')) as server:
        node = Node(server.name)
    client = channels.Client(node)  # Nobody listens there any more.
    assert [client.act(b'1')(), client.act(b'2')()] == [b'by courier'] * 2
    assert node.called == [b'1', b'2'] and node.names_asked == 1


def test_other_users_are_not_heard(monkeypatch):
    monkeypatch.setattr(channels, '_user', lambda caller: -1)
    with channels.Server(always(b'')) as server:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.settimeout(10.0)
            caller.connect(f'\0{server.name}')
            assert caller.recv(1) == b''  # It is closed.
        # Nor does a client ask a server of another user.
        node = Node(server.name)
        assert channels.Client(node).act(b'1')() == b'by courier'


def test_a_second_call_before_the_answer_is_refused():
    with channels.Server(echo) as server:
        client = channels.Client(Node(server.name))
        wait = client.act(b'first')
        with pytest.raises(RuntimeError, match='another call'):
            client.act(b'second')
        assert wait() == b'first'
        assert client.act(b'third')() == b'third'


def test_a_caller_that_does_not_read_holds_nobody_up():
    with channels.Server(echo) as server:
        stuck = channels.Client(Node(server.name))
        never_read = stuck.act(b'x' * 10_000_000)
        other = channels.Client(Node(server.name))
        for _ in range(3):
            assert other.act(b'other')() == b'other'
        assert len(never_read()) == 10_000_000


def test_a_message_that_came_another_way_is_answered():
    with channels.Server(echo) as server:
        assert server.call(b'1') == b'1'
    with pytest.raises(RuntimeError, match='call must come before close'):
        server.call(b'1')


def test_a_server_that_is_closed_leaves_its_callers():
    with channels.Server(echo) as server:
        client = channels.Client(Node(server.name))
        assert client.act(b'1')() == b'1'
    server.close()
    with pytest.raises((EOFError, OSError)):
        client.act(b'2')()
