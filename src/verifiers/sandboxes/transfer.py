"""Files and trees through a box's agent. What comes out of a box is hostile: nothing is written outside the target."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from verifiers.errors import ConfigError, SandboxLostError, SandboxPolicyError
from verifiers.sandboxes.wire import CHUNK, Grants, Wire

MAX_ENTRIES = 1_000_000
"""Entries of one tree that are copied out of a box."""
DEEPEST = 256
"""Levels of folders that are copied out of a box: whoever removes the copy goes down as many."""
AT_ONCE = 32
"""Entries that are read of this machine's disk, and sent, before others have their turn."""


@contextmanager
def _about(path: str) -> Iterator[None]:
    """Errors of the agent's name the path in the box."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


class _Incoming:
    """One transfer out of the box: each frame goes to `take`, in order; the agent is granted more as it is taken."""

    def __init__(self, wire: Wire, take: Callable[[bytes, bytes], None]) -> None:
        self.wire, self.take = wire, take
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.channel = wire.open(self)

    def received(self, kind: bytes, payload: bytes) -> None:
        if self.done.done():
            return
        if kind == b"F":
            self.wire.streams.pop(self.channel, None)
            self.done.set_result(None)
            return
        try:
            self.take(kind, payload)
        except (OSError, SandboxPolicyError, SandboxLostError) as error:
            self.done.set_exception(error)
            return
        self.wire.send(self.channel, b"W", b"D%d" % len(payload))

    def broken(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    async def ask(self, kind: bytes, path: str, max_bytes: int | None) -> None:
        limit = -1 if max_bytes is None else max_bytes
        try:
            self.wire.send(self.channel, kind, b"%d\0%b" % (limit, encoded(path)))
            with _about(path):
                await self.done
        finally:
            if self.wire.streams.pop(self.channel, None) is not None:
                self.wire.send(self.channel, b"Q")


def encoded(path: str) -> bytes:
    try:
        if path and "\0" not in path:
            return os.fsencode(path)
    except UnicodeEncodeError:
        pass
    raise SandboxPolicyError(f"{path!r:.300} is no path")


async def read(wire: Wire, path: str, max_bytes: int | None) -> bytes:
    parts: list[bytes] = []
    await _Incoming(wire, lambda kind, data: parts.append(data) if kind == b"D" else None).ask(b"R", path, max_bytes)
    return b"".join(parts)


def _staging(target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=".download-", dir=target.parent))


def _check_target(target: Path) -> None:
    if Path.cwd().is_relative_to(target.resolve()):
        raise ConfigError(f"a download becomes its target, and {str(target)!r} is the folder this process works in")


def _replace(copy: Path, target: Path) -> None:
    """A folder gives way to a folder only, and nothing of it is removed before the copy stands in its place."""
    if target.is_dir() and not target.is_symlink():
        if not copy.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
        os.rename(target, copy.with_name("replaced"))
    os.replace(copy, target)


async def download(wire: Wire, path: str, target: Path, max_bytes: int | None) -> None:
    """The copy is made beside `target` and moved there when it is whole."""
    _check_target(target)
    staging = _staging(target)
    try:
        tree = _Tree(staging / "copy", path, max_bytes)
        try:
            await _Incoming(wire, tree.take).ask(b"T", path, max_bytes)
            tree.finish()
        finally:
            tree.close()
        _replace(staging / "copy", target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


class _Tree:
    """Writes what the agent lists. Every folder is one made here; links are made last, so nothing goes through one."""

    def __init__(self, top: Path, source: str, max_bytes: int | None) -> None:
        self.top, self.source, self.left = top, source, max_bytes
        self.folders: dict[str, int] = {}
        self.links: list[tuple[str, str]] = []
        self.names: set[str] = set()
        self.file: BinaryIO | None = None

    def take(self, kind: bytes, data: bytes) -> None:
        if kind == b"N":
            self._entry(data)
        elif kind == b"D":
            if self.file is None:
                raise SandboxLostError("the agent in the box sent bytes of no file: it is not ours any more")
            if self.left is not None:
                self.left -= len(data)
                if self.left < 0:
                    raise SandboxPolicyError(f"{self.source} has more bytes than asked for")
            self.file.write(data)

    def _entry(self, data: bytes) -> None:
        self.close()
        kind, mode, name, link = data.split(b"\0")
        path = os.fsdecode(name)
        self._check(path)
        where = self.top / path if path else self.top
        bits = int(mode) & 0o777
        if kind == b"d":
            where.mkdir(mode=0o700)
            self.folders[path] = bits
        elif kind == b"l":
            self.links.append((path, os.fsdecode(link)))
        else:
            number = os.open(where, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            self.file = open(number, "wb")  # noqa: SIM115 - closed by `close`, over many frames
            os.fchmod(number, bits)

    def _check(self, path: str) -> None:
        parts = path.split("/") if path else []
        parent = path.rpartition("/")[0]
        if any(part in ("", ".", "..") for part in parts) or path in self.names or len(self.names) >= MAX_ENTRIES:
            raise SandboxPolicyError(f"{self.source}: refused an entry named {path!r}")
        if len(parts) > DEEPEST:
            raise SandboxPolicyError(f"{self.source}: has more than {DEEPEST} folders in each other")
        if path and parent not in self.folders:
            raise SandboxPolicyError(f"{self.source}: {path!r} is in no folder")
        self.names.add(path)

    def finish(self) -> None:
        """Make the links that stay in the tree, then give folders their modes, inner ones first."""
        self.close()
        for path, link in self.links:
            parts = PurePosixPath(path).parent.parts
            depth = len(parts)
            for part in PurePosixPath(link).parts:
                depth += {"..": -1, ".": 0}.get(part, 1)
                if link.startswith("/") or depth < 0:
                    raise SandboxPolicyError(f"{self.source}: link {path!r} leaves the tree, to {link!r}")
        for path, link in self.links:
            os.symlink(link, self.top / path)
        for path, bits in reversed(self.folders.items()):
            os.chmod(self.top / path if path else self.top, bits | 0o700)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


class _Outgoing:
    """One transfer into the box."""

    def __init__(self, wire: Wire) -> None:
        self.wire, self.grants = wire, Grants(wire)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.channel = wire.open(self)

    def received(self, kind: bytes, payload: bytes) -> None:
        if kind == b"W":
            self.grants.grant(int(payload))
        elif not self.done.done():
            self.done.set_result(None)

    def broken(self, error: Exception) -> None:
        self.grants.wake()
        if not self.done.done():
            self.done.set_exception(error)

    def entry(self, kind: str, mode: int | None, inner: str, link: str = "") -> None:
        bits = "" if mode is None else str(mode & 0o777)
        self.wire.send(self.channel, b"N", b"\0".join(os.fsencode(f) for f in (kind, bits, inner, link)))

    async def send(self, path: str, fill: Callable[[_Outgoing], Awaitable[None]]) -> None:
        try:
            self.wire.send(self.channel, b"U", encoded(path.rstrip("/") or "/"))
            with _about(path):
                await fill(self)
                self.wire.send(self.channel, b"E")
                await self.done
        finally:
            self.done.cancel()
            if self.wire.streams.pop(self.channel, None) is not None:
                self.wire.send(self.channel, b"Q")


async def write(wire: Wire, path: str, data: bytes, mode: int | None) -> None:
    async def fill(out: _Outgoing) -> None:
        out.entry("f", mode, "")
        await out.grants.send(out.channel, data)

    await _Outgoing(wire).send(path, fill)


async def upload(wire: Wire, source: Path, path: str) -> None:
    _check_exists(source)

    await _Outgoing(wire).send(path, partial(_upload_tree, source))


def _check_exists(source: Path) -> None:
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist on this machine")


async def _upload_tree(source: Path, out: _Outgoing) -> None:
    """A folder before what is in it; others have the event loop between a few entries."""
    waiting, count = [""], 0
    while waiting:
        inner = waiting.pop()
        path = source / inner
        found = os.lstat(path) if inner else os.stat(path)
        await _upload_entry(out, path, inner, found)
        if stat.S_ISDIR(found.st_mode):
            names = sorted(os.listdir(path), reverse=True)
            waiting += [f"{inner}/{name}" if inner else name for name in names]
        count += 1
        if count % AT_ONCE == 0:
            await asyncio.sleep(0)


async def _upload_entry(out: _Outgoing, source: Path, inner: str, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        out.entry("l", None, inner, os.readlink(source))
    elif stat.S_ISDIR(found.st_mode):
        out.entry("d", found.st_mode, inner)
    elif stat.S_ISREG(found.st_mode):
        out.entry("f", found.st_mode, inner)
        with source.open("rb") as file:
            while chunk := file.read(CHUNK):
                await out.grants.send(out.channel, chunk)
    else:
        raise SandboxPolicyError(f"{source} is no file, folder or link")
