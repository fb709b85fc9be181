import socket

import pytest

from repertory.replay import ports


def test_a_port_that_is_listened_on_is_not_free():
    with socket.socket() as listening:
        listening.bind(('127.0.0.1', 0))
        listening.listen()
        taken = listening.getsockname()[1]
        with pytest.raises(OSError):
            ports.bind(taken)
    with ports.bind(taken) as probe:
        assert probe.getsockname()[1] == taken


def test_a_kernel_without_ipv6_will_do(monkeypatch):
    made = socket.socket

    def make(family=socket.AF_INET, *args, **kwargs):
        if family == socket.AF_INET6:
            raise OSError(97, 'Address family not supported by protocol')
        return made(family, *args, **kwargs)

    monkeypatch.setattr(socket, 'socket', make)
    with ports.bind(0) as probe:
        assert probe.getsockname()[1] > 0
