"""The docker backend on Podman: the shipped suites, apart from what docs/sandbox-engines.md says is different there.

`.ci/docker-up` makes the image, `eval "$(.ci/podman-up)"` starts a Podman of its own. CI fails without one and does not
skip.
"""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import needs
from verifiers.errors import SandboxLimitError, SandboxPolicyError
from verifiers.sandboxes import Sandbox
from verifiers.sandboxes.docker import DockerBackend
from verifiers.sandboxes.docker.engine import engine_address
from verifiers.testing.allowlist import AllowListConformance
from verifiers.testing.isolation import IsolationConformance
from verifiers.testing.sandboxes import SandboxConformance
from verifiers.testing.snapshots import SnapshotConformance
from waiting import until

HOST = os.environ.get("VF_TEST_PODMAN_HOST", "unix:///var/tmp/vf-podman/podman.sock")
IMAGE = os.environ.get("VF_TEST_PODMAN_IMAGE", "localhost/verifiers-test:bookworm")
ENGINE = DockerBackend(address=engine_address({"DOCKER_HOST": HOST}), default_image=IMAGE)

pytestmark = needs.PODMAN


class TestPodman(SandboxConformance):
    backend = ENGINE


class TestPodmanSnapshots(SnapshotConformance):
    backend = ENGINE


class TestPodmanIsolation(IsolationConformance):
    backend = ENGINE
    at_once = 32
    """200 take a minute and a half here."""

    async def test_device_folders_cannot_be_filled(self, box: Sandbox) -> None:
        """They can, up to what the box's memory is counted for."""
        filled = await box.exec("head -c 200000000 /dev/zero >/dev/fill; wc -c </dev/fill")

        assert int(filled.stdout) <= 64 << 20
        assert (await box.exec("rm /dev/fill; echo alive")).stdout == "alive\n"

    async def test_files_larger_than_the_disk_do_not_come_out(self, box: Sandbox, tmp_path: Path) -> None:
        """Holes count as written, so that the box may end before its files are asked for."""

        async def take() -> None:
            await box.exec("mkdir holes; for n in 1 2 3; do truncate -s 32M holes/$n; done")
            await box.download("holes", tmp_path / "copy")

        with pytest.raises((SandboxPolicyError, SandboxLimitError), match=r"max_bytes|disk_mb=64"):
            await take()
        assert os.listdir(tmp_path) == []

    async def test_terminal_input_cannot_be_injected(self, box: Sandbox) -> None:
        """The engine's filter lets a box write into terminals, but the only ones it has are those it makes."""
        own = await box.exec("cat </dev/tty; ls /dev/pts; ps -o tty= -p $$ 2>/dev/null")

        assert "No such device" in own.stderr
        assert own.stdout.split() in (["ptmx"], ["ptmx", "?"])


class TestPodmanAllowList(AllowListConformance):
    backend = ENGINE


RUNNER = """
import asyncio, sys
from verifiers.sandboxes import SandboxSpec
from verifiers.sandboxes.docker import DockerBackend
from verifiers.sandboxes.owner import RUN

async def main():
    backend = DockerBackend(default_image=sys.argv[1])
    boxes = await asyncio.gather(*(backend.start(SandboxSpec(memory_mb=128)) for _ in range(2)))
    await boxes[0].exec("setsid sleep 999 >/dev/null 2>&1 &")
    print(RUN, flush=True)
    await boxes[1].exec("trap '' TERM HUP; sleep 999")

asyncio.run(main())
"""


async def test_boxes_die_with_a_killed_runner():
    environ = {**os.environ, "PYTHONPATH": "src", "DOCKER_HOST": HOST}
    runner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUNNER, IMAGE, stdout=subprocess.PIPE, env=environ
    )
    assert runner.stdout is not None
    run = (await asyncio.wait_for(runner.stdout.readline(), 120)).decode().strip()

    async def boxes() -> list[str]:
        return [info.id for info in await ENGINE.ls() if info.run == run]

    async def gone() -> bool:
        return not await boxes()

    assert len(await boxes()) == 2
    runner.send_signal(signal.SIGKILL)
    await runner.wait()

    assert await until(gone), await boxes()
