"""The two ends of a proxied connection, and carrying bytes between them as they are.

Both ends are flow-controlled: nothing is read from one faster than the other takes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeAlias

from verifiers.sandboxes.egress.outer import OuterProxy
from verifiers.sandboxes.wire import CHUNK

HEAD_TIMEOUT_S = 60.0
"""For a program to say what it wants."""
IDLE_TIMEOUT_S = 900.0
"""Without a byte in either direction."""
FLUSH_TIMEOUT_S = 10.0
"""For a server to take the last bytes, when everything else is over."""


class Upstream(NamedTuple):
    """An open connection to what a box asked for."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    proxy: OuterProxy | None = None
    """What it leads to instead: a proxy that wants the whole URI of a plain request. None: it leads there."""


@asynccontextmanager
async def using(upstream: Upstream) -> AsyncIterator[Upstream]:
    """`upstream`, whose socket is gone at the end, and at once if that is an error."""
    try:
        yield upstream
        upstream.writer.close()
        async with asyncio.timeout(FLUSH_TIMEOUT_S):
            await upstream.writer.wait_closed()
    finally:
        upstream.writer.transport.abort()


Reach: TypeAlias = Callable[[str, int, Literal["http", "https"]], Awaitable[Upstream]]
"""Connects to a host and port, for plain HTTP or for a tunnel, or raises `ValueError`, `RefusedHost` or
`UnreachableHost`."""


class Peer(Protocol):
    """A connection that a program in the box opened."""

    async def read(self) -> bytes:
        """Some bytes, b"" at their end."""
        ...

    async def write(self, data: bytes) -> None:
        """Waits while the program does not read; `ConnectionResetError` if it is gone."""
        ...

    def end(self) -> None:
        """Nothing more is written."""
        ...


class Program:
    """The program at the other end of `peer`; what was read from it can be put back."""

    def __init__(self, peer: Peer) -> None:
        self.write, self.end = peer.write, peer.end
        self._peer = peer
        self._held = b""

    async def read(self) -> bytes:
        data, self._held = self._held, b""
        return data or await self._peer.read()

    async def exactly(self, count: int) -> bytes:
        """`count` bytes; `ConnectionResetError` if they end before."""
        taken = b""
        while len(taken) < count:
            data = await self.read()
            if not data:
                raise ConnectionResetError("it hung up")
            taken += data
        self.put_back(taken[count:])
        return taken[:count]

    def put_back(self, data: bytes) -> None:
        self._held = data + self._held


class Idle:
    """Raises `TimeoutError` in what runs inside when `touch` was not called for a while."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._limit = asyncio.timeout(seconds)

    async def __aenter__(self) -> Self:
        await self._limit.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._limit.__aexit__(*error)

    def touch(self) -> None:
        if not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time() + self.seconds)


async def together(main: Coroutine[Any, Any, None], other: Coroutine[Any, Any, None], *, wait: bool) -> None:
    """Both at once until `main` has ended, and `other` too if `wait`; the first error ends both."""
    tasks = [asyncio.ensure_future(main), asyncio.ensure_future(other)]
    waiting = set(tasks)
    try:
        while waiting and (wait or tasks[0] in waiting):
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def tunnel(program: Program, upstream: Upstream) -> None:
    """Bytes in both directions until both have ended.

    Raises:
        OSError: either side hung up, or nothing moved for long.
    """

    async def outward() -> None:
        while data := await program.read():
            idle.touch()
            upstream.writer.write(data)
            await upstream.writer.drain()
        if upstream.writer.can_write_eof():  # TLS cannot
            upstream.writer.write_eof()

    async def inward() -> None:
        while data := await upstream.reader.read(CHUNK):
            idle.touch()
            await program.write(data)
        program.end()

    async with Idle(IDLE_TIMEOUT_S) as idle:
        await together(inward(), outward(), wait=True)
