"""Images out of this machine's container engine, for the local backend: created, exported as a tar, never run.

An image made here is known by the engine's id of it, which is a digest of its content: a name the engine has given to
another image since is noticed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from verifiers.errors import SandboxError, SandboxStartError
from verifiers.sandboxes.base import SandboxSpec
from verifiers.sandboxes.docker.engine import Engine, EngineError, engine_address
from verifiers.sandboxes.docker.images import BUILD_PREFIX, Images, tree_digest
from verifiers.sandboxes.docker.mourning import mourned
from verifiers.sandboxes.docker.spec import LABEL
from verifiers.sandboxes.local.images import Image, ImageStore, digest_of_text
from verifiers.sandboxes.local.unpack import unpack
from verifiers.sandboxes.marks import marks

FROM_ENGINE = "docker:"
"""What the sources of these images begin with."""
ASK_TIMEOUT_S = 20.0


async def add_from_engine(store: ImageStore, reference: str, *, name: str = "") -> Image:
    """The image an engine on this machine has under `reference`, exported unless that was done before.

    Raises:
        SandboxStartError: there is no engine, or it does not have the image, which is not pulled here.
    """
    engine = Engine(engine_address())
    try:
        described = await engine.call("GET", f"/images/{reference}/json", timeout_s=ASK_TIMEOUT_S)
    except EngineError as error:
        raise SandboxStartError(f"image {reference!r}: {error}; pull it first: docker pull {reference}") from error
    except SandboxError as error:
        raise _no_engine(error) from error
    return await _exported(store, engine, described, source=reference, name=name or reference)


async def build(store: ImageStore, folder: Path, *, name: str = "") -> Image:
    """The image `folder`'s Dockerfile builds, from the cache unless something in the folder has changed.

    Raises:
        SandboxStartError: there is no engine, no Dockerfile, or it does not build.
    """
    folder = await asyncio.to_thread(folder.resolve)
    tag = f"verifiers-build:{await asyncio.to_thread(tree_digest, folder)}"
    known = next((image for image in store.all() if image.source == f"{FROM_ENGINE}{tag}"), None)
    name = name or f"{BUILD_PREFIX}{folder}"
    if known is not None:
        return store.name(known, name)
    engine = Engine(engine_address())
    try:
        described = await Images(engine).resolve(SandboxSpec(image=f"{BUILD_PREFIX}{folder}"))
    except SandboxStartError:
        raise
    except SandboxError as error:
        raise _no_engine(error) from error
    return await _exported(store, engine, described, source=tag, name=name)


def _no_engine(error: SandboxError) -> SandboxStartError:
    return SandboxStartError(f"{error}; install and start Docker or Podman, or name its socket in DOCKER_HOST")


async def _exported(store: ImageStore, engine: Engine, described: dict[str, Any], *, source: str, name: str) -> Image:
    config = described.get("Config") or {}
    image = Image(
        digest=digest_of_text(f"engine {described['Id']}"),
        name=name,
        source=f"{FROM_ENGINE}{source}",
        env=dict(entry.partition("=")[::2] for entry in config.get("Env") or []),
        user=config.get("User") or "",
        engine_id=described["Id"],
    )
    known = store.get(image.digest)
    if known is None:
        with store.staging() as folder:
            path = folder / "image.tar"
            await _export(engine, image.engine_id, path)
            known = await asyncio.to_thread(store.make, image, lambda root: unpack(path, root))
    return store.name(known, name)


async def _export(engine: Engine, id: str, path: Path) -> None:
    body = {
        "Image": id,
        "Cmd": ["true"],
        "NetworkDisabled": True,
        "Labels": {f"{LABEL}{name}": text for name, text in marks().items()},  # the next run removes what is left
    }
    try:
        with mourned(engine.address):
            await _export_container(engine, body, path)
    except SandboxError as error:
        raise SandboxStartError(f"image {id} cannot be exported: {error}") from error


async def _export_container(engine: Engine, body: dict[str, Any], path: Path) -> None:
    container = (await engine.call("POST", "/containers/create", body=body))["Id"]
    try:
        with await asyncio.to_thread(path.open, "wb") as file:
            async with engine.stream("GET", f"/containers/{container}/export") as response:
                async for chunk in response.content.iter_chunked(1 << 20):
                    await asyncio.to_thread(file.write, chunk)
    finally:
        await engine.call("DELETE", f"/containers/{container}", query={"force": True})
