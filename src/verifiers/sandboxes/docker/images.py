"""Images for boxes: pulled by name, built from a Dockerfile, or imported from a root folder or tar; each made once.

What is made here is named by the digest of what it is made of, so the engine's own store is the cache.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import re
import tarfile
import tempfile
from collections.abc import AsyncIterator
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from verifiers.errors import SandboxImageError, SandboxStartError
from verifiers.sandboxes.base import SandboxSpec
from verifiers.sandboxes.docker.engine import Engine, EngineError

DEFAULT_IMAGE = "python:3.11-slim"
BUILD_PREFIX = "build:"
"""`image="build:<folder>"`: the image that the folder's Dockerfile builds."""
_TERMINAL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
"""Colours, and what else a build may print that is meant for a terminal."""
PULL_TIMEOUT_S = BUILD_TIMEOUT_S = 1800.0


class Images:
    """The images of one engine; two boxes that need the same one at the same time make it once."""

    def __init__(self, engine: Engine, *, default: str = DEFAULT_IMAGE) -> None:
        self.engine = engine
        self.default = default
        self._making: dict[str, asyncio.Task[None]] = {}

    async def resolve(self, spec: SandboxSpec) -> dict[str, Any]:
        """What the engine knows of the image `spec` names, after making it if it is missing.

        Raises:
            SandboxStartError: it cannot be pulled, built or imported.
        """
        if spec.rootfs is not None:
            source = Path(spec.rootfs)
            name = f"verifiers-rootfs:{await asyncio.to_thread(tree_digest, source)}"
            return await self._known_or_made(name, lambda: self._import(source, name))
        image = spec.image or self.default
        if image.startswith(BUILD_PREFIX):
            folder = Path(image.removeprefix(BUILD_PREFIX))
            name = f"verifiers-build:{await asyncio.to_thread(tree_digest, folder)}"
            return await self._known_or_made(name, lambda: self._build(folder, name))
        return await self._known_or_made(image, lambda: self._pull(image))

    async def _known_or_made(self, name: str, make: Any) -> dict[str, Any]:
        try:
            return await self.engine.call("GET", f"/images/{name}/json")
        except EngineError as error:
            if error.status != 404:
                raise SandboxStartError(f"image {name!r}: {error}") from error
        if name not in self._making or self._making[name].get_loop() is not asyncio.get_running_loop():
            task = self._making[name] = asyncio.ensure_future(make())
            task.add_done_callback(lambda _: self._making.pop(name, None))  # two loops may do it twice
        try:
            await asyncio.shield(self._making[name])
            return await self.engine.call("GET", f"/images/{name}/json")
        except EngineError as error:
            kind = SandboxImageError if error.status == 404 else SandboxStartError
            raise kind(f"image {name!r} could not be made: {error}") from error

    async def _pull(self, image: str) -> None:
        name, _, tag = image.partition("@")[0].rpartition(":")
        if "@" in image or not name or "/" in tag:
            name, tag = image, "" if "@" in image else "latest"
        query = {"fromImage": name, "tag": tag or None}
        async with self.engine.stream("POST", "/images/create", query=query, timeout_s=PULL_TIMEOUT_S) as response:
            await _follow(response.content, f"image {image!r} cannot be pulled")

    async def _build(self, folder: Path, name: str) -> None:
        if not (folder / "Dockerfile").is_file():
            raise SandboxImageError(f"{BUILD_PREFIX}{folder} has no file named Dockerfile")
        query = {"t": name, "rm": True, "forcerm": True}
        with await asyncio.to_thread(_packed, folder) as packed:
            async with self.engine.stream(
                "POST", "/build", query=query, data=pieces(packed), timeout_s=BUILD_TIMEOUT_S
            ) as response:
                await _follow(response.content, f"{folder / 'Dockerfile'} does not build")

    async def _import(self, source: Path, name: str) -> None:
        query = {"fromSrc": "-", "repo": name}  # Podman ignores a tag of its own here
        with await asyncio.to_thread(_packed, source) as packed:
            async with self.engine.stream(
                "POST", "/images/create", query=query, data=pieces(packed), timeout_s=BUILD_TIMEOUT_S
            ) as response:
                await _follow(response.content, f"{source} cannot be imported")


def tree_digest(source: Path) -> str:
    """16 hex digits over a tar file's bytes, or over a folder's entries: paths, modes, owners, links, contents."""
    if not source.exists():
        raise SandboxImageError(f"{source} does not exist")
    paths = [source, *sorted(source.rglob("*"))] if source.is_dir() else [source]
    quick = hashlib.sha256()
    for path in paths:
        found = path.lstat()
        quick.update(f"{path}\0{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}\n".encode())
    return _content_digest(source, quick.digest())


@lru_cache(maxsize=64)
def _content_digest(source: Path, quick: bytes) -> str:
    """`quick` changes whenever a file below `source` does, and costs no reading."""
    total = hashlib.sha256(b"folder" if source.is_dir() else b"file")
    for path in [source] if source.is_file() else sorted(source.rglob("*")):
        found = path.lstat()
        entry = [path.relative_to(source).as_posix(), found.st_mode, found.st_uid, found.st_gid]
        if path.is_symlink():
            entry.append(os.readlink(path))
        elif path.is_file():
            with path.open("rb") as file:
                entry.append(hashlib.file_digest(file, "sha256").hexdigest())
        total.update(json.dumps(entry).encode() + b"\n")
    return total.hexdigest()[:16]


def one_entry_tar(entry: tarfile.TarInfo) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(entry)
    return packed.getvalue()


def _packed(source: Path) -> IO[bytes]:
    """A tar file as it is, or a folder as one; closing it removes what was made."""
    if source.is_file():
        return source.open("rb")
    packed = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(source, arcname=".")
    packed.seek(0)
    return packed


async def pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    """Its content, read without holding the event loop up."""
    while piece := await asyncio.to_thread(file.read, 1 << 20):
        yield piece


async def _follow(content: Any, failed: str) -> None:
    """Read the engine's progress lines to their end; `SandboxStartError` with the last of them if one is an error."""
    said: list[str] = []
    pending = b""
    async for piece in content.iter_any():
        *lines, pending = (pending + piece).split(b"\n")
        for line in lines:
            if line.strip():
                _judge(json.loads(line), said, failed)
    if pending.strip():
        _judge(json.loads(pending), said, failed)


def _judge(line: dict[str, Any], said: list[str], failed: str) -> None:
    if "error" in line:
        text = f"{failed}: {line['error']}\n{''.join(said)[-2000:]}".rstrip()
        raise SandboxStartError(_TERMINAL.sub("", text))
    said.append(str(line.get("stream", "")))
    del said[:-50]
