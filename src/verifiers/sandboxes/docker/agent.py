"""What boxes of one engine run their agent on: the carried Python, in a volume of the engine that boxes see read-only.

A volume is filled without running anything, serves all images, and leaves nothing in a box's own layer. It is named by
the digest of what is in it, so the engine's store is the cache.
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
from pathlib import Path
from typing import Any

from verifiers.errors import SandboxStartError
from verifiers.sandboxes import carried
from verifiers.sandboxes.docker.box import mode_of, remove
from verifiers.sandboxes.docker.engine import Engine
from verifiers.sandboxes.docker.images import pieces
from verifiers.sandboxes.docker.spec import labels, volume_mount

PREFIX = "verifiers-agent-"
FILLED_AT = "/agent"
"""Where the container has the volume through which it is filled."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
FILL_TIMEOUT_S = 300.0


class AgentVolume:
    """The volume of one engine, made when it is first asked for.

    Args:
        pack_in_engine: packs the Python of an image. Used where this machine's is of another system than the engine's,
            as next to Docker Desktop.
    """

    def __init__(self, engine: Engine, pack_in_engine: Callable[[], Awaitable[Path]]) -> None:
        self.engine = engine
        self._pack_in_engine = pack_in_engine
        self._name: str | None = None
        self._making: asyncio.Task[str] | None = None

    async def name(self, image: str) -> str:
        """The volume's, after filling it through a container of `image` that never starts; any image will do.

        Raises:
            SandboxError: there is no Python to put in, or the engine refuses.
        """
        known = self._name
        if known is not None:
            return known
        if self._making is None or self._making.get_loop() is not asyncio.get_running_loop():
            self._making = asyncio.ensure_future(self._make(image))
        try:
            name = await asyncio.shield(self._making)
        finally:
            if self._making is not None and self._making.done():
                self._making = None
        self._name = name
        return name

    def forget(self) -> None:
        """Look again next time: who cleans the engine up may have removed it."""
        self._name = None

    async def _make(self, image: str) -> str:
        tar = await self._packed()
        name = PREFIX + await asyncio.to_thread(_digest, tar)
        await self.engine.call("POST", "/volumes/create", body={"Name": name})
        async with _locked(tar):  # filling it again would take files away from under a box that starts
            await self._fill(name, tar, image)
        return name

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


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


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
