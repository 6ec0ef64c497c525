"""Requests to an engine that leave nothing behind: one that is on its way cannot be called back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from verifiers.sandboxes.box import AgentSandbox

Box = TypeVar("Box", bound=AgentSandbox)
Made = TypeVar("Made")
_background: set[asyncio.Task[Any]] = set()


async def start_or_undo(start: Coroutine[Any, Any, Box]) -> Box:
    """The box `start` makes. When cancelled, `start` goes on to its end and what it made is stopped first."""
    return await make_or_undo(start, lambda box: box.stop())


async def make_or_undo(make: Coroutine[Any, Any, Made], undo: Callable[[Made], Awaitable[object]]) -> Made:
    """What `make` returns. When cancelled, `make` goes on to its end and `undo` is called with that first."""
    making = _own(make)
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        await asyncio.shield(_own(_undo(making, undo)))
        raise


async def to_its_end(work: Coroutine[Any, Any, Made]) -> Made:
    """What `work` returns; it goes on to its end even if whoever waits for it is cancelled."""
    return await asyncio.shield(_own(work))


def _own(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """A task that runs to its end even if whoever waits for it is cancelled twice."""
    task = asyncio.create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)
    return task


async def _undo(making: asyncio.Task[Any], undo: Callable[[Any], Awaitable[object]]) -> None:
    await asyncio.wait([making])
    if not making.cancelled() and making.exception() is None:
        await undo(making.result())
