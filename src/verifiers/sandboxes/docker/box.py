"""One container as a box: the agent is its first process, reached over the container's own stdin and stdout.

As process 1 of its namespace the agent cannot be killed from inside, and nothing inside outlives it. It ends when this
connection does, so a box dies with its owner; the engine then removes the container by itself.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import tarfile
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from verifiers.errors import SandboxError, SandboxExecError, SandboxLimitError, SandboxLostError, SandboxPolicyError
from verifiers.sandboxes import carried
from verifiers.sandboxes.agent import source
from verifiers.sandboxes.base import MAX_OUTPUT, Command, ExecResult, Process, SandboxSpec
from verifiers.sandboxes.box import AgentSandbox, greet
from verifiers.sandboxes.docker import snapshots
from verifiers.sandboxes.docker.engine import Attached, Engine, EngineError
from verifiers.sandboxes.docker.images import one_entry_tar
from verifiers.sandboxes.starting import make_or_undo
from verifiers.sandboxes.wire import Wire

log = logging.getLogger("verifiers.sandboxes")
STREAMS = {"stream": True, "stdin": True, "stdout": True, "stderr": True}
EVENT_AGE_S = 15
"""How old the event may be that explains why a box is gone."""
BOTH_END_S = 2.0
"""How much later than another connection to the same container its own may be seen to end."""
DISK_CHECK_S = 2.0
"""Shortest time between two looks at how much a box has written, where the engine's storage cannot bound it."""
DISK_CHECK_SHARE = 20
"""How many times longer than one look took the engine is left alone before the next."""


class Start(NamedTuple):
    """How a box's agents are started and what they are told."""

    argv: list[str]
    agent_volume: str | None
    """None: the image's own Python runs the agent."""
    env: dict[str, str]
    """Of the image's environment, what the agent itself is started without."""


def start_with(agent_volume: str | None, image: Mapping[str, Any]) -> Start:
    """How agents start in boxes of `image`, as the engine describes it."""
    entries = (entry.partition("=") for entry in (image.get("Config") or {}).get("Env") or [])
    env = {name: value for name, _, value in entries if carried.is_loader_setting(name)}
    argv = ["python3", "-I", "-S", "-c", source()] if agent_volume is None else list(carried.ARGV)
    return Start(argv, agent_volume, env)


class Link:
    """The agent at the other end of an attached stream; `env` is what it is told of the image's environment."""

    def __init__(self, attached: Attached, env: Mapping[str, str]) -> None:
        self.attached, self.env = attached, env
        self.wire = Wire(attached.write)
        self.pumping = asyncio.create_task(attached.pump(self.wire.feed))

    async def greet(self, spec: SandboxSpec, *, owns_pid_1: bool) -> None:
        """Wait until the agent serves; `SandboxLostError` with the last words of what ran instead if it does not."""
        greeting = asyncio.ensure_future(greet(self.wire, spec, env=self.env, owns_pid_1=owns_pid_1))
        try:
            await asyncio.wait([greeting, self.pumping], return_when=asyncio.FIRST_COMPLETED)
            if self.pumping.done() or self.wire.error is not None:
                said = bytes(self.attached.stderr or self.attached.first).decode("utf-8", "replace").strip()
                self.wire.lose(SandboxLostError(said))
                raise SandboxLostError(f"the agent did not start: {said or 'it said nothing'}")
            await greeting
        finally:
            greeting.cancel()

    async def close(self) -> None:
        self.pumping.cancel()
        await asyncio.wait([self.pumping])
        await self.attached.close()


