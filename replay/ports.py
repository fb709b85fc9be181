"""Looks whether a port is free; no TensorFlow is imported here."""

from __future__ import annotations

import socket


def bind(port: int) -> socket.socket:
    """Returns a socket bound to `port` of all addresses; 0 takes any free one.

    Raises:
        OSError: if another process listens there.
    """
    try:
        probe = socket.socket(socket.AF_INET6)
    except OSError:  # A kernel without IPv6.
        probe = socket.socket(socket.AF_INET)
    try:
        # Connections of a server that ended a moment ago hold nobody up.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(('', port))
    except OSError:
        probe.close()
        raise
    return probe
