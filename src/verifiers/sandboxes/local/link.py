"""The runner's side of one local box: its agent's socket, its first complaints, its end."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Any

from verifiers.errors import SandboxLostError
from verifiers.sandboxes.local.bwrap import Layout
from verifiers.sandboxes.local.keeping import Keeper, lost
from verifiers.sandboxes.local.shell import ERR, OUT, STATUS
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
        self, plan: Layout, limits: dict[str, float], rlimits: dict[str, int], *, shell_pids: int | None
    ) -> None:
        """Ask the keeper for the box; `shell_pids` is how many processes one that starts as a shell may have."""
        numbers = () if shell_pids is None else (OUT, ERR, STATUS)
        self.ended, begun = await self.keeper.start(self.id, plan, limits, rlimits, pipes=len(numbers))
        fds = await begun
        if len(fds) < 2 + len(numbers):
            for fd in fds:
                os.close(fd)
            raise lost(self.id, self.ended.result()) if self.ended.done() else OSError(errno.EMFILE, "no room for it")
        line, self.words, *pipes = fds
        self.pipes = dict(zip(numbers, pipes, strict=True))
        if shell_pids is not None:
            self.shell = _Shell()
            self.wire.open(self.shell)
        ours = socket.socket(fileno=line)
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_unix_connection(lambda: Line(self), sock=ours)
        self.transport = transport
        self.wire.write = transport.write
        if shell_pids is not None:
            transport.write(b"%d\n" % shell_pids)
        self.ended.add_done_callback(self.gone)

    def gone(self, ended: asyncio.Future[dict[str, Any]]) -> None:
        """What it ended of is the error of whoever waits for it."""
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


class Line(asyncio.Protocol):
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
        if ended is not None and ended.done():  # what is called back for it may only be waiting behind this
            self.link.gone(ended)
        elif ended is None:
            self._give_up()
        else:
            asyncio.get_running_loop().call_later(STOP_TIMEOUT_S, self._give_up)

    def _give_up(self) -> None:
        self.link.wire.lose(SandboxLostError(f"sandbox {self.link.id} is gone"))
