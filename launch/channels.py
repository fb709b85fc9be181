"""Calls within one machine, which take a third of the time of Courier's."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import struct
import threading
import uuid
from collections.abc import Callable, Coroutine
from concurrent import futures
from typing import Any

_OK, _FAILED = b'+', b'-'
_LENGTH = struct.Struct('<Q')  # Comes before each message.
_PIECE_BYTES = 2**16
_BUFFER_BYTES = 2**20
_ANSWER_SECONDS = 10.0  # Only a loop that is stuck takes so long.
_CLOSE_SECONDS = 10.0

_logger = logging.getLogger(__name__)


class Server:
    """Answers messages of other processes on this machine; a context manager.

    Those of other users are not heard. One thread reads, answers and writes: a thread
    for each caller would wait for Python's lock at each of these.

    Attributes:
        name: by which a `Client` finds it.
        loop: of the thread, from now until `close`.

    Args:
        answer: takes a message and returns the answer, or raises, within seconds;
            runs in `loop`. The text of what it raises is raised in the caller.
    """

    def __init__(self, answer: Callable[[bytes], Coroutine[Any, Any, bytes]]):
        self.name = f'repertory-{uuid.uuid4().hex}'
        self.loop = asyncio.new_event_loop()
        self._answer = answer
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(_address(self.name))
        self._socket.listen()
        self._ended = self.loop.create_future()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def call(self, message: bytes) -> bytes:
        """Returns the answer to a message that came another way; not for `loop`.

        Raises:
            Exception: what `answer` raises.
            RuntimeError: if the server is closed.
            TimeoutError: if there is no answer within 10 s.
        """
        if self._closed:
            raise RuntimeError(
                'call must come before close, got it after; the run is over, or its '
                'node has to be started again.'
            )
        answer = asyncio.run_coroutine_threadsafe(self._answer(message), self.loop)
        try:
            return answer.result(_ANSWER_SECONDS)
        except futures.TimeoutError:
            answer.cancel()
            raise TimeoutError(
                f'{self.name} must answer within {_ANSWER_SECONDS:g} s, got no answer; '
                'what it does takes too long.'
            ) from None

    def close(self) -> None:
        """Leaves the callers, and ends the thread; may be called twice."""
        if not self._closed:
            self._closed = True
            self.loop.call_soon_threadsafe(self._ended.set_result, None)
            self._thread.join(_CLOSE_SECONDS)
            if self._thread.is_alive():
                _logger.warning(
                    '%s must end within %g s of close, got an answer that is still '
                    'being made; its thread ends with the process.',
                    self.name,
                    _CLOSE_SECONDS,
                )

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *unused) -> None:
        self.close()

    def _run(self) -> None:
        with contextlib.closing(self.loop):
            self.loop.run_until_complete(self._serve_all())

    async def _serve_all(self) -> None:
        server = await asyncio.start_unix_server(
            self._serve, sock=self._socket, limit=_BUFFER_BYTES
        )
        async with server:
            await self._ended
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            if _user(writer.get_extra_info('socket')) != os.geteuid():
                return
            while True:
                size = await reader.readexactly(_LENGTH.size)
                message = await reader.readexactly(*_LENGTH.unpack(size))
                try:
                    answer = _OK + await self._answer(message)
                except Exception as error:  # The caller raises it.
                    answer = _FAILED + f'{type(error).__name__}: {error}'.encode()
                writer.write(_LENGTH.pack(len(answer)) + answer)
                await writer.drain()
        except (EOFError, OSError):
            pass  # The caller is gone.
        finally:
            writer.close()


class Client:
    """Calls `act` of a node: by its `Server` where that is on this machine.

    Elsewhere, or if nobody listens there, by Courier. It is for one thread, and for
    one call at a time.

    Args:
        courier: client of the node, which serves `act` and `channel`, the name of its
            `Server`; its calls have a time-out.
        timeout_seconds: for an answer.
    """

    def __init__(self, courier: Any, timeout_seconds: float = 1.0):
        self._courier = courier
        self._timeout = timeout_seconds
        self._socket: socket.socket | None = None
        self._is_near = True
        self._asked = False  # By the socket, and not answered yet.

    def act(self, packed: bytes) -> Callable[[], bytes]:
        """Begins the call; returns what waits for the answer.

        That raises whatever went wrong, here or there. The next call begins anew.

        Raises:
            RuntimeError: if the call before has not been waited for.
        """
        if self._asked:
            raise RuntimeError(
                'act must be called once its last answer was waited for, got another '
                'call; the answers would be taken for each other.'
            )
        try:
            if self._is_near and self._socket is None:
                self._connect()
            if self._socket is not None:
                _send(self._socket, packed)
                self._asked = True
                return self._wait_for_answer
        except Exception as error:
            return self._failed(error)
        return self._courier.futures.act(packed).result

    def _connect(self) -> None:
        address = _address(self._courier.channel())
        one = socket.socket(socket.AF_UNIX)
        seconds = struct.pack(
            'll', int(self._timeout), int(self._timeout % 1 * 1_000_000)
        )
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            one.setsockopt(socket.SOL_SOCKET, option, seconds)
        try:
            one.connect(address)
            # A name is free to take for anyone once its server has died.
            self._is_near = _user(one) == os.geteuid()
        except OSError:  # Of another machine, since its node has just answered.
            self._is_near = False
        if self._is_near:
            self._socket = one
        else:
            one.close()

    def _wait_for_answer(self) -> bytes:
        if self._socket is None:
            raise RuntimeError('act must be called before each answer, got no call.')
        self._asked = False
        try:
            answer = _receive(self._socket)
        except BlockingIOError:
            self._drop()  # Or the answer would be taken for that to the next call.
            raise TimeoutError(
                f'an answer must come within {self._timeout:g} s, got none.'
            ) from None
        except BaseException:
            self._drop()
            raise
        if answer[:1] == _FAILED:
            raise RuntimeError(answer[1:].decode())
        return answer[1:]

    def _failed(self, error: Exception) -> Callable[[], bytes]:
        self._drop()

        def fail() -> bytes:
            raise error

        return fail

    def _drop(self) -> None:
        self._asked = False
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _address(name: str) -> str:
    return f'\0{name}'  # Of no file: it ends with the process that listens.


def _send(one: socket.socket, message: bytes) -> None:
    one.sendall(_LENGTH.pack(len(message)) + message)


def _receive(one: socket.socket) -> bytes:
    # Mostly in one piece: after each, a thread has to wait for Python's lock.
    received = bytearray()
    end = _LENGTH.size
    while len(received) < end:
        piece = one.recv(_PIECE_BYTES)
        if not piece:
            raise EOFError('the connection has ended.')
        received += piece
        if len(received) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(received)[0]
    return bytes(memoryview(received)[_LENGTH.size :])


def _user(caller: socket.socket) -> int:
    size = struct.calcsize('iII')  # pid, uid, gid
    credentials = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return struct.unpack('iII', credentials)[1]
