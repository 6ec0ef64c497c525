"""Boxes on this machine are the same whatever their process was started with: masks, signals, descriptors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import needs
from verifiers.sandboxes import SandboxSpec, start_sandbox
from verifiers.sandboxes.unsafe import UnsafeLocalBackend

SOURCE = str(Path(__file__).parents[2] / "src")
USE = """
import asyncio, os, signal, sys
from verifiers.sandboxes import SandboxSpec, start_sandbox

async def use(backend):
    async with start_sandbox(backend, SandboxSpec(memory_mb=128, disk_mb=16)) as box:
        await box.write("given", "text")
        said = [(await asyncio.wait_for(box.exec("sleep 0.01 & wait; cat given"), 60)).stdout for _ in range(2)]
        assert (await asyncio.wait_for(box.exec("sleep 99", timeout_s=0.2), 60)).timed_out
        return said

out = open(sys.argv[2], "w")
exec(sys.argv[3])
print(asyncio.run(use(sys.argv[1])), file=out, flush=True)
"""
SURROUNDINGS = {
    "umask": "os.umask(0o077)",
    "blocked": "signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})",
    "ignored": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "closed": "for fd in range(3): os.close(fd)",
}


@pytest.mark.parametrize("backend", ["local", "unsafe-local"])
@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_boxes_work(backend: str, surroundings: str, tmp_path: Path):
    argv = [sys.executable, "-c", USE, backend, str(tmp_path / "out"), SURROUNDINGS[surroundings]]
    env = {**os.environ, "PYTHONPATH": SOURCE, "XDG_CACHE_HOME": str(tmp_path), "DOCKER_HOST": "unix:///nowhere"}
    ran = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)

    assert (tmp_path / "out").read_text() == "['text', 'text']\n", ran.stderr


class Unprunable(UnsafeLocalBackend):
    async def prune(self):
        raise PermissionError(13, "Permission denied", "/home/user/.cache/verifiers/images/.removed-by-root")


async def test_what_cannot_be_removed_keeps_nobody_from_starting(caplog: pytest.LogCaptureFixture):
    async with start_sandbox(Unprunable(), SandboxSpec()) as box:
        assert (await box.exec("echo hi")).stdout == "hi\n"
    assert "could not be removed" in caplog.text


REFUSED = """
import asyncio, sys
from verifiers.errors import SandboxStartError
from verifiers.sandboxes import SandboxSpec
from verifiers.sandboxes.docker import DockerBackend

async def main():
    engine = DockerBackend(default_image=sys.argv[1])
    try:
        await engine.start(SandboxSpec(memory_mb=64, disk_mb=16))
    except SandboxStartError as error:
        print(error)
    await engine.close()

asyncio.run(main())
"""


@needs.DOCKER
def test_a_cache_that_cannot_be_written_is_a_start_error():
    """Told by the first box of a process: later ones may have all they need from it."""
    argv = [sys.executable, "-c", REFUSED, needs.DOCKER_IMAGE]
    env = {**os.environ, "PYTHONPATH": SOURCE, "XDG_CACHE_HOME": "/proc/nowhere"}
    ran = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)

    assert "/proc/nowhere" in ran.stdout
