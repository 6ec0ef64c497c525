"""`local`: boxes on this machine, made by bubblewrap out of kernel namespaces. The default backend."""

from __future__ import annotations

import asyncio
import os
import uuid
from functools import partial

from verifiers.errors import ConfigError, SandboxLostError, SandboxPolicyError, SandboxStartError, VerifiersError
from verifiers.sandboxes import carried
from verifiers.sandboxes.base import BoxInfo, SandboxSpec
from verifiers.sandboxes.box import greet
from verifiers.sandboxes.local import host, reaper, refusal
from verifiers.sandboxes.local.bwrap import Root, has_on_disk, layout
from verifiers.sandboxes.local.finding import find_image, key_of
from verifiers.sandboxes.local.images import Image, ImageStore
from verifiers.sandboxes.local.keeper import PLACE
from verifiers.sandboxes.local.keepers import Keepers
from verifiers.sandboxes.local.keeping import Keeper
from verifiers.sandboxes.local.lazy import LazySandbox
from verifiers.sandboxes.local.link import Link
from verifiers.sandboxes.local.snapshots import LocalSandbox
from verifiers.sandboxes.owner import RUN
from verifiers.sandboxes.starting import to_its_end

START_TIMEOUT_S = 60.0


class LocalBackend:
    """One keeper process per event loop holds the boxes; it is started with the first box."""

    lazy = True
    """Whether boxes start as a shell and become the agent when it is needed, where that is safe: see `lazy.py`."""

    def __init__(self) -> None:
        self._keepers = Keepers()
        self._boxes: dict[str, LocalSandbox] = {}
        self._refusal: str | None = None
        self._probed = False
        self._images: dict[str, Image] = {}
        self._finding: dict[str, asyncio.Task[Image]] = {}
        self._held: dict[str, int] = {}
        """Digest of an image -> what keeps it from being removed while this backend may use it."""

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
        try:
            return await self._keepers.mine()
        except (OSError, ConfigError) as error:  # the latter: there is no home folder
            raise SandboxStartError(f"local boxes need room in this user's cache folder: {error}") from error

    async def start(self, spec: SandboxSpec) -> LocalSandbox:
        keeper = await self.keeper()
        if spec.cpus is not None and "cpu" not in keeper.cgroups:
            raise SandboxPolicyError(f"cpus={spec.cpus}: this user may make no cgroups, so CPU use cannot be limited")
        image = await self._image(spec)
        root = self._root(image)
        lazy = self.lazy and keeper.ids > 1 and root.host_tools and spec.user is None and host.can_reset_signals()
        lazy = lazy and spec.network != "allowlist"  # only the agent leads to the proxy
        lazy = lazy and has_on_disk(spec.workdir)  # else only the agent tells what is wrong with it
        box_id = uuid.uuid4().hex[:12]
        plan = layout(box_id, spec, root, ids=keeper.ids, lazy=lazy)
        limits = _limits(spec, plan.shifted)
        link = Link(keeper, box_id)
        pids = None if lazy or (limits["pids"] and "pids" in keeper.cgroups) else spec.pids
        user = (spec.user or root.user) if plan.shifted else ""

        async def meet(used: bool) -> None:
            greeting = greet(link.wire, spec, env=root.env, owns_pid_1=True, user=user, pids=pids, used=used)
            try:
                await asyncio.wait_for(greeting, START_TIMEOUT_S)
            except TimeoutError:
                raise SandboxLostError(f"sandbox {box_id}: its agent did not start in {START_TIMEOUT_S:g} s") from None

        try:
            async with keeper.starting:
                await link.begin(plan, limits, _rlimits(spec, keeper), shell_pids=spec.pids if lazy else None)
                await (asyncio.wait_for(link.shell.ready, START_TIMEOUT_S) if link.shell is not None else meet(False))
        except BaseException as error:
            said = await to_its_end(link.end_with_words())
            if isinstance(error, (VerifiersError, OSError)):  # TimeoutError is one
                known = refusal.advice() if "namespace" in said else ""
                raise SandboxStartError(f"a local box could not be started: {said or error}{known}") from error
            raise
        link.forget_words()
        options = {"backend": "local", "id": box_id, "spec": spec, "wire": link.wire, "end": lambda: self._end(link)}
        options |= {"keeper": keeper, "image": image}
        box = LazySandbox(pipes=link.pipes, meet=meet, **options) if lazy else LocalSandbox(**options)
        self._boxes[box_id] = box
        return box

    async def _image(self, spec: SandboxSpec) -> Image | None:
        """The image of `spec` unpacked, from the cache if it was before, and held; None if it asks for none."""
        key = await key_of(spec)
        if not key:
            return None
        if key not in self._images:
            if key not in self._finding or self._finding[key].get_loop() is not asyncio.get_running_loop():
                self._finding[key] = asyncio.ensure_future(find_image(spec))
                self._finding[key].add_done_callback(partial(self._found, key))
            image = await asyncio.shield(self._finding[key])
            self._hold(image)
            self._images[key] = image
        return self._images[key]

    def _found(self, key: str, finding: asyncio.Task[Image]) -> None:
        self._finding.pop(key, None)
        if not finding.cancelled():
            finding.exception()  # whoever asked may have been cancelled meanwhile

    def _hold(self, image: Image) -> None:
        store = ImageStore()
        for digest in filter(None, (image.digest, image.base)):
            if digest not in self._held:
                try:
                    self._held[digest] = store.hold(digest)
                except FileNotFoundError:
                    raise SandboxStartError(f"image {image.name!r} needs {digest}, which was removed") from None

    def _root(self, image: Image | None) -> Root:
        if image is None:
            return Root()
        layers = tuple(f"{PLACE}/images/{digest}/root" for digest in (image.base, image.digest) if digest)
        return Root(layers, image.host_tools, image.env, image.user)

    async def remove_snapshot(self, name: str) -> None:
        users = [box.id for box in self._boxes.values() if box.image is not None and box.image.name == name]
        if users:
            raise SandboxPolicyError(f"snapshot {name!r} is in use by {', '.join(users)}")
        self._images.pop(name, None)
        image = ImageStore().find(name)
        if image is not None and image.snapshot_of:
            if image.digest in self._held:
                os.close(self._held.pop(image.digest))
            try:
                await asyncio.to_thread(ImageStore().remove, image)
            except ConfigError as error:
                raise SandboxPolicyError(str(error)) from error

    async def _end(self, link: Link) -> None:
        self._boxes.pop(link.id, None)
        await link.end()

    async def ls(self) -> list[BoxInfo]:
        mine = [BoxInfo(box, "local", "running", RUN, True) for box in self._boxes]
        return mine + reaper.other_boxes()

    async def prune(self) -> list[BoxInfo]:
        await asyncio.to_thread(ImageStore().prune, keep=lambda image: True)  # what dead processes left there
        await asyncio.to_thread(carried.sweep)
        return reaper.prune()

    async def close(self) -> None:
        for box in list(self._boxes.values()):
            if box.keeper.loop is asyncio.get_running_loop():
                await box.stop()
        self._keepers.close()
        self._boxes.clear()
        self._images.clear()
        while self._held:
            os.close(self._held.popitem()[1])


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
