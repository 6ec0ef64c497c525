"""What a box has written, put into the image store as a layer: the receiving side of `keeper/copying.py`.

A layer is a folder that an overlay mount takes as it is: a device 0/0 stands for something removed, the attribute
`user.overlay.opaque` says that nothing below a folder shows through. What comes in is the box's doing, so no name in it
is trusted: everything goes into folders made or checked here, and every file is a new one.

Format: https://docs.kernel.org/filesystems/overlayfs.html
"""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from verifiers.errors import SandboxError, SandboxLimitError, SandboxLostError
from verifiers.sandboxes.local.images import UNPACKING, give, remove_tree
from verifiers.sandboxes.local.keeper.attributes import attributes_of, set_attributes
from verifiers.sandboxes.local.keeper.copying import DEEPEST, LONGEST, OPAQUE
from verifiers.sandboxes.local.unpack import kept_mode

LONGEST_LINE = 1 << 16
WHITEOUT = stat.S_IFCHR


@cache
def can_hold_layers(folder: Path) -> bool:
    """Whether layers can be kept in `folder`: on another overlay, as in many containers, whiteouts cannot be made."""
    with tempfile.TemporaryDirectory(prefix=UNPACKING, dir=folder) as trial:
        try:
            os.setxattr(trial, OPAQUE, b"y")
            os.mknod(f"{trial}/whiteout", WHITEOUT, 0)
        except OSError:
            return False
    return True


