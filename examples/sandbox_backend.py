"""A sandbox backend of your own: the shipped agent does the work, you start and end a place for it to run in.

This one uses util-linux's `unshare`: processes and network of its own, but the files of this machine, and no limits.
Register a class like it under the entry point group `verifiers.sandboxes`, and `start_sandbox("unshare")` finds it.
"""

import asyncio
import dataclasses
import shutil
import sys
import tempfile
import uuid

from verifiers.errors import SandboxLostError, SandboxPolicyError
from verifiers.sandboxes import BoxInfo, SandboxSpec, start_sandbox
from verifiers.sandboxes.agent import source
from verifiers.sandboxes.box import AgentSandbox, greet
from verifiers.sandboxes.wire import Wire

LOOPBACK_UP = r"""
import fcntl, socket
fcntl.ioctl(socket.socket(), 0x8914, b"lo".ljust(16, b"\0") + b"\1".ljust(24, b"\0"))
"""
UNSHARE = "unshare --user --map-root-user --pid --net --ipc --fork --kill-child --mount-proc"


class UnshareBackend:
    def __init__(self) -> None:
        self.boxes: dict[str, AgentSandbox] = {}

    async def probe(self) -> str | None:
        return None if shutil.which("unshare") else "util-linux is not installed"

    async def start(self, spec: SandboxSpec) -> AgentSandbox:
        if spec.image or spec.rootfs or spec.network == "full":
            raise SandboxPolicyError("unshare boxes have this machine's files and no network")
        folder, name = tempfile.mkdtemp(prefix="unshare-"), uuid.uuid4().hex[:12]
        spec = dataclasses.replace(spec, workdir=folder + spec.workdir)
        argv = [*UNSHARE.split(), sys.executable, "-I", "-S", "-c", LOOPBACK_UP + source()]
        process = await asyncio.create_subprocess_exec(*argv, stdin=-1, stdout=-1, env={"PATH": "/usr/bin:/bin"})
        wire = Wire(process.stdin.write)

        async def pump() -> None:
            while data := await process.stdout.read(1 << 18):
                wire.feed(data)
            wire.lose(SandboxLostError(f"box {name} ended"))

        async def end() -> None:
            self.boxes.pop(name, None)
            process.stdin.close()  # the agent is process 1: when it ends, the kernel ends the rest
            await process.wait()
            await pumping
            shutil.rmtree(folder, ignore_errors=True)

        pumping = asyncio.ensure_future(pump())
        try:
            await greet(wire, spec, owns_pid_1=True)
        except BaseException:
            await end()
            raise
        self.boxes[name] = AgentSandbox(backend="unshare", id=name, spec=spec, wire=wire, end=end)
        return self.boxes[name]

    async def ls(self) -> list[BoxInfo]:
        return [BoxInfo(name, "unshare", "running", "", owner_alive=True) for name in self.boxes]

    async def prune(self) -> list[BoxInfo]:
        return []  # `--kill-child` and the closed pipe leave nothing behind

    async def close(self) -> None:
        for box in list(self.boxes.values()):
            await box.stop()


async def main() -> None:
    async with start_sandbox(UnshareBackend()) as box:
        print((await box.exec("echo process $$ of a box; id -un")).stdout)


if __name__ == "__main__":
    asyncio.run(main())
