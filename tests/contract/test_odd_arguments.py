"""Arguments that nobody means reach no box: they are named at once, and the box goes on."""

import math
from typing import Any

import pytest

from verifiers.errors import ConfigError
from verifiers.sandboxes import SandboxSpec, start_sandbox


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
