"""The Python that boxes run their agent with, carried into them: an image needs none of its own.

It is this machine's, with its loader and libraries, so it runs below any root file system and uses nothing of it.
Packed once for each Python and agent, and kept below `~/.cache/verifiers/agents`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from verifiers.errors import SandboxStartError
from verifiers.places import cache_folder
from verifiers.sandboxes import agent
from verifiers.sandboxes.base import Sandbox

PLACE = "/dev/.agent"
"""Where boxes have it: in a folder that is made anew for each box, so that nothing of it stays in what they write."""
LOADER = (f"{PLACE}/ld.so", "--library-path", f"{PLACE}/so")
PYTHON = (*LOADER, f"{PLACE}/bin/python3", "-I", "-S", "-X", "utf8")
"""How it is run in a box."""
ARGV: Sequence[str] = (*PYTHON, f"{PLACE}/agent.pyc")
"""The agent's command line in a box."""
SCRIPT = f"""#!/bin/sh
unset LD_AUDIT LD_DEBUG LD_LIBRARY_PATH LD_PRELOAD
exec {" ".join(PYTHON)} "$@"
"""
"""For commands in a box that want one program to call."""
PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")
"""Taken before the Python of this process, which may be large, or a link into somebody's home."""
PACK = Path(__file__).parent / "pack.py"
LAST = "complete"
"""The name of the last file in the tar."""
PACK_TIMEOUT_S = 60.0
MAKING_S = 3600.0
"""No packing takes longer."""


def is_loader_setting(name: str) -> bool:
    """Whether an environment variable changes what a loader does: it must not reach the one that is carried."""
    return name.startswith("LD_") or name == "GLIBC_TUNABLES"


def key_of(*parts: str) -> str:
    """What a packed Python is kept by: `parts` tell which it is."""
    return hashlib.sha256("\0".join([*parts, PACK.read_text(), agent.source()]).encode()).hexdigest()[:16]


def kept(key: str) -> Path:
    """Where its tar is kept. Follows XDG_CACHE_HOME."""
    return cache_folder("agents", f"{key}.tar")


def packed() -> Path:
    """The tar of this machine's.

    Raises:
        SandboxStartError: no Python of this machine can be packed.
    """
    reasons = []
    for python in [*(path for path in PYTHONS if os.access(path, os.X_OK)), sys.executable]:
        found = os.stat(python)
        tar = kept(key_of(os.path.realpath(python), str(found.st_size), str(found.st_mtime_ns)))
        if tar.exists() or (reason := _pack(python, tar)) is None:
            return tar
        reasons.append(f"{python}: {reason}")
    raise SandboxStartError(f"no Python here can be carried into boxes; install Python >= 3.8. {'; '.join(reasons)}")


def sweep() -> None:
    """Remove what killed processes had half packed or unpacked."""
    for left in kept("").parent.glob(".*pack-*"):
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > MAKING_S:
                shutil.rmtree(left, ignore_errors=True)


def _pack(python: str, tar: Path) -> str | None:
    """Make `tar` out of `python`; why that failed."""
    tar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pack-", dir=tar.parent) as folder:
        source = Path(folder, "agent.py")
        source.write_text(agent.source())
        argv = [python, "-I", "-S", str(PACK), f"{folder}/tar", str(source)]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=PACK_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode != 0:
            return done.stderr.strip().rpartition("\n")[2]
        os.replace(f"{folder}/tar", tar)
    return None


async def pack_in(box: Sandbox, tar: Path) -> None:
    """Make `tar` out of the `python3` that `box` has itself.

    Raises:
        SandboxStartError: it cannot be packed.
    """
    await box.write("pack.py", PACK.read_text())
    await box.write("agent.py", agent.source())
    done = await box.exec(["python3", "-I", "-S", "pack.py", "tar", "agent.py"], timeout_s=PACK_TIMEOUT_S)
    if not done.ok:
        raise SandboxStartError(f"the image's python3 cannot be carried into boxes: {done.stderr[-1000:]}")
    tar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pack-", dir=tar.parent) as folder:
        await box.download("tar", Path(folder, "tar"))
        os.replace(f"{folder}/tar", tar)


def unpacked() -> Path:
    """The folder of this machine's; raises as `packed` does."""
    return _unpack(packed())


@cache
def _unpack(tar: Path) -> Path:
    folder = tar.with_suffix("")
    if not folder.exists():
        with tempfile.TemporaryDirectory(prefix=".unpack-", dir=tar.parent) as temporary:
            inner = Path(temporary, "tree")
            try:
                _extract(tar, inner)
            except (tarfile.TarError, EOFError) as error:
                tar.unlink(missing_ok=True)
                raise SandboxStartError(
                    f"{tar} was damaged ({error}) and is removed; the next start makes it anew"
                ) from error
            with suppress(OSError):  # another process was faster
                os.rename(inner, folder)
    return folder


def _extract(tar: Path, top: Path) -> None:
    """Our own tar, whatever this process's umask: boxes have other users."""
    top.mkdir()
    top.chmod(0o755)
    with tarfile.open(tar) as archive:
        for entry in archive:
            path = top / entry.name
            if entry.issym():
                path.symlink_to(entry.linkname)
                continue
            content = archive.extractfile(entry)
            if content is None:
                path.mkdir()
            else:
                path.write_bytes(content.read())
            path.chmod(entry.mode)