class DockerSandbox(AgentSandbox):
    """A running container."""

    def __init__(
        self,
        engine: Engine,
        id: str,
        spec: SandboxSpec,
        link: Link,
        *,
        start: Start,
        watch_disk: bool,
        volumes: list[str],
    ) -> None:
        """`volumes`: what the image declares as such: no layer has their files, so neither quota nor snapshot does."""
        super().__init__(backend="docker", id=id, spec=spec, wire=link.wire, end=self._remove)
        self.engine = engine
        self._start = start
        self._link = link
        self._others: dict[str, asyncio.Task[AgentSandbox]] = {}
        self._leaving: list[asyncio.Future[None]] = []
        self._tasks = [asyncio.create_task(self._tell_when_lost())]
        self._volumes = volumes
        if watch_disk or volumes:
            self._tasks.append(asyncio.create_task(self._watch_disk()))

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
        if user is not None and user != self.spec.user:
            other = await self._as(user)
            return await other.exec(command, stdin=stdin, env=env, cwd=cwd, timeout_s=timeout_s, max_output=max_output)
        return await super().exec(command, stdin=stdin, env=env, cwd=cwd, timeout_s=timeout_s, max_output=max_output)

    async def spawn(
        self, command: Command, *, env: Mapping[str, str] | None = None, cwd: str | None = None, user: str | None = None
    ) -> Process:
        if user is not None and user != self.spec.user:
            return await (await self._as(user)).spawn(command, env=env, cwd=cwd)
        return await super().spawn(command, env=env, cwd=cwd)

    async def snapshot(self, *, temporary: bool = False) -> str:
        """An image of the container's layer, without what is in memory file systems; the box is paused meanwhile."""
        if self.wire.error is not None:
            raise self.wire.error
        if self._volumes:
            raise SandboxPolicyError(
                f"the image declares volumes ({', '.join(self._volumes)}), whose files the engine keeps in no snapshot"
            )
        commit = snapshots.commit(self.engine, self.id, env=self._start.env, temporary=temporary)
        return await make_or_undo(commit, lambda name: snapshots.remove(self.engine, name))

    async def _as(self, user: str) -> AgentSandbox:
        """The box seen by another of its users, through an agent of theirs: no process inside may change its user."""
        if user not in self._others:
            self._others[user] = asyncio.create_task(self._enter(user))
        entering = self._others[user]
        await asyncio.wait([entering])
        if entering.cancelled():  # by the box's end, which is no cancellation of this call
            raise self.wire.error or SandboxLostError(f"sandbox {self.id} is gone")
        try:
            return entering.result()
        except SandboxError:
            self._others.pop(user, None)
            raise

    async def _enter(self, user: str) -> AgentSandbox:
        if self.wire.error is not None:
            raise self.wire.error
        body = {"AttachStdin": True, "AttachStdout": True, "AttachStderr": True, "User": user}
        link = None
        try:
            body["Cmd"] = self._start.argv
            made = await self.engine.call("POST", f"/containers/{self.id}/exec", body=body)
            attached = await self.engine.attach(f"/exec/{made['Id']}/start", body={"Detach": False, "Tty": False})
            link = Link(attached, self._start.env)
            await link.greet(self.spec, owns_pid_1=False)
        except BaseException as error:
            if link is not None:
                await link.close()
            if isinstance(error, SandboxError):
                raise SandboxExecError(f"cannot run as user {user!r}: {error}") from error
            raise
        # the box's life and its way out are this object's matter
        spec = replace(self.spec, timeout_s=None, network="none", allow=())
        other = AgentSandbox(backend="docker", id=self.id, spec=spec, wire=link.wire, end=link.close)
        link.pumping.add_done_callback(lambda _: self._left(user, other))
        return other

    def _left(self, user: str, other: AgentSandbox) -> None:
        """Another user's agent is gone; the next command of theirs gets a new one."""
        if self._others.pop(user, None) is not None:
            self._leaving.append(asyncio.ensure_future(self._end_other(user, other)))

    async def _end_other(self, user: str, other: AgentSandbox) -> None:
        other.wire.lose(await self._why_left(user))
        await other.stop()

    async def _why_left(self, user: str) -> SandboxError:
        """Unlike process 1, such an agent can be killed by its user's commands; else it went with the box."""
        await asyncio.wait([self._link.pumping], timeout=BOTH_END_S)
        try:
            found = await self.engine.call("GET", f"/containers/{self.id}/json", timeout_s=10)
        except SandboxError:
            found = None  # the box is gone, or the engine
        if self._link.pumping.done() or not found or not found["State"]["Running"]:
            return await self._why_lost()
        return SandboxLimitError(f"sandbox {self.id}: the agent of user {user!r} was killed from inside")

    async def _tell_when_lost(self) -> None:
        await asyncio.wait([self._link.pumping])
        if self.wire.error is None:
            await self._stop(await self._why_lost())

    async def _why_lost(self) -> SandboxError:
        """The engine remembers a container's last events after it has removed it."""
        now = time.time()
        query = {
            "filters": {"container": [self.id]},
            "since": f"{now - EVENT_AGE_S:.0f}",
            "until": f"{now:.0f}",
        }
        try:
            async with self.engine.stream("GET", "/events", query=query, timeout_s=10) as response:
                events = await response.read()
        except SandboxError as error:
            return SandboxLostError(f"sandbox {self.id} is gone, and its engine does not say why: {error}")
        if b'"oom"' in events:
            return SandboxLimitError(f"sandbox {self.id} used more than memory_mb={self.spec.memory_mb}")
        return SandboxLostError(f"sandbox {self.id} is gone: its container ended")

    async def _watch_disk(self) -> None:
        limit, wait = self.spec.disk_mb << 20, DISK_CHECK_S
        while True:
            await asyncio.sleep(wait)
            began = time.monotonic()
            try:
                found = await self.engine.call("GET", f"/containers/{self.id}/json", query={"size": True})
                written = found.get("SizeRw", 0) + await self._size_of_volumes(found)
            except SandboxError as error:
                log.warning("sandbox %s: what it has written is not known: %s", self.id, error)
                continue
            if written > limit:
                await self._stop(SandboxLimitError(f"sandbox {self.id} wrote more than disk_mb={self.spec.disk_mb}"))
                return
            wait = max(DISK_CHECK_S, DISK_CHECK_SHARE * (time.monotonic() - began))

    async def _size_of_volumes(self, container: Mapping[str, Any]) -> int:
        """Bytes in the volumes that the engine made for this box, as its image declares them."""
        if not self._volumes:
            return 0
        own = {mount.get("Name") for mount in container["Mounts"] if mount.get("Destination") in self._volumes}
        used = await self.engine.call("GET", "/system/df")
        return sum(volume["UsageData"]["Size"] for volume in used["Volumes"] or [] if volume["Name"] in own)

    async def _remove(self) -> None:
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()
        others, self._others = self._others, {}
        for other in others.values():
            if other.done() and not other.cancelled() and not other.exception():
                self._leaving.append(asyncio.ensure_future(other.result().stop()))
            other.cancel()
        await asyncio.gather(*self._leaving)
        try:
            await remove(self.engine, self.id)
        except SandboxError as error:
            log.warning("sandbox %s could not be removed: %s; it ends with its connection", self.id, error)
        finally:
            await self._link.close()


