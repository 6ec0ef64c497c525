"""The `modal` backend: boxes as sandboxes of a Modal account, found through Modal's own configuration."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from verifiers.errors import MissingExtraError, SandboxLostError, SandboxPolicyError, SandboxStartError
from verifiers.sandboxes.base import BoxInfo, SandboxSpec
from verifiers.sandboxes.egress.allow import AllowList
from verifiers.sandboxes.marks import marks, owner_alive
from verifiers.sandboxes.modal.box import (
    Link,
    ModalSandbox,
    agent_argv,
    first_argv,
    remove_image,
    terminate,
    typed_errors,
)
from verifiers.sandboxes.mounts import refuse
from verifiers.sandboxes.starting import start_or_undo

if TYPE_CHECKING:
    import modal

log = logging.getLogger("verifiers.sandboxes")
APP = "verifiers-sandboxes"
BUILD_PREFIX = "build:"
"""`image="build:<folder>"`: the image that the folder's Dockerfile builds."""
TAG = "verifiers-"
MAX_LIFE_S = 24 * 3600
"""The longest life Modal gives a sandbox; its own default of 300 s would end boxes in the middle of a rollout."""


class ModalBackend:
    """Sandboxes of one Modal app.

    Args:
        app: the app they belong to, made when missing.
        client: a Modal client; None: what Modal's configuration and environment variables say.
        ports: reached through Modal's own tunnels, which are public, in boxes that have a network. All other ports, and
            these in boxes without one, are reached through the agent, from this machine only.
        add_python: the version of a Python, as "3.12", that Modal puts below /usr/local of images from a registry or a
            Dockerfile: for those that have no `python3`, which the agent needs. Modal wants to know before it has seen
            the image, and what an image has there itself is covered. Not for musl images, as Alpine's.
    """

    def __init__(
        self,
        *,
        app: str = APP,
        client: modal.Client | None = None,
        ports: Sequence[int] = (),
        add_python: str | None = None,
    ) -> None:
        self.app = app
        self.client = client
        self.ports = tuple(ports)
        self.add_python = add_python
        self._boxes: set[ModalSandbox] = set()

    async def probe(self) -> str | None:
        try:
            modal = _modal()
        except MissingExtraError as error:
            return str(error)
        try:
            client = self.client or await modal.Client.from_env.aio()
            await client.hello.aio()
        except (modal.exception.Error, OSError) as error:
            return f"Modal does not answer: {error}. Run 'modal setup', or set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"
        return None

    async def start(self, spec: SandboxSpec) -> ModalSandbox:
        refuse(spec, "modal")
        options = create_options(spec)
        if spec.network != "none":
            options["encrypted_ports"] = self.ports
        return await start_or_undo(self._start(spec, options))

    async def ls(self) -> list[BoxInfo]:
        return [info for info, _ in await self._listed()]

    async def prune(self) -> list[BoxInfo]:
        dead = [(info, sandbox) for info, sandbox in await self._listed() if not info.owner_alive]
        await asyncio.gather(*(terminate(sandbox) for _, sandbox in dead))
        return [info for info, _ in dead]

    async def remove_snapshot(self, name: str) -> None:
        await remove_image(name, self.client)

    async def close(self) -> None:
        await asyncio.gather(*(box.stop() for box in list(self._boxes)))

    async def _start(self, spec: SandboxSpec, options: dict[str, Any]) -> ModalSandbox:
        modal = _modal()
        with typed_errors(f"box of image {spec.image!r} did not start", SandboxStartError):
            app = await self._app()
            sandbox = await modal.Sandbox.create.aio(
                *first_argv(), app=app, image=_image(modal, spec, self.add_python), client=self.client, **options
            )
            try:
                link = await _enter(sandbox, spec)
            except BaseException:
                await terminate(sandbox)
                raise
        box = ModalSandbox(sandbox, spec, link, ports=options.get("encrypted_ports", ()))
        self._boxes.add(box)
        link.receiving.add_done_callback(lambda _: self._boxes.discard(box))
        return box

    async def _app(self) -> modal.App:
        return await _modal().App.lookup.aio(self.app, create_if_missing=True, client=self.client)

    async def _listed(self) -> list[tuple[BoxInfo, modal.Sandbox]]:
        """Modal lists what runs or is about to, in this app only."""
        modal = _modal()
        with typed_errors("Modal's sandboxes could not be listed"):
            app = await self._app()
            found = [each async for each in modal.Sandbox.list.aio(app_id=app.app_id, client=self.client)]
            all_tags = await asyncio.gather(*(_tags(each) for each in found))
        listed = []
        for sandbox, tags in zip(found, all_tags, strict=True):
            if tags is not None:
                given = {name.removeprefix(TAG): text for name, text in tags.items() if name.startswith(TAG)}
                alive = owner_alive(given, running=True, now=time.time())
                listed.append((BoxInfo(sandbox.object_id, "modal", "running", given.get("run", ""), alive), sandbox))
        return listed


