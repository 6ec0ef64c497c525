"""Connections carried by a box's agent: to a port in the box, and from a socket or port in the box to this process."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from verifiers.errors import ConfigError, SandboxLostError
from verifiers.sandboxes.base import Address
from verifiers.sandboxes.transfer import encoded
from verifiers.sandboxes.wire import CHUNK, Grants, Wire

log = logging.getLogger("verifiers.sandboxes")
MAX_ACCEPTED = 512
"""Connections out of one box at a time; more are hung up on. Each takes descriptors of this process and up to a
window of its memory, and those are everybody's."""


def _check_socket(source: Path) -> None:
    if not source.is_socket():
        raise FileNotFoundError(f"{source} is no unix socket on this machine")


class Connection:
    """One channel that carries a connection; bytes from the box wait in `inbox`, at most a window's worth."""

    def __init__(self, wire: Wire) -> None:
        self.wire, self.grants = wire, Grants(wire)
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.inbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.channel = 0

    def received(self, kind: bytes, payload: bytes) -> None:
        if kind == b"D":
            self.inbox.put_nowait(payload)
        elif kind == b"W":
            self.grants.grant(int(payload))
        elif kind == b"e" and payload == b"W":
            self.grants.close()
        elif kind == b"e":
            self.inbox.put_nowait(None)
        elif kind == b"P" and not self.opened.done():
            self.opened.set_result(None)

    def broken(self, error: Exception) -> None:
        self.grants.close()
        self.inbox.put_nowait(None)
        if not self.opened.done():
            self.opened.set_exception(error)
            self.opened.exception()

    async def read(self) -> bytes:
        """Some bytes from the box; b"" at their end."""
        data = await self.inbox.get()
        if data is None:
            self.inbox.put_nowait(None)  # the end stays the end
            return b""
        self.wire.send(self.channel, b"W", b"D%d" % len(data))
        return data

    async def write(self, data: bytes) -> None:
        """Waits while the box does not read; `ConnectionResetError` once it never will."""
        await self.grants.send(self.channel, data)
        if self.grants.closed:
            raise ConnectionResetError(errno.ECONNRESET, "the other end in the box is gone")

    def end(self) -> None:
        """Nothing more is written."""
        self.wire.send(self.channel, b"E")

    def release(self) -> None:
        """Listen no more; the agent still delivers what it holds, and lets go when the box does."""
        self.wire.streams.pop(self.channel, None)

    def drop(self) -> None:
        """Neither side is of interest any more; no error if it has ended."""
        if self.wire.streams.pop(self.channel, None) is not None:
            self.wire.send(self.channel, b"Q")

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Both directions until both have ended; the agent then still delivers what it holds."""
        both = [asyncio.ensure_future(self._inward(reader)), asyncio.ensure_future(self._outward(writer))]
        try:
            await asyncio.gather(*both)
        except OSError:  # either side hung up
            self.drop()
        except asyncio.CancelledError:
            self.drop()
            raise
        finally:
            for task in both:
                task.cancel()
            writer.close()  # before anything is awaited: a second cancellation must not leave it open
            self.release()
            await asyncio.gather(*both, return_exceptions=True)

    async def _inward(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(CHUNK):
            try:
                await self.write(data)
            except ConnectionResetError:
                return  # what the box still says is carried
        self.end()

    async def _outward(self, writer: asyncio.StreamWriter) -> None:
        while data := await self.read():
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def _connect(source: Path, connection: Connection) -> None:
    try:
        reader, writer = await asyncio.open_unix_connection(source)
    except OSError:
        return
    await connection.carry(reader, writer)


class Relays:
    """All connections of one box; `close` ends them."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._servers: list[asyncio.Server] = []
        self._answers: dict[int, Callable[[Connection], Awaitable[None]]] = {}
        """What serves the connections of each listener in the box."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted_now = 0
        self._warned = False
        wire.on_accept = self._accepted

    async def expose(self, port: int) -> Address:
        if not isinstance(port, int) or not 0 < port < 1 << 16:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"port {port!r} must be a number from 1 to 65535")

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._own(asyncio.ensure_future(self._serve(port, reader, writer)))

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        self._servers.append(server)
        host, number = server.sockets[0].getsockname()[:2]
        return Address(host, number)

    async def _serve(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(self.wire)
        try:
            connection.channel = self.wire.open(connection)
            self.wire.send(connection.channel, b"C", b"%d" % port)
            await connection.opened
        except (OSError, SandboxLostError):
            writer.close()  # nobody listens there: the caller sees the connection end
            return
        await connection.carry(reader, writer)

    async def bind_socket(self, source: Path, path: str) -> None:
        _check_socket(source)
        listener = self._listen(b"L", encoded(path), partial(_connect, source))
        try:
            await listener.opened
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None

    def answer_at(self, port: int, answer: Callable[[Connection], Awaitable[None]]) -> None:
        """Serve what connects to `port` of the box's loopback from now on; a box where that fails is lost."""

        def told(opened: asyncio.Future[None]) -> None:
            error = None if opened.cancelled() else opened.exception()
            if error is not None:
                self.wire.lose(SandboxLostError(f"the agent cannot listen at port {port} of the box: {error}"))

        self._listen(b"l", b"%d" % port, answer).opened.add_done_callback(told)

    def _listen(self, kind: bytes, place: bytes, answer: Callable[[Connection], Awaitable[None]]) -> Connection:
        listener = Connection(self.wire)
        listener.channel = self.wire.open(listener)
        self._answers[listener.channel] = answer
        self.wire.send(listener.channel, kind, place)
        return listener

    def _accepted(self, listener: int, channel: int) -> None:
        connection = Connection(self.wire)
        connection.channel = channel
        self.wire.streams[channel] = connection
        if self._accepted_now >= MAX_ACCEPTED:
            if not self._warned:
                log.warning("a sandbox holds %d connections out of it; further ones are hung up on", MAX_ACCEPTED)
            self._warned = True
            connection.drop()
            return
        self._accepted_now += 1
        self._own(asyncio.ensure_future(self._answer(self._answers[listener], connection)))

    async def _answer(self, answer: Callable[[Connection], Awaitable[None]], connection: Connection) -> None:
        try:
            await answer(connection)
        finally:
            self._accepted_now -= 1
            connection.drop()

    def _own(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