async def remove(engine: Engine, id: str) -> None:
    """Remove a container with all it holds, in whatever state it is; one that is already gone is no error."""
    try:
        await engine.call("DELETE", f"/containers/{id}", query={"force": True, "v": True}, timeout_s=60)
    except EngineError as error:
        if error.status not in (404, 409):  # 409: it is being removed already
            raise


async def own_workdir(engine: Engine, id: str, spec: SandboxSpec, user: str) -> None:
    """Make the working folder the box user's, as only the engine can before the box runs."""
    path = spec.workdir.rstrip("/")
    mode = await mode_of(engine, id, path)
    if not path or (mode is not None and mode & 0o002):
        return
    uid, gid = await _ids(engine, id, user)
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, 0o755 if mode is None else mode, uid, gid
    await engine.call("PUT", f"/containers/{id}/archive", query={"path": "/"}, data=one_entry_tar(entry))


async def mode_of(engine: Engine, id: str, path: str) -> int | None:
    """The rights of a container's file or folder; None if there is nothing at `path`."""
    try:
        async with engine.stream("HEAD", f"/containers/{id}/archive", query={"path": path or "/"}) as response:
            header = response.headers["X-Docker-Container-Path-Stat"]
            return json.loads(base64.b64decode(header))["mode"] & 0o777
    except EngineError as error:
        if error.status != 404:
            raise
        return None


async def _ids(engine: Engine, id: str, user: str) -> tuple[int, int]:
    name, _, group = user.partition(":")
    uid = gid = None
    for line in (await _text(engine, id, "/etc/passwd")).splitlines():
        parts = line.split(":")
        if len(parts) > 3 and name in (parts[0], parts[2]):
            uid, gid = int(parts[2]), int(parts[3])
            break
    if group:
        groups = [line.split(":") for line in (await _text(engine, id, "/etc/group")).splitlines()]
        gid = next((int(p[2]) for p in groups if len(p) > 2 and group in (p[0], p[2])), None)
        gid = int(group) if gid is None and group.isdecimal() else gid
    if uid is None and name.isdecimal():
        uid = int(name)
    if uid is None:
        raise SandboxExecError(f"the image has no user {user!r}")
    return uid, gid or 0


async def _text(engine: Engine, id: str, path: str) -> str:
    try:
        packed: Any = await engine.call("GET", f"/containers/{id}/archive", query={"path": path})
    except EngineError:
        return ""
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        member = tar.extractfile(tar.getmembers()[0])
        return member.read().decode("utf-8", "replace") if member else ""
