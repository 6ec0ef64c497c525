"""From what a spec calls its image to the unpacked one: the store's, a folder's or tar's, the container engine's."""

from __future__ import annotations

import asyncio
from pathlib import Path

from verifiers.errors import SandboxError, SandboxImageError
from verifiers.sandboxes.base import SNAPSHOT, SandboxSpec
from verifiers.sandboxes.local.images import Image, ImageStore

BUILD_PREFIX = "build:"


async def key_of(spec: SandboxSpec) -> str:
    """What changes when the spec's image has to be looked for again, '' for none; not for a change in a folder."""
    if spec.rootfs is not None:
        return await asyncio.to_thread(_state, Path(spec.rootfs))
    if spec.image is not None and spec.image.startswith(BUILD_PREFIX):
        from verifiers.sandboxes.docker.images import tree_digest  # its HTTP client is of no use to other boxes

        folder = Path(spec.image.removeprefix(BUILD_PREFIX))
        return f"{spec.image} {await asyncio.to_thread(tree_digest, folder)}"
    return spec.image or ""


def _state(path: Path) -> str:
    try:
        found = path.stat()
    except FileNotFoundError:
        return str(path)
    return f"{path} {found.st_ino} {found.st_mtime_ns} {found.st_size}"


async def find_image(spec: SandboxSpec) -> Image:
    """The image `spec` asks for, made if it is missing.

    Raises:
        ConfigError: the rootfs is no image.
        SandboxImageError: nobody has the image.
    """
    store = ImageStore()
    if spec.rootfs is not None:
        return await asyncio.to_thread(store.add, Path(spec.rootfs))
    name = spec.image or ""
    known = await asyncio.to_thread(store.find, name)
    if known is not None and (name not in known.names or not known.engine_id):
        return known
    if name.startswith(f"{SNAPSHOT}:"):
        raise SandboxImageError(f"there is no snapshot {name!r}; vf-image ls lists those there are")
    from verifiers.sandboxes.local import export  # its HTTP client is of no use to other boxes

    if name.startswith(BUILD_PREFIX):
        return await export.build(store, Path(name.removeprefix(BUILD_PREFIX)))
    try:
        return await export.add_from_engine(store, name)
    except SandboxError as error:
        if known is not None:  # exported when the engine had it
            return known
        raise SandboxImageError(
            f"no local image {name!r} ({error}); add one with: vf-image add SOURCE --name {name}"
        ) from error
