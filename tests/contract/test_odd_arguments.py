"""Arguments that nobody means reach no box: they are named at once, and the box goes on."""

import math
import os
from dataclasses import replace
from typing import Any

import pytest

from verifiers.errors import ConfigError, SandboxExecError, SandboxStartError
from verifiers.sandboxes import SandboxSpec, get_backend, start_sandbox


@pytest.mark.parametrize("backend", ["local", "unsafe-local"])
async def test_odd_arguments_are_refused_and_harm_no_box(backend: str):
    async with start_sandbox(backend, SandboxSpec(memory_mb=256, disk_mb=64)) as box:
        odd: list[dict[str, Any]] = [
            {"timeout_s": math.nan},
            {"timeout_s": "5"},
            {"max_output": -3},
            {"max_output": None},
            {"env": {"A": None}},
            {"env": {"A=B": "c"}},
            {"env": {"": "c"}},
            {"stdin": 5},
        ]
        for _ in range(2):  # a box's first command may take another way than those after it
            for arguments in odd:
                with pytest.raises(ConfigError):
                    await box.exec("echo hi", **arguments)
            for timeout_s in (math.inf, 1e12):
                assert (await box.exec("echo hi", timeout_s=timeout_s)).stdout == "hi\n"
        for port in (0, -1, 99999, "80"):
            with pytest.raises(ConfigError):
                await box.expose(port)  # pyright: ignore[reportArgumentType]
        process = await box.spawn("cat")
        for signal in (999, -1, "TERM"):
            with pytest.raises(ConfigError):
                await process.kill(signal)  # pyright: ignore[reportArgumentType]
        await process.kill()
        assert await process.wait() == 137
        assert (await box.exec("sleep 5", timeout_s=-1)).timed_out
        assert (await box.exec("echo hi", max_output=0)).truncated


@pytest.mark.parametrize("backend", ["local", "unsafe-local"])
async def test_the_smallest_box_is_of_use(backend: str):
    """With what every backend needs at least, a shell line of several programs runs, and files go in and out."""
    spec = SandboxSpec(memory_mb=16, disk_mb=1, pids=8, cpus=0.5 if backend == "local" else None)
    if backend == "local" and "cpu" not in (await get_backend("local").keeper()).cgroups:  # pyright: ignore
        spec = replace(spec, cpus=None)
    async with start_sandbox(backend, spec) as box:
        for _ in range(2):
            assert (await box.exec("ls / | sort | head -2 | wc -l")).stdout == "2\n"
        await box.write("f", "x" * 100_000)
        assert len(await box.read("f")) == 100_000


async def test_a_user_that_a_box_cannot_have_is_named():
    if os.geteuid() != 0:
        pytest.skip("boxes of several users need root")
    for user, said in (("nobodyhere", "no such user in the box: nobodyhere"), ("99999", "the box has no uid 99999")):
        with pytest.raises(SandboxStartError, match=said):
            async with start_sandbox("local", SandboxSpec(memory_mb=64, disk_mb=8, user=user)):
                pass
    async with start_sandbox("local", SandboxSpec(memory_mb=64, disk_mb=8, user="0")) as box:
        for user in ("99999", "1:99999", "99999999999"):
            with pytest.raises(SandboxExecError, match=r"the box has no [ug]id 99999"):
                await box.exec("id", user=user)
        assert (await box.exec("id -u", user="65534")).stdout == "65534\n"


async def test_a_working_folder_that_cannot_be_is_named():
    with pytest.raises(SandboxStartError, match="its working folder /etc/passwd/x: Not a directory"):
        async with start_sandbox("local", SandboxSpec(memory_mb=64, disk_mb=8, workdir="/etc/passwd/x")):
            pass


async def test_files_that_the_disk_cannot_hold_say_so():
    spec = SandboxSpec(memory_mb=64, disk_mb=1, files={"a": bytes(5 << 20)})
    with pytest.raises(SandboxStartError, match="No space left on device; disk_mb=1 is too little"):
        async with start_sandbox("local", spec):
            pass
