"""The part of `SandboxConformance` about what nobody can mean: it is named at once, and the box goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from verifiers.errors import ConfigError, SandboxPolicyError, SandboxStartError
from verifiers.sandboxes import Backend, Sandbox, SandboxSpec, start_sandbox


class RefusesOddArguments:
    """Its `box` is the fixture of the class it is part of."""

    backend: ClassVar[str | Backend]
    spec: ClassVar[SandboxSpec]

    @pytest.mark.parametrize(
        "files",
        [{"a": "1", "a/b": "2"}, {".": "1"}, {"n" * 300: "1"}, {"a": Path("/no/such/file")}],
        ids=["below a file", "a folder", "a long name", "none there"],
    )
    async def test_a_file_that_cannot_be_put_in_is_a_start_error(self, files: dict[str, str | Path]) -> None:
        """It is named, and nothing of the box is left."""
        with pytest.raises(SandboxStartError, match=r"file '\S+' could not be put into the box: \S"):
            async with start_sandbox(self.backend, replace(self.spec, files=files)):
                pass

    async def test_what_no_command_can_be_is_refused(self, box: Sandbox) -> None:
        """At once, and the box goes on."""
        for odd in (None, 5, b"echo", ["echo", 1], ["echo", b"1"], ["echo", "\ud800"]):
            with pytest.raises(ConfigError, match="must be a shell line or a list of arguments"):
                await box.exec(odd)  # pyright: ignore[reportArgumentType]
            with pytest.raises(ConfigError, match="must be a shell line or a list of arguments"):
                await box.spawn(odd)  # pyright: ignore[reportArgumentType]
        with pytest.raises(ConfigError, match="is no text"):
            await box.exec("echo", env={"A": "\ud800"})
        for path in ("", "a\0b", "\ud800"):
            with pytest.raises(SandboxPolicyError, match="is no path"):
                await box.read(path)
        assert (await box.exec("echo on")).stdout == "on\n"
