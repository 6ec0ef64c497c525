"""`unsafe-local`: commands run on this machine with no isolation at all. Never taken unless asked for by this name.

It exists for machines that allow no isolation and code that is trusted anyway. Only the clean environment, time-outs,
output caps and the clean-up of processes and files hold; limits and the network policy cannot.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path

from verifiers.errors import SandboxLostError, SandboxPolicyError
from verifiers.sandboxes.agent import source
from verifiers.sandboxes.base import BoxInfo, SandboxSpec
from verifiers.sandboxes.box import AgentSandbox, greet
from verifiers.sandboxes.mounts import refuse
from verifiers.sandboxes.owner import RUN, Owner, current_owner
from verifiers.sandboxes.wire import Wire

log = logging.getLogger("verifiers.sandboxes")
PREFIX = "vf-unsafe-"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class UnsafeLocalBackend:
    """Boxes that are a temporary folder and a process group. The folder's name says who owns it."""

    async def probe(self) -> str | None:
        return None

    async def start(self, spec: SandboxSpec) -> UnsafeSandbox:
        """A box whose `workdir` is moved below a temporary folder; other absolute paths are this machine's."""
        _warn_once()
        if spec.image is not None or spec.rootfs is not None or spec.user is not None:
            raise SandboxPolicyError("unsafe-local has no image, rootfs or user; ask for 'local' or 'docker'")
        if spec.network == "allowlist":
            raise SandboxPolicyError("unsafe-local cannot restrict the network; ask for network='full'")
        refuse(spec, "unsafe-local")
        name = uuid.uuid4().hex[:12]
        folder = tempfile.mkdtemp(prefix=f"{PREFIX}{current_owner()}-{RUN}-", suffix=f"-{name}")
        spec = dataclasses.replace(spec, workdir=folder + spec.workdir)
        try:
            return await _start_agent(name, folder, spec)
        except BaseException:
            _remove(folder)
            raise

    async def ls(self) -> list[BoxInfo]:
        return [info for info, _ in _boxes()]

    async def prune(self) -> list[BoxInfo]:
        removed = [(info, folder) for info, folder in _boxes() if not info.owner_alive]
        for _, folder in removed:
            await asyncio.to_thread(_remove, str(folder))
        return [info for info, _ in removed]

    async def close(self) -> None:
        pass


class UnsafeSandbox(AgentSandbox):
    """Runs on this machine as this user."""


async def _start_agent(name: str, folder: str, spec: SandboxSpec) -> UnsafeSandbox:
    env = {"PATH": PATH, "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", source(), stdin=-1, stdout=-1, env=env, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    wire = Wire(process.stdin.write)
    pumping = asyncio.ensure_future(_pump(process.stdout, wire))

    async def end() -> None:
        for pid in _descendants(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await process.wait()
        await pumping
        await asyncio.to_thread(_remove, folder)

    try:
        await greet(wire, spec, owns_pid_1=False)
    except BaseException:
        await end()
        raise
    return UnsafeSandbox(backend="unsafe-local", id=name, spec=spec, wire=wire, end=end)


def _remove(folder: str) -> None:
    """However deep commands have made it, where Python's own removal runs out of stack."""
    subprocess.run(["rm", "-rf", "--", folder], check=False, capture_output=True)


async def _pump(stdout: asyncio.StreamReader, wire: Wire) -> None:
    while data := await stdout.read(1 << 18):
        wire.feed(data)
    wire.lose(SandboxLostError("the agent of an unsafe-local box died"))


def _descendants(root: int) -> list[int]:
    """`root` and all below it; the agent adopts orphans, so what it started is below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def _boxes() -> list[tuple[BoxInfo, Path]]:
    boxes = []
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        owner_text, _, rest = folder.name.removeprefix(PREFIX).rpartition("-")[0].rpartition("-")[0].rpartition("-")
        owner = Owner.parse(owner_text)
        if owner is not None:
            info = BoxInfo(folder.name.rpartition("-")[2], "unsafe-local", "running", rest, owner.alive)
            boxes.append((info, folder))
    return boxes


@cache
def _warn_once() -> None:
    log.warning("sandbox backend 'unsafe-local' runs commands on this machine as this user, with no isolation")
