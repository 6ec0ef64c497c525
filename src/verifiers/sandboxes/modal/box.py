"""One Modal sandbox as a box: the agent is an exec'd process, reached over Modal's streams.

Modal ends nothing when its client dies, so the sandbox's own first process waits for a heartbeat on its stdin and ends
the sandbox when none comes. Commands cannot kill it: it is process 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from verifiers.errors import SandboxError, SandboxLimitError, SandboxLostError, SandboxStartError
from verifiers.sandboxes.agent import source
from verifiers.sandboxes.base import Address, SandboxSpec
from verifiers.sandboxes.box import AgentSandbox, greet
from verifiers.sandboxes.starting import make_or_undo
from verifiers.sandboxes.wire import Wire

if TYPE_CHECKING:
    import modal
    from modal.container_process import ContainerProcess

log = logging.getLogger("verifiers.sandboxes")
BEAT_S = 10.0
EXPIRE_S = 60
FIRST_PROCESS = (
    "import os, select\n"
    "while select.select([0], [], [], {expire_s})[0] and os.read(0, 65536):\n"
    "    pass\n"
)  # fmt: skip
PIECE = 1 << 20
"""Bytes of stdin sent in one request; Modal takes 2 MiB at most."""
KEPT_S, TEMPORARY_S = 30 * 86400, 86400
"""How long Modal keeps a snapshot nobody removes."""
GREETING_TIMEOUT_S = 50.0
"""No heartbeat is sent before the agent serves."""


def first_argv() -> list[str]:
    return ["python3", "-I", "-S", "-c", FIRST_PROCESS.format(expire_s=EXPIRE_S)]


def agent_argv(spec: SandboxSpec) -> list[str]:
    """The agent, whose commands inherit a bound on the size of one file: Modal has none on the whole disk."""
    size = spec.disk_mb << 20
    limit = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n"
    return ["python3", "-I", "-S", "-c", limit + source()]


class Link:
    """The agent at the other end of an exec'd process's streams."""

    def __init__(self, process: ContainerProcess[bytes]) -> None:
        self.process = process
        self.wire = Wire(self._queue)
        self._pending = bytearray()
        self._more = asyncio.Event()
        self.receiving = asyncio.create_task(self._receive())
        self._sending = asyncio.create_task(self._send())

    def _queue(self, data: bytes) -> None:
        self._pending += data
        self._more.set()

    async def _send(self) -> None:
        import modal

        try:
            while True:
                await self._more.wait()
                self._more.clear()
                while self._pending:
                    piece = bytes(self._pending[:PIECE])
                    del self._pending[:PIECE]
                    self.process.stdin.write(piece)
                    await self.process.stdin.drain.aio()
        except modal.exception.Error:
            self.receiving.cancel()  # it takes no more input; why is for whoever sees the stream end

    async def _receive(self) -> None:
        import modal

        with contextlib.suppress(modal.exception.Error):
            async for piece in self.process.stdout:
                self.wire.feed(piece)

    async def greet(self, spec: SandboxSpec) -> None:
        greeting = asyncio.ensure_future(greet(self.wire, spec, owns_pid_1=True, user=spec.user or "", proxied=False))
        waiting = [greeting, self.receiving]
        await asyncio.wait(waiting, timeout=GREETING_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        if not greeting.done():
            greeting.cancel()
            said = await self.process.stderr.read.aio() if self.receiving.done() else b""
            why = said[-2000:].decode("utf-8", "replace").strip() or "it said nothing"
            raise SandboxStartError(
                f"the agent did not start: {why}. An image without python3 needs ModalBackend(add_python='3.12')"
            )
        await greeting

    async def close(self) -> None:
        self.receiving.cancel()
        self._sending.cancel()
        await asyncio.wait([self.receiving, self._sending])


class ModalSandbox(AgentSandbox):
    """A running Modal sandbox."""

    proxied = False

    def __init__(self, sandbox: modal.Sandbox, spec: SandboxSpec, link: Link, *, ports: Sequence[int] = ()) -> None:
        super().__init__(backend="modal", id=sandbox.object_id, spec=spec, wire=link.wire, end=self._remove)
        self._sandbox = sandbox
        self._link = link
        self._ports = ports
        self._tasks = [asyncio.create_task(self._tell_when_lost()), asyncio.create_task(self._beat())]

    async def expose(self, port: int) -> Address:
        if port not in self._ports or self.wire.error is not None:
            return await super().expose(port)
        with typed_errors(f"sandbox {self.id} has no tunnel to port {port}"):
            tunnel = (await self._sandbox.tunnels.aio())[port]
        return Address(tunnel.host, tunnel.port, tls=True)

    async def snapshot(self, *, temporary: bool = False) -> str:
        """An image id, kept by Modal for 30 days; a temporary one for as long as a box can live."""
        if self.wire.error is not None:
            raise self.wire.error
        return await make_or_undo(self._copy(TEMPORARY_S if temporary else KEPT_S), remove_image)

    async def _copy(self, life_s: int) -> str:
        with typed_errors(f"sandbox {self.id} could not be copied"):
            image = await self._sandbox.snapshot_filesystem.aio(ttl=life_s)
        return image.object_id

    async def _beat(self) -> None:
        import modal

        while True:
            await asyncio.sleep(BEAT_S)
            try:
                self._sandbox.stdin.write(b".")
                await self._sandbox.stdin.drain.aio()
            except (modal.exception.Error, ValueError):
                return  # it is going away; who reads from its agent tells why

    async def _tell_when_lost(self) -> None:
        await asyncio.wait([self._link.receiving])
        if self.wire.error is None:
            await self._stop(await self._why_lost())

    async def _why_lost(self) -> SandboxError:
        """With the sandbox still there, only something inside it can have ended the agent."""
        import modal

        try:
            code = await self._sandbox.poll.aio()
        except modal.exception.Error as error:
            return SandboxLostError(f"sandbox {self.id} is gone: {error!r}")
        if code is None:
            return SandboxLimitError(f"sandbox {self.id}: its agent was killed from inside, or for want of memory")
        return SandboxLostError(f"sandbox {self.id} is gone: it ended with {code}")

    async def _remove(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self._link.close()
        try:
            await terminate(self._sandbox)
        except SandboxError as error:
            log.warning("%s; it ends by itself within %s s", error, EXPIRE_S)


async def terminate(sandbox: modal.Sandbox) -> None:
    """End a sandbox; one that is already gone is no error."""
    import modal

    with typed_errors(f"sandbox {sandbox.object_id} could not be ended"):
        try:
            with contextlib.suppress(modal.exception.NotFoundError, modal.exception.ClientClosed):
                await sandbox.terminate.aio()
        finally:
            await sandbox.detach.aio()


async def remove_image(id: str, client: modal.Client | None = None) -> None:
    """Remove an image; one that is gone is no error."""
    import modal
    from modal import experimental

    delete: Any = experimental.image_delete
    with typed_errors(f"image {id!r} could not be removed"), contextlib.suppress(modal.exception.NotFoundError):
        await delete.aio(id, client=client)


@contextlib.contextmanager
def typed_errors(failed: str, error: type[SandboxError] = SandboxError) -> Iterator[None]:
    """Modal's errors leave as `error`, with what `failed`."""
    import modal

    try:
        yield
    except (modal.exception.Error, OSError) as cause:
        raise error(f"{failed}: {cause}") from cause
