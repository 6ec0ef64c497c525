"""`local`: boxes on this machine, made by bubblewrap out of kernel namespaces. The default backend."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

from verifiers.errors import SandboxError, SandboxPolicyError, SandboxStartError, VerifiersError
from verifiers.sandboxes.base import BoxInfo, SandboxSpec
from verifiers.sandboxes.box import AgentSandbox, greet
from verifiers.sandboxes.local import host, reaper
from verifiers.sandboxes.local.bwrap import Root, layout
from verifiers.sandboxes.local.images import Image, ImageStore, image_folder
from verifiers.sandboxes.local.keeper import PLACE
from verifiers.sandboxes.local.keeping import Keeper, start_keeper
from verifiers.sandboxes.local.lazy import ERR, OUT, STATUS, LazySandbox
from verifiers.sandboxes.local.link import Link
from verifiers.sandboxes.owner import RUN

START_TIMEOUT_S = 60.0


class LocalBackend:
    """One keeper process per event loop holds the boxes; it is started with the first box."""

    lazy = True
    """Whether boxes start as a shell and become the agent when it is needed, where that is safe: see `lazy.py`."""

    def __init__(self) -> None:
        self._keeper: Keeper | None = None
        self._starting: asyncio.Task[Keeper] | None = None
        self._boxes: dict[str, AgentSandbox] = {}
        self._refusal: str | None = None
        self._probed = False
        self._images: dict[str, Image] = {}

    async def probe(self) -> str | None:
        """Starts a keeper and one box, once."""
        if not self._probed:
            try:
                box = await self.start(SandboxSpec(memory_mb=256, disk_mb=16))
                await box.stop()
                self._refusal = None
            except VerifiersError as error:
                self._refusal = str(error)
            self._probed = True
        return self._refusal

    async def keeper(self) -> Keeper:
        if self._keeper is not None and self._keeper.usable and self._keeper.loop is asyncio.get_running_loop():
            return self._keeper
        if self._starting is None or self._starting.get_loop() is not asyncio.get_running_loop():
            self._starting = asyncio.ensure_future(self._start_keeper())
        try:
            return await asyncio.shield(self._starting)
        finally:
            if self._starting is not None and self._starting.done():
                self._starting = None

    async def _start_keeper(self) -> Keeper:
        if self._keeper is not None:
            self._keeper.close()
        self._keeper = await start_keeper(str(image_folder()))
        return self._keeper

    async def start(self, spec: SandboxSpec) -> AgentSandbox:
        if spec.network == "allowlist":
            raise SandboxPolicyError("local boxes know no allow list: ask for network='none', 'full', or 'docker'")
        keeper = await self.keeper()
        if spec.cpus is not None and "cpu" not in keeper.cgroups:
            raise SandboxPolicyError(f"cpus={spec.cpus}: this user may make no cgroups, so CPU use cannot be limited")
        root = await self._root(spec)
        lazy = self.lazy and keeper.ids > 1 and root.image is None and spec.user is None and host.can_reset_signals()
        box_id = uuid.uuid4().hex[:12]
        plan = layout(box_id, spec, root, ids=keeper.ids, lazy=lazy)
        limits = _limits(spec, plan.shifted)
        link = Link(keeper, box_id)
        pids = None if lazy or (limits["pids"] and "pids" in keeper.cgroups) else spec.pids
        user = (spec.user or root.user) if plan.shifted else ""

        async def meet() -> None:
            greeting = greet(link.wire, spec, env=root.env, owns_pid_1=True, user=user, pids=pids)
            await asyncio.wait_for(greeting, START_TIMEOUT_S)

        try:
            async with keeper.starting:
                await link.begin(plan, limits, _rlimits(spec, keeper), descriptors=(OUT, ERR, STATUS) if lazy else ())
                await (asyncio.wait_for(link.shell.ready, START_TIMEOUT_S) if link.shell is not None else meet())
        except BaseException as error:
            said = await link.end_with_words()
            if isinstance(error, (VerifiersError, TimeoutError)):
                raise SandboxStartError(f"a local box could not be started: {said or error}") from error
            raise
        link.forget_words()
        options = {"backend": "local", "id": box_id, "spec": spec, "wire": link.wire, "end": lambda: self._end(link)}
        box = LazySandbox(pipes=link.pipes, meet=meet, **options) if lazy else AgentSandbox(**options)
        self._boxes[box_id] = box
        return box

    async def _root(self, spec: SandboxSpec) -> Root:
        """The image of `spec` unpacked, from the cache if it was before; with none, this machine's toolchain."""
        source = spec.rootfs if spec.rootfs is not None else spec.image
        if source is None:
            return Root()
        key = str(source)
        if key not in self._images:
            self._images[key] = await self._image(spec)
        image = self._images[key]
        return Root(f"{PLACE}/images/{image.digest}/root", image.env, image.user)

    async def _image(self, spec: SandboxSpec) -> Image:
        from verifiers.sandboxes.local.export import add_from_engine  # its HTTP client is of no use to other boxes

        store = ImageStore()
        if spec.rootfs is not None:
            return await asyncio.to_thread(store.add, Path(spec.rootfs))
        assert spec.image is not None
        image = store.find(spec.image)
        if image is not None:
            return image
        try:
            return await add_from_engine(store, spec.image)
        except SandboxError as error:
            raise SandboxStartError(
                f"no local image {spec.image!r} ({error}); add one with: vf-image add SOURCE --name {spec.image}"
            ) from error

    async def _end(self, link: Link) -> None:
        self._boxes.pop(link.id, None)
        await link.end()

    async def ls(self) -> list[BoxInfo]:
        mine = [BoxInfo(box, "local", "running", RUN, True) for box in self._boxes]
        return mine + reaper.other_boxes()

    async def prune(self) -> list[BoxInfo]:
        return reaper.prune()

    async def close(self) -> None:
        for box in list(self._boxes.values()):
            await box.stop()
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None


def _limits(spec: SandboxSpec, shifted: bool) -> dict[str, float]:
    """What cgroups enforce. Processes are counted per user and namespace anyway: enough for a box of one user."""
    pids = spec.pids if shifted else 0
    return {"memory_mb": spec.memory_mb, "disk_mb": spec.disk_mb, "pids": pids, "cpus": spec.cpus or 0}


def _rlimits(spec: SandboxSpec, keeper: Keeper) -> dict[str, int]:
    """Limits of each process; that of memory stands in where cgroups cannot be made."""
    limits = {"CORE": 0, "NOFILE": 65536, "MEMLOCK": 8 << 20, "MSGQUEUE": 1 << 20}
    if "memory" not in keeper.cgroups:
        limits["DATA"] = spec.memory_mb << 20
    return limits
