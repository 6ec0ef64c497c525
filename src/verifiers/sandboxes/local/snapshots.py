"""Snapshots of local boxes: what a box wrote becomes a layer in the image store, over the image the box lies on.

Files of that image are not touched, so a snapshot costs what was written since the image, not what the image holds. A
snapshot of a box that was started from a snapshot is one layer again: it needs no other snapshot.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verifiers.sandboxes.base import SNAPSHOT
from verifiers.sandboxes.box import AgentSandbox
from verifiers.sandboxes.local.images import Image, ImageStore, Settings
from verifiers.sandboxes.owner import current_owner
from verifiers.sandboxes.starting import make_or_undo

if TYPE_CHECKING:
    from verifiers.sandboxes.local.keeping import Keeper


class LocalSandbox(AgentSandbox):
    """A local box, whose keeper can copy what is on its disk."""

    def __init__(self, *, keeper: Keeper, image: Image | None, **options: Any) -> None:
        super().__init__(**options)
        self.keeper, self.image = keeper, image
        self._copying = asyncio.Lock()

    async def snapshot(self, *, temporary: bool = False) -> str:
        async with self._copying:  # the end of one copy sets the box in motion
            return await self._snapshot(temporary=temporary)

    async def _snapshot(self, *, temporary: bool) -> str:
        if self.wire.error is not None:
            raise self.wire.error
        ours, theirs = os.pipe()
        try:
            await self.keeper.copy(self.id, "root" if self.image is None else "upper", theirs)
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        storing = asyncio.to_thread(self._store, ours, temporary=temporary)
        image = await make_or_undo(storing, lambda image: asyncio.to_thread(ImageStore().remove, image))
        return image.name

    def _store(self, pipe: int, *, temporary: bool) -> Image:
        """The new image, of what comes out of `pipe`."""
        from verifiers.sandboxes.local import layers  # of no use to other boxes

        store, below = ImageStore(), self.image
        digest = secrets.token_hex(8)
        image = Image(
            digest=digest,
            name=f"{SNAPSHOT}:{digest}",
            source=below.name if below else "",
            snapshot_of=self.id,
            host_tools=below is None or below.host_tools,
            owner=str(current_owner()) if temporary else "",
        )
        if below is not None:
            base = below.base if below.snapshot_of else below.digest
            image = replace(image, env=below.env, user=below.user, base=base)
        with open(pipe, "rb", buffering=1 << 20) as stream:
            store.folder.mkdir(parents=True, exist_ok=True)
            whole = below is not None and below.digest == image.base and not layers.can_hold_layers(store.folder)
            if whole:
                image = replace(image, base="")

            def fill(root: Path) -> Settings:
                base = store.folder / image.base / "root" if image.base else None
                size = self.spec.disk_mb << 20
                layer = layers.Layer(root, base, max_bytes=size, max_entries=max(size // 1024, 8192))
                if below is not None and (below.snapshot_of or whole):
                    layer.start_from(store.root(below))
                layer.receive(stream, box=self.id)
                stream.read()  # its end: the box is in motion
                return Settings()

            return store.make(image, fill)
