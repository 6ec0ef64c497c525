"""The frames between this process and the agent in a box, and the host's end of one connection.

A frame is 4 bytes length of the payload, 4 bytes channel, 1 byte kind, payload; big-endian. Fields in a payload are
separated by NUL, which no path, argument or environment entry can hold. The host opens channels (the agent only for
accepted sockets, from 2**31 on). Each side sends at most `WINDOW` bytes of data on a channel before the other grants
more.

    host -> agent                                    agent -> host
    H settings                                       H pid, uid, Python minor version
    x exec, s spawn (see `Request`)                  F exec's result, or the end of a transfer; P it started: pid
    D data, E end of data, W grant                   D data or stdout, d stderr, W grant
                                                     e end of D or d; of W: nobody reads what comes any more
    K signal, Q forget it                            X exit code of a spawned command
    R read file, T read tree                         S size of a file, N entry of a tree
    U write below a path, N entry                    ! errno and text, ? refused
    C connect to a port                              A accepted: new channel
    L listen at a path, l on a port
    k kill what a process started: pid
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from verifiers.errors import SandboxError, SandboxLostError, SandboxPolicyError

WINDOW = 1 << 18
CHUNK = 1 << 16
MAX_FRAME = 1 << 30
"""An agent that announces more than this is not ours any more."""


def frame(channel: int, kind: bytes, payload: bytes) -> bytes:
    return b"%b%b%b%b" % (len(payload).to_bytes(4, "big"), channel.to_bytes(4, "big"), kind, payload)


class Stream(Protocol):
    """What listens on one channel of the host's side."""

    def received(self, kind: bytes, payload: bytes) -> None: ...

    def broken(self, error: Exception) -> None:
        """The agent refused, or the connection is gone; nothing follows."""
        ...


class Wire:
    """One agent, seen from the host. A backend feeds it what the agent says and gives it a way to write.

    Not tied to a kind of transport: pipes, sockets and an engine's multiplexed stream all fit.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.write = write
        self.streams: dict[int, Stream] = {}
        self.on_accept: Callable[[int, int], None] | None = None
        """Called with the listener's channel and the new one."""
        self.error: SandboxError | None = None
        """Why nothing can be sent any more; None while all is well."""
        self._waiting = bytearray()
        self._next = 0

    def open(self, stream: Stream) -> int:
        """A new channel that `stream` listens on."""
        if self.error is not None:
            raise self.error.with_traceback(None)  # which else grows with every call
        self._next += 1
        self.streams[self._next] = stream
        return self._next

    def send(self, channel: int, kind: bytes, payload: bytes = b"") -> None:
        if self.error is None:
            self.write(frame(channel, kind, payload))

    def feed(self, data: bytes) -> None:
        """Bytes from the agent, cut anywhere."""
        waiting = self._waiting
        waiting += data
        start, size = 0, len(waiting)
        while size >= start + 9:
            body = start + 9
            length = int.from_bytes(waiting[start : start + 4], "big")
            if length > MAX_FRAME:
                self.lose(
                    SandboxLostError(f"the agent in the box sent a frame of {length} bytes: it is not ours any more")
                )
                return
            if size < body + length:
                break
            channel = int.from_bytes(waiting[start + 4 : start + 8], "big")
            self._dispatch(channel, bytes(waiting[start + 8 : body]), bytes(waiting[body : body + length]))
            start = body + length
        del waiting[:start]

    def _dispatch(self, channel: int, kind: bytes, payload: bytes) -> None:
        stream = self.streams.get(channel)
        if kind == b"A" and self.on_accept and stream is not None:
            self.on_accept(channel, int(payload))
        elif stream is None:
            return  # ended on this side already
        elif kind == b"!":
            del self.streams[channel]
            number, _, text = payload.decode("utf-8", "replace").partition(" ")
            stream.broken(OSError(int(number), text))
        elif kind == b"?":
            del self.streams[channel]
            stream.broken(SandboxPolicyError(payload.decode("utf-8", "replace")))
        else:
            stream.received(kind, payload)

    def lose(self, error: SandboxError) -> None:
        """The connection is gone, because of `error`: every open channel and later call gets it."""
        if self.error is not None:
            return
        self.error = error
        streams, self.streams = self.streams, {}
        for stream in streams.values():
            stream.broken(error)


class Grants:
    """How much this side may still send on one channel."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.credit = WINDOW
        self.closed = False
        """Whether nobody takes any more."""
        self._more: asyncio.Future[None] | None = None

    def grant(self, count: int) -> None:
        self.credit += count
        self.wake()

    def close(self) -> None:
        self.closed = True
        self.wake()

    def wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    async def send(self, channel: int, data: bytes) -> None:
        """Send all of `data`, in chunks, each when the agent has room for it; stops when the channel is closed."""
        view = memoryview(data)
        while view and not self.closed and channel in self.wire.streams:
            if self.credit <= 0:
                self._more = asyncio.get_running_loop().create_future()
                await self._more
                continue
            count = min(len(view), CHUNK, self.credit)
            self.credit -= count
            self.wire.send(channel, b"D", bytes(view[:count]))
            view = view[count:]
