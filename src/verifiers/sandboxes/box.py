"""`AgentSandbox`: a box served by the agent inside it. Backends make one from a started box and a `Wire` to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from verifiers.errors import (
    ConfigError,
    SandboxError,
    SandboxExpiredError,
    SandboxLostError,
    SandboxPolicyError,
    SandboxStartError,
)
from verifiers.sandboxes import commands, transfer
from verifiers.sandboxes.base import MAX_OUTPUT, Address, Command, ExecResult, Process, SandboxSpec
from verifiers.sandboxes.egress.door import PORT, Door, proxy_environment
from verifiers.sandboxes.relay import Relays
from verifiers.sandboxes.wire import Wire

TICKS_PER_S = 100
"""In which Linux tells the start of a process, whatever the kernel's own clock."""


class _Reply:
    """The one frame that answers a request."""

    def __init__(self) -> None:
        self.future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def received(self, kind: bytes, payload: bytes) -> None:
        if not self.future.done():
            self.future.set_result(payload)

    def broken(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


async def greet(
    wire: Wire,
    spec: SandboxSpec,
    *,
    env: Mapping[str, str] | None = None,
    owns_pid_1: bool,
    user: str = "",
    pids: int | None = None,
    proxied: bool = True,
    used: bool = False,
) -> None:
    """Tell a fresh agent the box's settings and wait until it serves.

    `env` is added below `spec.env`; `user` is whom commands run as unless told otherwise, '' for the agent's own user;
    `pids` makes the agent itself limit the processes of its user, where the engine cannot;
    `owns_pid_1`: process 1 of the agent's namespace belongs to this box, so that its children are this box's orphans;
    `proxied`: as `AgentSandbox.proxied`;
    `used`: commands ran in the box before, so that what is wrong with its working folder is their doing.

    Raises:
        SandboxStartError: the agent cannot serve these settings.
        SandboxError: what `wire.lose` was called with, when it died first.
    """
    hello = _Reply()
    channel = wire.open(hello)
    way_out = proxy_environment(spec.allow) if proxied and spec.network == "allowlist" else {}
    entries = [f"{name}={value}" for name, value in {**(env or {}), **way_out, **spec.env}.items()]
    limit = "" if pids is None else str(pids)
    folder = spec.workdir.rstrip("/") or "/"
    fields = ["1" if owns_pid_1 else "0", folder, user, limit, "1" if used else "0", *entries]
    wire.send(channel, b"H", "\0".join(fields).encode("utf-8", "surrogateescape"))
    try:
        await hello.future
    except OSError as error:
        raise SandboxStartError(f"the agent could not set up the box: {error.strerror}") from error
    finally:
        wire.streams.pop(channel, None)


class AgentSandbox:
    """A running box, as `verifiers.sandboxes.base.Sandbox` describes.

    `end` removes the box; it is called once. A backend that can do more overrides `expose` or `snapshot`.

    With `network="allowlist"` the box must have an empty network, as with "none": its way out is opened here.
    """

    proxied: ClassVar[bool] = True
    """Whether an allow list is kept by the proxy in `egress`; False: the backend's engine keeps it."""

    def __init__(
        self, *, backend: str, id: str, spec: SandboxSpec, wire: Wire, end: Callable[[], Awaitable[None]]
    ) -> None:
        self.backend, self.id, self.spec, self.wire = backend, id, spec, wire
        self._end = end
        self._relays = Relays(wire)
        if self.proxied and spec.network == "allowlist":
            self._relays.answer_at(PORT, Door(id, spec.allow).serve)
        self._stopping: asyncio.Future[None] | None = None
        self._life: asyncio.TimerHandle | None = None
        self._late_env: Mapping[str, str] = {}
        self._begin_life(spec.timeout_s)

    def dedicate(self, spec: SandboxSpec) -> None:
        """Give a box that waited for anybody what `spec` alone asks for: environment variables, and a life that begins
        now."""
        self.spec = replace(self.spec, env=spec.env, timeout_s=spec.timeout_s)
        self._late_env = dict(spec.env)
        self._begin_life(spec.timeout_s)

    def _begin_life(self, timeout_s: float | None) -> None:
        if timeout_s is not None:
            self._life = asyncio.get_running_loop().call_later(timeout_s, self._expire)

    def _env(self, env: Mapping[str, str] | None) -> Mapping[str, str] | None:
        return {**self._late_env, **(env or {})} if self._late_env else env

    @property
    def alive(self) -> bool:
        """Whether its agent was there when last heard of."""
        return self.wire.error is None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.backend} {self.id}>"

    async def connected(self) -> None:
        """Before anything is sent: a backend may put off starting its agent until now."""

    async def exec(
        self,
        command: Command,
        *,
        stdin: bytes | str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout_s: float | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> ExecResult:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        if data is not None and not isinstance(data, (bytes, bytearray)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"stdin is bytes or text, not {type(data).__name__}")
        payload = commands.request(
            command,
            has_stdin=data is not None,
            timeout_s=timeout_s,
            max_output=max_output,
            cwd=cwd,
            user=user,
            env=self._env(env),
        )
        await self.connected()
        lost = SandboxLostError(f"sandbox {self.id}: its agent did not answer in time")
        return await commands.run(self.wire, payload, stdin=data, timeout_s=timeout_s, lost=lost)

    async def spawn(
        self, command: Command, *, env: Mapping[str, str] | None = None, cwd: str | None = None, user: str | None = None
    ) -> Process:
        payload = commands.request(command, has_stdin=True, cwd=cwd, user=user, env=self._env(env))
        await self.connected()
        return await commands.spawn(self.wire, payload)

    async def end_processes(self, *, since_s: float = 0.0) -> None:
        await self.connected()
        reply = _Reply()
        channel = self.wire.open(reply)
        self.wire.send(channel, b"Z", b"%d" % (since_s * TICKS_PER_S))
        try:
            await asyncio.wait_for(reply.future, commands.AGENT_GRACE_S)
        except TimeoutError:
            raise SandboxLostError(f"sandbox {self.id}: its agent did not answer in time") from None
        finally:
            self.wire.streams.pop(channel, None)

    def _bound(self, max_bytes: int | None) -> int:
        """A box pays nothing for the holes of a file of terabytes: this machine must not either."""
        if max_bytes is not None and max_bytes < 0:
            raise ConfigError(f"max_bytes={max_bytes} must be at least 0")
        return self.spec.disk_mb << 20 if max_bytes is None else max_bytes

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        await self.connected()
        return await transfer.read(self.wire, path, self._bound(max_bytes))

    async def write(self, path: str, data: bytes | str, *, mode: int | None = None) -> None:
        await self.connected()
        await transfer.write(self.wire, path, data.encode() if isinstance(data, str) else data, mode)

    async def upload(self, source: Path | str, path: str) -> None:
        await self.connected()
        await transfer.upload(self.wire, Path(source), path)

    async def download(self, path: str, target: Path | str, *, max_bytes: int | None = None) -> None:
        await self.connected()
        await transfer.download(self.wire, path, Path(target), self._bound(max_bytes))

    async def expose(self, port: int) -> Address:
        if self.wire.error is not None:
            raise self.wire.error
        await self.connected()
        return await self._relays.expose(port)

    async def bind_socket(self, source: Path | str, path: str) -> None:
        await self.connected()
        await self._relays.bind_socket(Path(source), path)

    async def snapshot(self, *, temporary: bool = False) -> str:
        raise SandboxPolicyError(f"sandbox backend {self.backend!r} takes no snapshots")

    async def stop(self) -> None:
        await self._stop(SandboxLostError(f"sandbox {self.id} was stopped"))

    async def _stop(self, why: SandboxError) -> None:
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._shut_down(why))
        await asyncio.shield(self._stopping)

    async def _shut_down(self, why: SandboxError) -> None:
        if self._life is not None:
            self._life.cancel()
        self.wire.lose(why)
        await self._relays.close()
        await self._end()

    def _expire(self) -> None:
        why = SandboxExpiredError(f"sandbox {self.id} reached the end of its timeout_s={self.spec.timeout_s}")
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._shut_down(why))
