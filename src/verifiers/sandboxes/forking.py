"""`fork_sandbox`: copies of a running box, for searches that try several ways on from one state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import overload

from verifiers.errors import ConfigError, SandboxError, SandboxPolicyError
from verifiers.sandboxes.base import Backend, Sandbox, SandboxSpec, SnapshotBackend
from verifiers.sandboxes.registry import get_backend, start_box, stop_box

log = logging.getLogger("verifiers.sandboxes")


@overload
def fork_sandbox(box: Sandbox, *, backend: Backend | None = None) -> AbstractAsyncContextManager[Sandbox]: ...


@overload
def fork_sandbox(
    box: Sandbox, *, count: int, backend: Backend | None = None
) -> AbstractAsyncContextManager[list[Sandbox]]: ...


def fork_sandbox(
    box: Sandbox, *, count: int | None = None, backend: Backend | None = None
) -> AbstractAsyncContextManager[Sandbox | list[Sandbox]]:
    """A running copy of `box` with the same files and the same spec, or a list of `count` of them, stopped at the end.

    Processes, `/dev/shm`, bound sockets and exposed ports are not copied; `files` and `setup` of the spec are not
    applied again. The original goes on, and may end before its copies.

    Args:
        backend: where `box` came from, if not the backend registered under its name.

    Raises:
        SandboxPolicyError: the backend takes no snapshots.
        SandboxLostError: the box is gone.
    """
    if count is not None and count < 1:
        raise ConfigError(f"count={count} must be at least 1")
    engine = get_backend(box.backend) if backend is None else backend
    if not isinstance(engine, SnapshotBackend):
        raise SandboxPolicyError(f"sandbox backend {box.backend!r} takes no snapshots, so its boxes cannot be forked")
    return _one(box, engine, engine) if count is None else _forked(box, count, engine, engine)


@asynccontextmanager
async def _one(box: Sandbox, engine: Backend, snapshots: SnapshotBackend) -> AsyncIterator[Sandbox]:
    async with _forked(box, 1, engine, snapshots) as boxes:
        yield boxes[0]


@asynccontextmanager
async def _forked(
    box: Sandbox, count: int, engine: Backend, snapshots: SnapshotBackend
) -> AsyncIterator[list[Sandbox]]:
    name = await box.snapshot(temporary=True)
    spec = replace(box.spec, image=name, rootfs=None, files={}, setup=())
    starting = asyncio.ensure_future(_start_all(engine, spec, count))
    try:
        yield list(await asyncio.shield(starting))
    finally:  # in a task of its own: who is cancelled twice waits for nothing
        await asyncio.shield(asyncio.ensure_future(_end(starting, name, snapshots)))


async def _start_all(engine: Backend, spec: SandboxSpec, count: int) -> list[Sandbox]:
    """All of them or none."""
    starting = [asyncio.ensure_future(start_box(engine, spec)) for _ in range(count)]
    try:
        return await asyncio.gather(*starting)
    except BaseException:
        for start in starting:
            start.cancel()
        await asyncio.wait(starting)
        started = [start.result() for start in starting if not start.cancelled() and start.exception() is None]
        await asyncio.gather(*(stop_box(box) for box in started))
        raise


async def _end(starting: asyncio.Task[list[Sandbox]], name: str, snapshots: SnapshotBackend) -> None:
    starting.cancel()
    await asyncio.wait([starting])
    if not starting.cancelled() and starting.exception() is None:
        await asyncio.gather(*(stop_box(box) for box in starting.result()))
    try:
        await snapshots.remove_snapshot(name)
    except SandboxError as error:
        log.warning("snapshot %s was not removed: %s; the next run's prune removes it", name, error)
