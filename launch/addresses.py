"""Ports that stay a node's own while it is restarted."""

from __future__ import annotations

import random
from collections.abc import Iterable

import launchpad as lp
from launchpad import address as lp_address

from repertory.replay import ports

# Below the ports that the kernel hands out: while a node is down, no connection of
# another process may come to have its port.
_PORTS = range(20_000, 30_000)
_random = random.SystemRandom()
_given: set[int] = set()


def free_port() -> int:
    """Returns a port on which nobody listens, another one at each call.

    Raises:
        OSError: if none of a thousand is free.
    """
    for port in _random.sample(_PORTS, 1000):
        if port not in _given and is_free(port):
            _given.add(port)
            return port
    raise OSError(
        f'a port from {_PORTS.start} to {_PORTS.stop - 1} must be free, got a thousand '
        'that are taken; end what listens there.'
    )


def is_free(port: int) -> bool:
    """Returns whether nobody listens on `port` of this machine."""
    try:
        ports.bind(port).close()
    except OSError:
        return False
    return True


def ports_of(addresses: Iterable[lp.Address]) -> list[int]:
    """Returns the ports that addresses are bound to."""
    return [int(address.resolve().rpartition(':')[2]) for address in addresses]


class FixedAddress(lp_address.AbstractAddressBuilder):
    """An address that is known before the launch."""

    def __init__(self, address: str):
        self._address = address

    def build(self) -> str:
        return self._address


def bind_local(addresses: list[lp.Address]) -> None:
    """Gives each address a free port of this machine."""
    for address in addresses:
        address.bind(FixedAddress(f'localhost:{free_port()}'))
