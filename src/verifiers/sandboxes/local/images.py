"""Unpacked images of the local backend: a content-addressed cache, one folder per image with its root and its settings.

Built once, never changed: boxes put their own writable layer on top. As root, files belong to the shifted ids boxes
have; for anyone else, to this user.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from verifiers.errors import ConfigError
from verifiers.sandboxes.local.keeper import FIRST_ID, ID_COUNT

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    """One unpacked image."""

    digest: str
    """16 hex digits over the source it was made from."""
    name: str
    source: str
    env: dict[str, str] = field(default_factory=dict[str, str])
    user: str = ""
    """Whom the image says commands run as; '' for root."""
    size: int = 0
    """Bytes of its files."""
    created: float = 0.0
    """Seconds since the epoch."""


def image_folder() -> Path:
    """Where this user's images are kept. Follows XDG_CACHE_HOME."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "verifiers", "images")


def shift() -> int:
    """What is added to the ids of an image's files."""
    return FIRST_ID if os.geteuid() == 0 else 0


class ImageStore:
    """The images below one folder. Several processes may use it at once."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or image_folder()

    def root(self, image: Image) -> Path:
        return self.folder / image.digest / "root"

    def all(self) -> list[Image]:
        images = [_read(path) for path in sorted(self.folder.glob("*/image.json"))]
        return sorted(images, key=lambda image: image.created)

    def find(self, name: str) -> Image | None:
        """The newest image of that name, or the one whose digest begins with it."""
        images = self.all()
        named = [image for image in images if image.name == name]
        return named[-1] if named else next((i for i in images if len(name) >= 6 and i.digest.startswith(name)), None)

    def add(self, source: Path, *, name: str = "", env: dict[str, str] | None = None, user: str = "") -> Image:
        """The image made from a root folder, a tar of one, an OCI layout (folder or tar); the cached one if unchanged.

        Raises:
            ConfigError: `source` is none of these.
        """
        if not source.exists():
            raise ConfigError(f"image source {str(source)!r} does not exist")
        digest = digest_of(source)
        known = self.folder / digest / "image.json"
        with self._locked(digest):
            if not known.exists():
                self._unpack(source, digest, name or str(source), env or {}, user)
        image = _read(known)
        if name and image.name != name:
            image = Image(**{**asdict(image), "name": name})
            _write_json(known, asdict(image))
        return image

    def _unpack(self, source: Path, digest: str, name: str, env: dict[str, str], user: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".unpack-", dir=self.folder))
        try:
            root = staging / "root"
            root.mkdir()
            os.chown(root, *_owner(0, 0))
            from verifiers.sandboxes.local.unpack import unpack  # the formats; not needed to run a box

            settings = unpack(source, root)
            image = Image(
                digest=digest,
                name=name,
                source=str(source),
                env={"PATH": PATH, **settings.env, **env},
                user=user or settings.user,
                size=sum(path.lstat().st_size for path in root.rglob("*")),
                created=time.time(),
            )
            _write_json(staging / "image.json", asdict(image))
            os.chmod(staging, 0o755)
            os.replace(staging, self.folder / digest)
        except BaseException:
            remove_tree(staging)
            raise

    def remove(self, image: Image) -> None:
        remove_tree(self.folder / image.digest)

    def prune(self, *, keep: Callable[[Image], bool]) -> list[Image]:
        """Remove the images `keep` says no to, and what interrupted unpacking left; the ones removed."""
        removed = [image for image in self.all() if not keep(image)]
        for image in removed:
            self.remove(image)
        for staging in self.folder.glob(".unpack-*"):
            if time.time() - staging.stat().st_mtime > 3600:
                remove_tree(staging)
        return removed

    @contextmanager
    def _locked(self, digest: str) -> Iterator[None]:
        """One process unpacks, others wait for it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / f".lock-{digest[:2]}", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _read(path: Path) -> Image:
    """What an `image.json` says; other versions of this library may have written more."""
    values = json.loads(path.read_text())
    return Image(**{key: values[key] for key in Image.__dataclass_fields__ if key in values})


def _write_json(path: Path, values: dict[str, object]) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(values, indent=1))
    os.replace(temporary, path)


def _owner(uid: int, gid: int) -> tuple[int, int]:
    """The ids on disk of a file that is `uid`'s in the image."""
    if os.geteuid() != 0:
        return -1, -1
    return FIRST_ID + min(uid, ID_COUNT - 1), FIRST_ID + min(gid, ID_COUNT - 1)


def give(path: str | Path, uid: int, gid: int) -> None:
    """Make `path`, not what it links to, `uid`'s in the image."""
    if os.geteuid() == 0:
        os.lchown(path, *_owner(uid, gid))


def digest_of(source: Path) -> str:
    """Of a tar its bytes; of a folder every path, type, mode, size and time, so that a changed tree is a new image."""
    sum_ = hashlib.sha256(b"1" if os.geteuid() == 0 else b"2")
    if source.is_file():
        with source.open("rb") as file:
            while chunk := file.read(1 << 20):
                sum_.update(chunk)
    else:
        for path in sorted(source.rglob("*")):
            found = path.lstat()
            sum_.update(f"{path.relative_to(source)}\0{found.st_mode}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return sum_.hexdigest()[:16]


def remove_tree(path: Path) -> None:
    """Also folders nobody may write to, which images have."""

    def make_writable(function: Callable[..., object], name: str, _: object) -> None:
        os.chmod(os.path.dirname(name), 0o700)
        function(name)

    shutil.rmtree(path, onerror=make_writable)