async def _enter(sandbox: modal.Sandbox, spec: SandboxSpec) -> Link:
    """An agent in a running sandbox."""
    link = Link(await sandbox.exec.aio(*agent_argv(spec), text=False))
    try:
        await link.greet(spec)
    except BaseException as error:
        await link.close()
        if isinstance(error, SandboxLostError):
            raise SandboxStartError(f"the sandbox ended at once: {error}") from error
        raise
    return link


def create_options(spec: SandboxSpec) -> dict[str, Any]:
    """What `modal.Sandbox.create` is given for `spec`, apart from its command and image.

    Raises:
        SandboxPolicyError: for what Modal cannot enforce.
    """
    if spec.rootfs is not None:
        raise SandboxPolicyError("the modal backend takes no rootfs of this machine; name an image, or build:<folder>")
    if (spec.pids, spec.disk_mb) != (SandboxSpec.pids, SandboxSpec.disk_mb):
        _warn_once()
    options: dict[str, Any] = {
        "timeout": MAX_LIFE_S if spec.timeout_s is None else min(MAX_LIFE_S, math.ceil(spec.timeout_s)),
        "memory": (spec.memory_mb, spec.memory_mb),
        "tags": {f"{TAG}{name}": text for name, text in marks().items()},
    }
    if spec.cpus is not None:
        options["cpu"] = (spec.cpus, spec.cpus)
    if spec.network == "none":
        options["block_network"] = True
    elif spec.network == "allowlist":
        if AllowList(spec.allow).has_ports:
            raise SandboxPolicyError(f"Modal's allow lists know no ports; leave them out of allow={spec.allow!r}")
        networks = [_network(entry) for entry in spec.allow]
        options["outbound_cidr_allowlist"] = [cidr for cidr in networks if cidr is not None]
        options["outbound_domain_allowlist"] = [
            entry for entry, cidr in zip(spec.allow, networks, strict=True) if cidr is None
        ]
    return options


@cache
def _warn_once() -> None:
    log.warning(
        "modal bounds neither the processes of a box (pids) nor its disk as a whole (disk_mb), only single files"
    )


def _network(entry: str) -> str | None:
    """`entry` as a network in CIDR form; None if it is a host name."""
    try:
        return str(ipaddress.ip_network(entry, strict=False))
    except ValueError:
        return None


def _image(modal: ModuleType, spec: SandboxSpec, add_python: str | None) -> Any:
    if spec.image is None:
        return modal.Image.debian_slim()
    if spec.image.startswith("im-"):
        return modal.Image.from_id(spec.image)
    if spec.image.startswith(BUILD_PREFIX):
        folder = Path(spec.image.removeprefix(BUILD_PREFIX))
        return modal.Image.from_dockerfile(folder / "Dockerfile", context_dir=folder, add_python=add_python)
    return modal.Image.from_registry(spec.image, add_python=add_python)


async def _tags(sandbox: modal.Sandbox) -> dict[str, str] | None:
    """None if it ended meanwhile."""
    try:
        return await sandbox.get_tags.aio()
    except _modal().exception.NotFoundError:
        return None


def _modal() -> ModuleType:
    try:
        import modal
    except ModuleNotFoundError as error:
        raise MissingExtraError("the modal sandbox backend", extra="modal") from error
    return modal
