"""The `docker` backend: boxes as containers of a Docker or Podman engine, found through `DOCKER_HOST`."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from pathlib import Path
from typing import Any

from verifiers.errors import SandboxError, SandboxStartError
from verifiers.sandboxes import carried
from verifiers.sandboxes.base import BoxInfo, SandboxSpec
from verifiers.sandboxes.docker import snapshots
from verifiers.sandboxes.docker.agent import AgentVolume, Volume
from verifiers.sandboxes.docker.box import STREAMS, DockerSandbox, Link, Start, own_workdir, remove, start_with
from verifiers.sandboxes.docker.engine import Engine, EngineAddress, EngineError, engine_address
from verifiers.sandboxes.docker.images import DEFAULT_IMAGE, Images
from verifiers.sandboxes.docker.mourning import mourned
from verifiers.sandboxes.docker.spec import LABEL_OWNER, box_info, container
from verifiers.sandboxes.owner import RUN
from verifiers.sandboxes.starting import start_or_undo

log = logging.getLogger("verifiers.sandboxes")
START_TIMEOUT_S = 300.0


class DockerBackend:
    """Containers of one engine.

    Args:
        address: the engine; None: as `DOCKER_HOST` and the standard sockets say.
        default_image: what a spec without image or rootfs gets. Only where the engine runs on another system than this
            process does it need a `python3`, which is then taken for the boxes of all images.
    """

    def __init__(self, *, address: EngineAddress | None = None, default_image: str = DEFAULT_IMAGE) -> None:
        self.engine = Engine(address or engine_address())
        self.images = Images(self.engine, default=default_image)
        self.agents = AgentVolume(self.engine, self._pack_default_image)
        self._boxes: dict[str, DockerSandbox] = {}
        self._has_quota: bool | None = None

    async def probe(self) -> str | None:
        try:
            await self.engine.call("GET", "/_ping", timeout_s=10)
        except SandboxError as error:
            return f"{error}. Start Docker or Podman, or name its socket in DOCKER_HOST"
        return None

    async def start(self, spec: SandboxSpec) -> DockerSandbox:
        image, volume = await self._needs(spec)
        try:
            return await start_or_undo(self._start(spec, image, volume.name))
        except SandboxStartError:
            self.agents.forget()
            image, again = await self._needs(spec)
            if again == volume:
                raise
        return await start_or_undo(self._start(spec, image, again.name))  # somebody had removed what it was to run on

    async def _needs(self, spec: SandboxSpec) -> tuple[dict[str, Any], Volume]:
        """The image and the agent of a box, both in the engine."""
        try:
            image = await self.images.resolve(spec)
            with mourned(self.engine.address):
                return image, await self.agents.get(image["Id"])
        except SandboxStartError:
            raise
        except (SandboxError, OSError) as error:  # the latter: this user's cache folder cannot be written
            raise SandboxStartError(f"the engine cannot be given what a box needs: {error}") from error

    async def ls(self) -> list[BoxInfo]:
        query = {"all": True, "filters": {"label": [LABEL_OWNER]}}
        found = await self.engine.call("GET", "/containers/json", query=query)
        return [box_info(each, now=time.time()) for each in found]

    async def prune(self) -> list[BoxInfo]:
        dead = [box for box in await self.ls() if not box.owner_alive]
        await asyncio.gather(*(remove(self.engine, box.id) for box in dead))
        await snapshots.prune(self.engine)
        await self.agents.prune()
        return dead

    async def remove_snapshot(self, name: str) -> None:
        await snapshots.remove(self.engine, name)

    async def close(self) -> None:
        await asyncio.gather(*(box.stop() for box in list(self._boxes.values())))

    async def _pack_default_image(self) -> Path:
        """The tar of the default image's Python; kept on this machine."""
        image = await self.images.resolve(SandboxSpec())
        tar = carried.kept(carried.key_of(image["Id"]))
        if not tar.exists():
            box = await start_or_undo(self._start(SandboxSpec(), image, None))
            try:
                await carried.pack_in(box, tar)
            finally:
                await box.stop()
        return tar

    async def _start(self, spec: SandboxSpec, image: dict[str, Any], agent_volume: str | None) -> DockerSandbox:
        with mourned(self.engine.address):
            return await self._make(spec, image, agent_volume)

    async def _make(self, spec: SandboxSpec, image: dict[str, Any], agent_volume: str | None) -> DockerSandbox:
        start = start_with(agent_volume, image)
        name = f"verifiers-{RUN}-{secrets.token_hex(6)}"
        link = None
        try:
            id = await self._create(name, spec, image, start)
            user = spec.user or (image.get("Config") or {}).get("User") or ""
            if user.partition(":")[0] not in ("", "0", "root"):
                await own_workdir(self.engine, id, spec, user)
            link = Link(await self.engine.attach(f"/containers/{id}/attach", query=STREAMS), start.env)
            await self.engine.call("POST", f"/containers/{id}/start", timeout_s=START_TIMEOUT_S)
            await link.greet(spec, owns_pid_1=True)
        except BaseException as error:
            if link is not None:
                await link.close()
            try:
                await remove(self.engine, name)
            except SandboxError as unremoved:
                log.warning("container %s could not be removed: %s; it ends with its connection", name, unremoved)
            if isinstance(error, SandboxError):
                raise SandboxStartError(f"box of image {_called(image)!r} did not start: {error}") from error
            raise
        volumes = sorted((image.get("Config") or {}).get("Volumes") or {})
        watch = not self._has_quota
        box = DockerSandbox(self.engine, id, spec, link, start=start, watch_disk=watch, volumes=volumes)
        self._boxes[id] = box
        link.pumping.add_done_callback(lambda _: self._boxes.pop(id, None))
        return box

    async def _create(self, name: str, spec: SandboxSpec, image: dict[str, Any], start: Start) -> str:
        """The new container's id. Whether the engine's storage takes a size is found out by asking for one."""
        quota = self._has_quota is not False
        body = container(spec, image["Id"], start.argv, quota=quota, agent_volume=start.agent_volume, unset=start.env)
        try:
            made = await self.engine.call(
                "POST", "/containers/create", query={"name": name}, body=body, timeout_s=START_TIMEOUT_S
            )
        except EngineError as error:
            if not quota or "storage" not in str(error).lower():
                raise
            self._has_quota = False
            return await self._create(name, spec, image, start)
        self._has_quota = quota
        return made["Id"]


def _called(image: dict[str, Any]) -> str:
    return next(iter(image.get("RepoTags") or []), image["Id"])
