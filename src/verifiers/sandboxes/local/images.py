"""Unpacked images of the local backend: a content-addressed cache, one folder per image with its root and its settings.

Built once, never changed: boxes put their own writable layer on top. As root, files belong to the shifted ids boxes
have; for anyone else, to this user.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from verifiers.errors import ConfigError
from verifiers.places import cache_folder
from verifiers.sandboxes.local import holds
from verifiers.sandboxes.local.keeper import FIRST_ID
from verifiers.sandboxes.local.trees import Settings, give, remove_tree
from verifiers.sandboxes.owner import Owner

UNPACKING = ".unpack-"
NEW_S = 60.0
"""How old a folder for what is being made is at least that nobody holds because its maker is gone."""
REMOVING_S = 3600.0
"""No removal takes longer."""
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
    engine_id: str = ""
    """The container engine's own id of the image this one was exported from, '' for any other."""
    snapshot_of: str = ""
    """The box whose files these are, '' for an image that is no snapshot."""
    base: str = ""
    """Digest of the image a snapshot lies over; '' if its files are all there is."""
    host_tools: bool = False
    """Whether boxes of it are shown this machine's /usr, as the box it was taken of."""
    owner: str = ""
    """The process a temporary snapshot is gone with, '' for what stays until it is removed."""
    aliases: list[str] = field(default_factory=list[str])
    """Its names besides `name`, which is the one given last."""

    @property
    def names(self) -> list[str]:
        return [name for name in (self.name, *self.aliases) if name]

    def renamed(self, names: Iterable[str]) -> Image:
        name, *aliases = [*names] or [""]
        return replace(self, name=name, aliases=aliases)


