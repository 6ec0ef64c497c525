"""What a box without an image is shown of this machine: /usr, and an /etc that says nothing about it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
USER, UID = "user", 1000
HOME = f"/home/{USER}"
ETC = {
    "passwd": "\n".join(
        (
            "root:x:0:0:root:/root:/bin/sh",
            f"{USER}:x:{UID}:{UID}:{USER}:{HOME}:/bin/sh",
            "nobody:x:65534:65534::/:/bin/false",
            "",
        )
    ),
    "group": f"root:x:0:\n{USER}:x:{UID}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "hostname": "box\n",
    "resolv.conf": "",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
TOOLS = ("bin", "sbin", "lib", "lib64", "libexec", "include", "share", "src")
COPIED = "ld.so.cache ld.so.conf mime.types services protocols os-release debian_version localtime".split()  # noqa: SIM905
COPIED_TREES = "alternatives ssl/certs ssl/openssl.cnf ca-certificates fonts java ld.so.conf.d".split()  # noqa: SIM905
"""Of this machine's /etc, what programs need and what holds no secret."""


@cache
def etc_copies() -> tuple[list[str], dict[str, str]]:
    """(files of this machine's /etc to copy, name -> target of the links to make) for a box's /etc."""
    copies = [f"/etc/{name}" for name in COPIED]
    links: dict[str, str] = {}
    for tree in COPIED_TREES:
        for path in _files_of(Path("/etc", tree)):
            if path.is_symlink():
                links[str(path)] = os.readlink(path)
            else:
                copies.append(str(path))
    return copies, links


def _files_of(top: Path) -> list[Path]:
    if not top.is_dir():
        return [top] if top.exists() else []
    return [path for path in top.rglob("*") if path.is_symlink() or path.is_file()]


def root_links() -> dict[str, str]:
    """The links of a merged /usr; folders of an unmerged one are bound instead."""
    return {
        name: os.readlink(f"/{name}")
        for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
        if os.path.islink(f"/{name}")
    }


def root_folders() -> list[str]:
    """What is bound read-only: /usr, and /bin and the like where they are folders of their own."""
    return ["/usr", *(f"/{name}" for name in ("bin", "sbin", "lib", "lib64", "opt/python") if _is_folder(f"/{name}"))]


class Hidden(NamedTuple):
    """A folder that boxes see empty but for some of its own folders."""

    folder: str
    shown: tuple[str, ...]


def hidden_packages() -> list[Hidden]:
    """Where this process has its packages from, below what boxes are shown: an environment's answers are among them.

    Of a distribution's own packages (Debian's dist-packages) none is an environment; pip is what boxes need.
    """
    folders = [str(Path(__file__).resolve().parents[3]), *sys.path]
    with suppress(FileNotFoundError):
        folders.append(os.getcwd())
    return _hidden(tuple(folders))


@lru_cache(maxsize=8)
def _hidden(own: tuple[str, ...]) -> list[Hidden]:
    shown = tuple(f"{folder}/" for folder in root_folders())
    real = {os.path.realpath(path) for path in own if path}
    folders = sorted(
        path for path in real if path.startswith(shown) and os.path.isdir(path) and not _is_toolchain(path)
    )
    outermost = [path for path in folders if not any(path.startswith(f"{other}/") for other in folders)]
    return [Hidden(path, tuple(name for name in ("pip",) if os.path.isdir(f"{path}/{name}"))) for path in outermost]


def _is_toolchain(path: str) -> bool:
    """Whether `path` is part of what programs need, or holds such a part."""
    if path.endswith("-packages"):
        return path == "/usr/lib/python3/dist-packages"
    parts = {sysconfig.get_path("stdlib"), *(f"{top}/{name}" for top in ("/usr", "/usr/local") for name in TOOLS)}
    return any(path == part or part.startswith(f"{path}/") for part in parts) or path.startswith(
        f"{sysconfig.get_path('stdlib')}/"
    )


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


@cache
def can_reset_signals() -> bool:
    """Whether this machine's `env` can undo a shell's ignoring of interrupts (coreutils 8.31)."""
    argv = ["/usr/bin/env", "--default-signal=INT,QUIT", "/bin/true"]
    return os.access(argv[0], os.X_OK) and subprocess.run(argv, capture_output=True, check=False).returncode == 0
