"""The end of a local box, as this side hears of it: by its agent's socket and by the keeper, in either order."""

import asyncio
from typing import cast

import pytest

from verifiers.errors import SandboxError, SandboxLimitError, SandboxLostError
from verifiers.sandboxes.local.keeping import Keeper
from verifiers.sandboxes.local.link import Line, Link

NO_KEEPER = cast(Keeper, None)  # none is asked for anything


@pytest.mark.parametrize(("out_of_memory", "error"), [(True, SandboxLimitError), (False, SandboxLostError)])
async def test_an_end_that_is_known_is_what_its_closed_socket_says(out_of_memory: bool, error: type[SandboxError]):
    link = Link(NO_KEEPER, "one")
    link.ended = asyncio.get_running_loop().create_future()
    link.ended.set_result({"exit": "one", "code": 137, "out_of_memory": out_of_memory})
    Line(link).connection_lost(None)
    assert type(link.wire.error) is error
    assert "memory" in str(link.wire.error) if out_of_memory else "exit code 137" in str(link.wire.error)
