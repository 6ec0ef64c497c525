"""The runner's side of one local box: its agent's socket, its first complaints, its end."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from typing import Any

from verifiers.errors import SandboxLostError
from verifiers.sandboxes.local.bwrap import Layout
from verifiers.sandboxes.local.keeping import Keeper, lost
from verifiers.sandboxes.wire import Wire

STOP_TIMEOUT_S = 20.0


class _Shell:
    """Waits for a lazy box's shell to say that it reads."""

    def __init__(self) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def received(self, kind: bytes, payload: bytes) -> None:
        """A shell sends no frames."""

    def broken(self, error: Exception) -> None:
        if not self.ready.done():
            self.ready.set_exception(error)


class Link:
    """One box from this side: its agent's socket, its first words on stderr, its end."""

    def __init__(self, keeper: Keeper, box_id: str) -> None:
        self.keeper, self.id = keeper, box_id
        self.words = -1
        self.transport: asyncio.Transport | None = None
        self.ended: asyncio.Future[dict[str, Any]] | None = None
        self.wire = Wire(lambda data: None)
        self.shell: _Shell | None = None
        self.pipes: dict[int, int] = {}
        """This side's ends of a lazy box's further descriptors."""

    async def begin(
        self, plan: Layout, limits: dict[str, float], rlimits: dict[str, int], *, descriptors: Sequence[int] = ()
    ) -> None:
        """Ask the keeper for the box; its process gets pipes as `descriptors`, numbered on from its other files."""
        ours, theirs = socket.socketpair()
        far: list[int] = []
        try:
            self.words, end = os.pipe()
            far.append(end)
            for number in descriptors:
                self.pipes[number], end = os.pipe()
                far.append(end)
            self.ended = await self.keeper.start(self.id, plan, limits, rlimits, [theirs.fileno(), *far])
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            for fd in far:
                os.close(fd)
        if descriptors:
            self.shell = _Shell()
            self.wire.open(self.shell)
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_unix_connection(lambda: _Line(self), sock=ours)
        self.transport = transport
        self.wire.write = transport.write
        self.ended.add_done_callback(self._gone)

    def _gone(self, ended: asyncio.Future[dict[str, Any]]) -> None:
        if not ended.cancelled():
            self.wire.lose(lost(self.id, ended.result()))

    def forget_words(self) -> None:
        if self.words >= 0:
            os.close(self.words)
            self.words = -1

    async def end_with_words(self) -> str:
        """End a box that did not start; what bubblewrap or the agent complained about."""
        await self.end()
        self.close_pipes()
        if self.words < 0:
            return ""
        os.set_blocking(self.words, False)
        try:
            said = os.read(self.words, 4096).decode("utf-8", "replace").strip()
        except BlockingIOError:
            said = ""
        self.forget_words()
        return said[-1000:]

    async def end(self) -> None:
        """Kill it and wait until all its processes are gone."""
        if self.ended is not None and not self.ended.done():
            await self.keeper.kill(self.id)
            await asyncio.wait([self.ended], timeout=STOP_TIMEOUT_S)
        if self.transport is not None:
            self.transport.close()
            await asyncio.sleep(0)  # its socket closes in the loop's next turn, which may be its last

    def close_pipes(self) -> None:
        for fd in self.pipes.values():
            os.close(fd)
        self.pipes = {}


class _Line(asyncio.Protocol):
    """Bytes from the agent."""

    def __init__(self, link: Link) -> None:
        self.link = link

    def data_received(self, data: bytes) -> None:
        shell = self.link.shell
        if shell is not None and not shell.ready.done():
            shell.ready.set_result(None)
            data = data[1:]
        self.link.wire.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The agent is gone; the keeper tells why, late if the box is short of memory."""
        ended = self.link.ended
        if ended is None or ended.done():
            self.link.wire.lose(SandboxLostError(f"sandbox {self.link.id} is gone"))
        else:
            asyncio.get_running_loop().call_later(STOP_TIMEOUT_S, self._give_up)

    def _give_up(self) -> None:
        self.link.wire.lose(SandboxLostError(f"sandbox {self.link.id} is gone"))
