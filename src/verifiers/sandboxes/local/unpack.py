"""The formats images come in, unpacked: root folders, tars of them, OCI layouts and `docker save` files.

OCI image spec: https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md and layer.md (whiteouts).
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import stat
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from verifiers.errors import ConfigError
from verifiers.sandboxes.local.keeper.attributes import attributes_of, set_attributes
from verifiers.sandboxes.local.trees import Settings, give, remove_tree

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
PAX = "SCHILY.xattr."
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def unpack(source: Path, root: Path) -> Settings:
    """Fill the empty folder `root` from `source`; `ConfigError` if that is no image."""
    if source.is_dir():
        if (source / "oci-layout").exists() or (source / "index.json").exists():
            return _unpack_oci(source, root)
        _copy_tree(source, root)
        return Settings()
    try:
        with tarfile.open(source) as archive:
            first = {archive_name(member) for _, member in zip(range(16), archive, strict=False)}
    except tarfile.TarError as error:
        raise ConfigError(f"{source} is neither a folder nor a tar file") from error
    if first & {"oci-layout", "index.json", "manifest.json", "blobs"}:
        beside = root.parent  # where the image is to be there is room, and what a killed process leaves is removed
        with tempfile.TemporaryDirectory(prefix=".oci-", dir=beside) as folder, tarfile.open(source) as archive:
            _extract(archive, Path(folder))
            return _unpack_oci(Path(folder), root)
    with tarfile.open(source) as archive:
        _extract(archive, root)
    return Settings()


def archive_name(member: tarfile.TarInfo) -> str:
    return os.path.normpath(member.name).split("/")[0]


def _copy_tree(source: Path, root: Path) -> None:
    _copy_entry(source, root)
    for folder, folders, files in os.walk(source):
        for name in sorted(folders) + files:
            path = Path(folder, name)
            _copy_entry(path, root / path.relative_to(source))


def _copy_entry(path: Path, target: Path) -> None:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(path), target)
    elif stat.S_ISDIR(found.st_mode):
        target.mkdir(exist_ok=True)
    elif stat.S_ISREG(found.st_mode):
        shutil.copyfile(path, target)
    else:
        return  # devices and sockets mean nothing in a box
    if not stat.S_ISLNK(found.st_mode):
        set_attributes(str(target), attributes_of(str(path)))
    give(target, found.st_uid, found.st_gid)
    if not stat.S_ISLNK(found.st_mode):
        os.chmod(target, kept_mode(found.st_mode))
    os.utime(target, ns=(found.st_mtime_ns, found.st_mtime_ns), follow_symlinks=False)


def _extract(archive: tarfile.TarFile, root: Path) -> None:
    """Every entry of a layer, whiteouts applied; entries that point out of `root` are refused."""
    root = Path(os.path.realpath(root))
    folders: list[tuple[Path, tarfile.TarInfo]] = []
    for entry in archive:
        target = _target(entry.name, root)
        if target.name.startswith(WHITEOUT):
            _white_out(target.parent, target.name)
        elif entry.isdir():
            if target.is_symlink() or (target.exists() and not target.is_dir()):
                target.unlink()
            target.mkdir(exist_ok=True)
            set_attributes(str(target), _attributes(entry))
            give(target, entry.uid, entry.gid)
            folders.append((target, entry))
        elif not entry.isdev():  # devices mean nothing in a box
            _extract_file(archive, entry, target, root)
    for path, entry in reversed(folders):
        if path.is_dir() and os.path.realpath(path) == str(path):  # no later entry put a link above it
            os.chmod(path, kept_mode(entry.mode or 0o755) | stat.S_IRWXU)
            os.utime(path, (entry.mtime, entry.mtime))


def _extract_file(archive: tarfile.TarFile, entry: tarfile.TarInfo, target: Path, root: Path) -> None:
    if target == root:
        raise ConfigError(f"refused an image: {entry.name!r} is no folder")
    if target.is_dir() and not target.is_symlink():
        remove_tree(target)
    elif target.is_symlink() or target.exists():
        target.unlink()
    if entry.islnk():
        source = _target(entry.linkname, root)
        if not os.path.lexists(source) or (source.is_dir() and not source.is_symlink()):
            raise ConfigError(
                f"refused an image: {entry.name!r} is a hard link to {entry.linkname!r}, not in the image"
            )
        os.link(source, target, follow_symlinks=False)
        return
    if entry.issym():
        os.symlink(entry.linkname, target)
    else:
        content = archive.extractfile(entry)
        assert content is not None
        with content, target.open("xb") as file:
            shutil.copyfileobj(content, file, 1 << 20)
            set_attributes(file.fileno(), _attributes(entry))
    give(target, entry.uid, entry.gid)
    if not entry.issym():
        os.chmod(target, kept_mode(entry.mode or 0o644) | stat.S_IRUSR)
    os.utime(target, (entry.mtime, entry.mtime), follow_symlinks=False)


def _attributes(entry: tarfile.TarInfo) -> dict[str, bytes]:
    """The extended attributes an entry has by the pax headers that GNU tar, Docker and libarchive write."""
    return {
        name.removeprefix(PAX): value.encode("utf-8", "surrogateescape")
        for name, value in entry.pax_headers.items()
        if name.startswith(PAX)
    }


def _target(name: str, root: Path) -> Path:
    """Where an entry goes, with the folders above it made; `ConfigError` if that is not below `root`."""
    path = os.path.normpath(name.lstrip("/"))
    if path == ".":
        return root
    target = root / path
    parent = os.path.realpath(target.parent)
    if path.split("/")[0] == ".." or not f"{parent}/".startswith(f"{root}/"):
        raise ConfigError(f"refused an image: {name!r} leads out of it")
    missing = target.parent
    while not missing.exists():
        missing = missing.parent
    for part in target.parent.relative_to(missing).parts:
        missing /= part
        missing.mkdir()
        missing.chmod(0o755)
        give(missing, 0, 0)
    return target


def kept_mode(mode: int) -> int:
    """As ids of files: an ordinary user's images hold no program that gives others this user's rights."""
    return mode & (0o7777 if os.geteuid() == 0 else 0o1777)


def _white_out(folder: Path, name: str) -> None:
    if name.removeprefix(WHITEOUT) in ("", ".", ".."):
        raise ConfigError(f"refused an image: {name!r} removes nothing in its folder")
    gone = list(folder.iterdir()) if name == OPAQUE and folder.is_dir() else [folder / name.removeprefix(WHITEOUT)]
    for path in gone:
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
        elif path.is_symlink() or path.exists():
            path.unlink()


def _unpack_oci(layout: Path, root: Path) -> Settings:
    if (layout / "index.json").exists():
        manifest = _manifest(layout, _json(layout, "index.json"))
        layers = [_blob(layer["digest"]) for layer in manifest["layers"]]
        config = _json(layout, _blob(manifest["config"]["digest"]))
    else:  # what `docker save` wrote before Docker 25
        manifest = _json(layout, "manifest.json")[0]
        layers, config = manifest["Layers"], _json(layout, manifest["Config"])
    for layer in layers:
        with tarfile.open(_inside(layout, layer)) as archive:
            _extract(archive, root)
    settings = config.get("config") or {}
    env = dict(entry.partition("=")[::2] for entry in settings.get("Env") or [])
    return Settings(env, settings.get("User") or "")


def _manifest(layout: Path, index: dict[str, Any]) -> dict[str, Any]:
    """The image manifest for this machine, through nested indexes."""
    wanted = ARCHITECTURES.get(platform.machine(), platform.machine())
    entries = index.get("manifests") or []
    fitting = [entry for entry in entries if entry.get("platform", {}).get("architecture", wanted) == wanted]
    if not fitting:
        raise ConfigError(f"the OCI layout at {layout} has no image for {wanted}")
    content = _json(layout, _blob(fitting[0]["digest"]))
    return _manifest(layout, content) if "manifests" in content else content


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _json(layout: Path, name: str) -> Any:
    return json.loads(_inside(layout, name).read_text())


def _inside(layout: Path, name: str) -> Path:
    """A file of the layout, whatever names and links in it say."""
    path, top = os.path.realpath(layout / name), os.path.realpath(layout)
    if not path.startswith(f"{top}/") or not os.path.isfile(path):
        raise ConfigError(f"the image at {layout} has no file {name!r}")
    return Path(path)