class Layer:
    """A layer at `root`, which is a folder without links above it.

    Args:
        base: the root of the image the layer lies over; None: it lies over nothing, and what is removed just goes.
        max_bytes: of contents; max_entries: of files, folders and links together.
    """

    def __init__(self, root: Path, base: Path | None, *, max_bytes: int, max_entries: int) -> None:
        self.root, self.base = os.path.realpath(root), base
        self.bytes_left, self.entries_left = max_bytes, max_entries
        self.shows: dict[str, bool] = {}
        """Folder that came in -> whether the base's folder shows through it."""
        self.seen: set[str] = set()
        self.folders: dict[str, tuple[int, int]] = {"": (0o755, 0)}
        """Mode and time of each folder, set when all is in them."""
        self.file, self.line = -1, dict[str, Any]()
        """The file whose content comes in, and what was said of it."""
        self.as_root = os.geteuid() == 0

    def start_from(self, lower: Path) -> None:
        """Fill the empty layer with what is in another; files are the same ones, as nobody writes to either's."""
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            for entry in os.scandir(os.path.join(lower, folder)):
                path, found = os.path.join(folder, entry.name), entry.stat(follow_symlinks=False)
                target = f"{self.root}/{path}"
                if entry.is_dir(follow_symlinks=False):
                    os.mkdir(target)
                    os.lchown(target, found.st_uid, found.st_gid)
                    if _is_opaque(entry.path):
                        os.setxattr(target, OPAQUE, b"y")
                    set_attributes(target, attributes_of(entry.path))
                    self.folders[path] = stat.S_IMODE(found.st_mode), found.st_mtime_ns
                    waiting.append(path)
                else:
                    os.link(entry.path, target, follow_symlinks=False)

    def receive(self, stream: BinaryIO, *, box: str) -> None:
        """Everything from `stream`.

        Raises:
            SandboxLimitError: it is more than a box can hold, or nothing that can be kept.
            SandboxLostError: it ended before it was over.
        """
        try:
            for line in _lines(stream):
                if line.get("over"):
                    self._finish()
                    return
                if "error" in line:
                    kind = SandboxLimitError if line["refused"] else SandboxError
                    raise kind(f"sandbox {box} cannot be copied: {line['error']}")
                self._take(line, stream)
        except OSError as error:
            kind = SandboxLimitError if error.errno in (errno.EFBIG, errno.EMLINK, errno.ENAMETOOLONG) else SandboxError
            raise kind(f"sandbox {box} cannot be copied: {error}") from error
        finally:
            if self.file >= 0:
                os.close(self.file)
        raise SandboxLostError(f"sandbox {box} is gone")

    def _take(self, line: dict[str, Any], stream: BinaryIO) -> None:
        if "data" in line:
            self._content(line["data"], line["length"], stream)
            return
        self._close()
        self.entries_left -= 1
        if self.entries_left < 0:
            raise SandboxLimitError("the box has more files than its disk can hold, or makes new ones all the time")
        path = line["path"]
        parts = path.split("/")
        parent = "/".join(parts[:-1])
        if path and (len(parts) > DEEPEST + 1 or len(os.fsencode(path)) > LONGEST or not _plain(parts)):
            raise SandboxLimitError(f"the box has a path that is not copied: {path[:200]!r}")
        if path in self.seen or (path and parent not in self.shows):
            return  # changed while it was read: what came first stays
        self.seen.add(path)
        self._place(path, parent, line)

    def _place(self, path: str, parent: str, line: dict[str, Any]) -> None:
        target, mode = f"{self.root}/{path}", line.get("mode", 0)
        if stat.S_ISDIR(mode):
            self._place_folder(path, target, parent, line)
            return
        _remove(target)
        if "hard" in line:
            source = line["hard"]
            if source in self.seen and _kind(f"{self.root}/{source}") == stat.S_IFREG:
                os.link(f"{self.root}/{source}", target, follow_symlinks=False)
        elif stat.S_ISCHR(mode):
            if self.shows[parent] and self.base is not None and os.path.lexists(self.base / path):
                os.mknod(target, WHITEOUT, 0)
        elif stat.S_ISREG(mode):
            self.file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            self.line = line
            give(target, line["uid"], line["gid"])
            os.ftruncate(self.file, line["size"])
            set_attributes(self.file, _attributes(line))
        elif stat.S_ISLNK(mode):
            os.symlink(line["link"], target)
            give(target, line["uid"], line["gid"])
            os.utime(target, ns=(line["time"], line["time"]), follow_symlinks=False)
        elif stat.S_ISFIFO(mode):
            os.mkfifo(target)
            give(target, line["uid"], line["gid"])
            os.chmod(target, kept_mode(mode))
            os.utime(target, ns=(line["time"], line["time"]))

    def _place_folder(self, path: str, target: str, parent: str, line: dict[str, Any]) -> None:
        there = _kind(target)
        hides = line["opaque"] or (there is not None and there != stat.S_IFDIR)
        if path and (there != stat.S_IFDIR or line["opaque"]):
            _remove(target)
            os.mkdir(target)
        in_base = self.base is not None and (not path or self.shows[parent]) and self._base_has_folder(path)
        hides = hides or _is_opaque(target)
        if in_base and hides:
            os.setxattr(target, OPAQUE, b"y")
        self.shows[path] = in_base and not hides
        _replace_attributes(target, _attributes(line))
        give(target, line["uid"], line["gid"])
        self.folders[path] = line["mode"], line["time"]

    def _base_has_folder(self, path: str) -> bool:
        """Its parent shows through, so nothing above it is a link."""
        return _kind(f"{self.base}/{path}") == stat.S_IFDIR

    def _content(self, at: int, length: int, stream: BinaryIO) -> None:
        self.bytes_left -= length
        if self.bytes_left < 0:
            raise SandboxLimitError("the box writes more than its disk can hold while it is copied")
        data = stream.read(length)
        if self.file >= 0 and at + length <= self.line["size"]:
            os.pwrite(self.file, data, at)

    def _close(self) -> None:
        """The file that came in is complete."""
        if self.file < 0:
            return
        file, self.file = self.file, -1
        try:
            os.fchmod(file, kept_mode(self.line["mode"]) | (0 if self.as_root else stat.S_IRUSR))
            os.utime(file, ns=(self.line["time"], self.line["time"]))
        finally:
            os.close(file)

    def _finish(self) -> None:
        self._close()
        for path, (mode, time_ns) in reversed(self.folders.items()):
            target = os.path.join(self.root, path).rstrip("/")
            if _kind(target) == stat.S_IFDIR and os.path.realpath(target) == target:  # it may have been replaced since
                os.chmod(target, kept_mode(mode) | (0 if self.as_root else stat.S_IRUSR | stat.S_IXUSR))
                os.utime(target, ns=(time_ns, time_ns))


def _attributes(line: dict[str, Any]) -> dict[str, bytes]:
    return {name: bytes.fromhex(value) for name, value in line.get("attributes", {}).items()}


def _replace_attributes(folder: str, attributes: dict[str, bytes]) -> None:
    """Of a folder that an older layer may have had others of."""
    for name in attributes_of(folder).keys() - attributes.keys():
        os.removexattr(folder, name)
    set_attributes(folder, attributes)


def _lines(stream: BinaryIO) -> Iterator[dict[str, Any]]:
    while data := stream.readline(LONGEST_LINE):
        if not data.endswith(b"\n"):
            return
        yield json.loads(data)


def _plain(parts: list[str]) -> bool:
    return not any(part in ("", ".", "..") or "\0" in part for part in parts)


def _kind(path: str) -> int | None:
    """The type of what is there, of a link the link's own; None if there is nothing."""
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_opaque(path: str) -> bool:
    return OPAQUE in os.listxattr(path, follow_symlinks=False)


def _remove(path: str) -> None:
    there = _kind(path)
    if there == stat.S_IFDIR:
        remove_tree(Path(path))
    elif there is not None:
        os.unlink(path)
