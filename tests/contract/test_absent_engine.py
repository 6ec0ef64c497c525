"""What is said of an engine that is not there."""

from pathlib import Path

import pytest

from verifiers.errors import SandboxError
from verifiers.sandboxes.docker.engine import Engine, EngineAddress


async def test_an_absent_engine_is_one_plain_line(tmp_path: Path):
    socket = str(tmp_path / "none.sock")
    with pytest.raises(SandboxError) as error:
        await Engine(EngineAddress(socket)).call("GET", "/version")
    assert str(error.value) == f"the container engine at unix://{socket} does not answer: No such file or directory"