def image_folder() -> Path:
    """Where this user's images are kept. Follows XDG_CACHE_HOME."""
    return cache_folder("images")


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
        found = [_read(path) for path in self.folder.glob("[!.]*/image.json")]
        return sorted(filter(None, found), key=lambda image: image.created)

    def get(self, digest: str) -> Image | None:
        return _read(self.folder / digest / "image.json")

    def find(self, name: str) -> Image | None:
        """The newest image of that name, or the one whose digest begins with it."""
        images = self.all()
        named = [image for image in images if name in image.names]
        return named[-1] if named else next((i for i in images if len(name) >= 6 and i.digest.startswith(name)), None)

    def add(self, source: Path, *, name: str = "", env: dict[str, str] | None = None, user: str = "") -> Image:
        """The image made from a root folder, a tar of one, an OCI layout (folder or tar); the cached one if unchanged.

        Raises:
            ConfigError: `source` is none of these.
        """
        if not source.exists():
            raise ConfigError(f"image source {str(source)!r} does not exist")
        if not (source.is_dir() or source.is_file()):  # reading a device or FIFO may never end
            raise ConfigError(f"image source {str(source)!r} is neither a folder nor a file")
        from verifiers.sandboxes.local.unpack import unpack  # the formats; not needed to run a box

        digest = digest_of(source)
        if env or user:  # the same files with other settings are another image
            digest = digest_of_text(f"{digest} {sorted((env or {}).items())} {user}")
        image = Image(digest, name or str(source), str(source), env or {}, user)
        made = self.make(image, lambda root: unpack(source, root))
        return self.name(made, name) if name else made

    def make(self, image: Image, fill: Callable[[Path], Settings]) -> Image:
        """`image` with the root that `fill` makes of an empty folder, unless its digest is here already.

        What `fill` says of environment and user is added where `image` says nothing.
        """
        with self._locked(image.digest):
            known = self.get(image.digest)
            if known is None:
                self._clear(image.digest)
                known = self._fill(image, fill)
        return known

    def _clear(self, digest: str) -> None:
        """Remove what is left of a damaged image."""
        if (self.folder / digest).exists():
            gone = holds.take_away(self.folder / digest)
            if gone is None:
                raise ConfigError(f"image {digest!r} is damaged, and in use by a running process")
            remove_tree(gone)

    def _fill(self, image: Image, fill: Callable[[Path], Settings]) -> Image:
        with self.staging() as staging:
            root = staging / "root"
            root.mkdir()
            root.chmod(0o755)
            give(root, 0, 0)
            settings = fill(root)
            image = replace(
                image,
                env={"PATH": PATH, **settings.env, **image.env},
                user=image.user or settings.user,
                size=tree_size(root),
                created=time.time(),
            )
            _write_json(staging / "image.json", asdict(image))
            os.chmod(staging, 0o755)
            os.replace(staging, self.folder / image.digest)
        return image

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """A folder beside the images for what is being made; removed at the end unless it was moved.

        It is held meanwhile, so `prune` tells it from what a killed process left.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=UNPACKING, dir=self.folder))
        held = holds.hold(folder)
        try:
            yield folder
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                error.filename, error.filename2 = str(self.folder), None  # whichever file it was, of many
            raise
        finally:
            if folder.exists():
                remove_tree(folder)
            os.close(held)

    def name(self, image: Image, name: str) -> Image:
        """`image` under `name` too, which another image of that name loses."""
        with self._locked("names"):
            for other in self.all():
                if name in other.names and other.digest != image.digest:
                    self._rename(other, [each for each in other.names if each != name])
            image = self.get(image.digest) or image  # another process may have named it meanwhile
            if name in image.names:
                return image
            return self._rename(image, [name, *(each for each in image.names if each != image.source)])

    def forget(self, image: Image, name: str) -> Image:
        """`image` without that one of its names."""
        with self._locked("names"):
            image = self.get(image.digest) or image
            return self._rename(image, [each for each in image.names if each != name])

    def _rename(self, image: Image, names: Iterable[str]) -> Image:
        image = image.renamed(names)
        _write_json(self.folder / image.digest / "image.json", asdict(image))
        return image

    def hold(self, digest: str) -> int:
        """A descriptor; until it is closed, also by this process's death, nobody removes the image.

        Raises:
            FileNotFoundError: it is gone.
        """
        return holds.hold(self.folder / digest)

    def remove(self, image: Image) -> None:
        """No error if another process was faster.

        Raises:
            ConfigError: a running box or a snapshot needs it.
        """
        above = [other for other in self.all() if other.base == image.digest]
        if above:
            raise ConfigError(f"image {image.name or image.digest!r} lies below snapshot {above[0].name!r}")
        with suppress(FileNotFoundError):
            gone = holds.take_away(self.folder / image.digest)
            if gone is None:
                raise ConfigError(f"image {image.name or image.digest!r} is in use by a running process")
            remove_tree(gone)

    def prune(self, *, keep: Callable[[Image], bool]) -> list[Image]:
        """Remove the images `keep` says no to that nothing needs, and what was left half made; the ones removed.

        A temporary snapshot stays exactly as long as its process.
        """
        removed: list[Image] = []
        for image in sorted(self.all(), key=lambda image: image.base == ""):
            if not (owner_alive(image) if image.owner else keep(image)):
                with suppress(ConfigError):
                    self.remove(image)
                    removed.append(image)
        for path in self.folder.glob("[!.]*"):
            if path.is_dir() and _read(path / "image.json") is None:
                with suppress(ConfigError, FileNotFoundError):
                    self._clear(path.name)
        self._sweep()
        return removed

    def _sweep(self) -> None:
        """Remove what killed processes were making or removing."""
        for left in self.folder.glob(f"{UNPACKING}*"):
            with suppress(FileNotFoundError):
                gone = holds.take_away(left) if _age_s(left) > NEW_S else None
                if gone is not None:
                    remove_tree(gone)
        for left in self.folder.glob(f"{holds.REMOVED}*"):
            with suppress(FileNotFoundError):
                if _age_s(left) > REMOVING_S:
                    remove_tree(left)

    @contextmanager
    def _locked(self, digest: str) -> Iterator[None]:
        """One process unpacks the image, or gives names, others wait for it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / f".lock-{digest[:2]}", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _age_s(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def _read(path: Path) -> Image | None:
    """What an `image.json` says, of which other versions of this library may know more; None if gone or damaged."""
    try:
        values = json.loads(path.read_text())
        return Image(**{key: values[key] for key in Image.__dataclass_fields__ if key in values})
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
        return None


def _write_json(path: Path, values: dict[str, object]) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(values, indent=1))
    os.replace(temporary, path)


def owner_alive(image: Image) -> bool:
    """Whether the process of a temporary snapshot still runs."""
    owner = Owner.parse(image.owner)
    return owner is not None and owner.alive


def tree_size(root: Path) -> int:
    """Bytes on disk of all files below `root`."""
    return sum(
        Path(folder, name).lstat().st_blocks * 512
        for folder, folders, files in os.walk(root)
        for name in folders + files
    )


def digest_of_text(text: str) -> str:
    return hashlib.sha256((b"1" if os.geteuid() == 0 else b"2") + text.encode()).hexdigest()[:16]


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
