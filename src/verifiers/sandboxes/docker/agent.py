"""What boxes of one engine run their agent on: the carried Python, in a volume of the engine that boxes see read-only.

A volume is filled without running anything, serves all images, and leaves nothing in a box's own layer. It is named by
the digest of what is in it, so the engine's store is the cache. Volumes of other versions are removed when they are a
day old and no container has them; a box about to start on one has it made again.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import platform
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from verifiers.errors import SandboxStartError
from verifiers.sandboxes import carried
from verifiers.sandboxes.docker.box import mode_of, remove
from verifiers.sandboxes.docker.engine import Engine, EngineError
from verifiers.sandboxes.docker.images import pieces
from verifiers.sandboxes.docker.spec import labels, volume_mount

PREFIX = "verifiers-agent-"
FILLED_AT = "/agent"
"""Where the container has the volume through which it is filled."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
FILL_TIMEOUT_S = 300.0
MAX_IDLE_AGE = timedelta(days=1)
"""Younger volumes of other versions stay: two that take turns on an engine fill theirs once a day at most."""


class Volume(NamedTuple):
    """A filled one; equal to another of its name only while nobody has removed it in between."""

    name: str
    created: str
    """As the engine tells it."""


class AgentVolume:
    """The volume of one engine, made when it is first asked for.

    Args:
        pack_in_engine: packs the Python of an image. Used where this machine's is of another system than the engine's,
            as next to Docker Desktop.
    """

    def __init__(self, engine: Engine, pack_in_engine: Callable[[], Awaitable[Path]]) -> None:
        self.engine = engine
        self._pack_in_engine = pack_in_engine
        self._known: Volume | None = None
        self._making: asyncio.Task[Volume] | None = None

    async def get(self, image: str) -> Volume:
        """The volume, after filling it through a container of `image` that never starts; any image will do.

        Raises:
            SandboxError: there is no Python to put in, or the engine refuses.
        """
        known = self._known
        if known is not None:
            return known
        if self._making is None or self._making.get_loop() is not asyncio.get_running_loop():
            self._making = asyncio.ensure_future(self._make(image))
        try:
            volume = await asyncio.shield(self._making)
        finally:
            if self._making is not None and self._making.done():
                self._making = None
        self._known = volume
        return volume

    def forget(self) -> None:
        """Look again next time: who cleans the engine up may have removed it."""
        self._known = None

    async def prune(self, *, older_than: timedelta = MAX_IDLE_AGE) -> None:
        """Remove the volumes of other versions that no container has."""
        volumes = (await self.engine.call("GET", "/volumes"))["Volumes"] or []
        before = datetime.now(UTC) - older_than
        old = [each["Name"] for each in volumes if each["Name"].startswith(PREFIX) and _created(each) <= before]
        if not old:
            return
        own = await asyncio.to_thread(_named, await self._packed())
        for name in old:
            if name != own:
                await self._try_to_remove(name)

    async def _try_to_remove(self, name: str) -> None:
        try:
            await self.engine.call("DELETE", f"/volumes/{name}")
        except EngineError as error:
            if error.status not in (404, 409):  # 409: a container has it
                raise

    async def _make(self, image: str) -> Volume:
        tar = await self._packed()
        name = await asyncio.to_thread(_named, tar)
        made = await self.engine.call("POST", "/volumes/create", body={"Name": name})
        async with _locked(tar):  # filling it again would take files away from under a box that starts
            await self._fill(name, tar, image)
        return Volume(name, made["CreatedAt"])

    async def _fill(self, name: str, tar: Path, image: str) -> None:
        body = {
            "Image": image,
            "Entrypoint": ["never-run"],
            "Labels": labels(),
            "NetworkDisabled": True,
            "HostConfig": {"Mounts": [volume_mount(name, FILLED_AT, read_only=False)]},
        }
        made = await self.engine.call("POST", "/containers/create", body=body, timeout_s=FILL_TIMEOUT_S)
        try:
            if await mode_of(self.engine, made["Id"], f"{FILLED_AT}/{carried.LAST}") is None:
                path, query = f"/containers/{made['Id']}/archive", {"path": FILLED_AT}
                with tar.open("rb") as file:
                    await self.engine.call("PUT", path, query=query, data=pieces(file), timeout_s=FILL_TIMEOUT_S)
        finally:
            await remove(self.engine, made["Id"])

    async def _packed(self) -> Path:
        if runs_programs_of_this_machine(await self.engine.call("GET", "/version")):
            with suppress(SandboxStartError):  # an image's will do
                return await asyncio.to_thread(carried.packed)
        return await self._pack_in_engine()


def _named(tar: Path) -> str:
    """What the volume with the content of `tar` is called."""
    with tar.open("rb") as file:
        return PREFIX + hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _created(volume: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(volume["CreatedAt"])


def runs_programs_of_this_machine(version: Mapping[str, Any]) -> bool:
    """Whether an engine does, by what its version call says."""
    machine = ARCHITECTURES.get(platform.machine(), platform.machine())
    return sys.platform == "linux" and (version.get("Os"), version.get("Arch")) == ("linux", machine)


@asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    """One process of this machine at a time."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        await asyncio.to_thread(fcntl.flock, fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
