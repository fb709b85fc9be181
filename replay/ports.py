"""Whether a port is free, and who may reach it; no TensorFlow is imported here."""

from __future__ import annotations

import ctypes
import logging
import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Sequence

_SO_ATTACH_FILTER = 26
_INTERFACE = 0xFFFFF008  # Where a filter finds the number of the network interface.
_SOON_SECONDS = 0.05
_SETTLE_SECONDS = 1.0  # gRPC may listen by further sockets a moment later.

_logger = logging.getLogger(__name__)


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


def keep_local(port: int) -> bool:
    """Has what listens on `port` in this process drop what other machines send.

    Reverb, Courier and TensorFlow listen on every interface, and cannot be told not
    to. A filter of the kernel, which needs no rights, lets pass what comes by the
    loopback interface: all that is sent within the machine, to whatever address of it.
    What is connected already stays so.

    Returns:
        Whether something listens there.

    Raises:
        OSError: if the kernel does not take the filter.
    """
    found = False
    for name in os.listdir('/proc/self/fd'):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            copy = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue  # It was closed meanwhile.
        with copy:
            if _listens(copy, port):
                _drop_others(copy)
                found = True
    return found


def keep_local_soon(ports: Sequence[int]) -> None:
    """Does as `keep_local` for each of `ports`, once something listens there."""
    if ports:
        threading.Thread(target=_keep_local, args=(ports,), daemon=True).start()


def _keep_local(ports: Sequence[int]) -> None:
    left = dict.fromkeys(ports, float('inf'))  # Until when each is looked at.
    try:
        while left:
            now = time.monotonic()
            for port, until in list(left.items()):
                if until < now:
                    del left[port]
                elif keep_local(port):
                    left[port] = min(until, now + _SETTLE_SECONDS)
            time.sleep(_SOON_SECONDS)
    except OSError as error:
        _logger.warning(
            'Ports %s may be reached by other machines: the kernel takes no filter '
            '(%s). Let a firewall close them.',
            ', '.join(map(str, left)),
            error,
        )


def _listens(server: socket.socket, port: int) -> bool:
    return (
        server.family in (socket.AF_INET, socket.AF_INET6)
        and server.type == socket.SOCK_STREAM
        and server.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
        and server.getsockname()[1] == port
    )


def _drop_others(server: socket.socket) -> None:
    loopback = socket.if_nametoindex('lo')
    program = b''.join(
        struct.pack('HBBI', *instruction)
        for instruction in (
            (0x20, 0, 0, _INTERFACE),  # Load the number of the interface.
            (0x15, 0, 1, loopback),  # If it is another one, skip an instruction.
            (0x06, 0, 0, 0xFFFFFFFF),  # Let all of it pass.
            (0x06, 0, 0, 0),  # Let none of it.
        )
    )
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack('HP', len(program) // 8, ctypes.addressof(code))
    server.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, header)
