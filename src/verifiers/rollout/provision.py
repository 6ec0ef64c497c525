"""The boxes of a run: one backend, started ahead through a pool, each owned by the rollout that asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from verifiers.errors import ConfigError
from verifiers.sandboxes.base import Backend, Sandbox, SandboxSpec
from verifiers.sandboxes.pool import SandboxPool
from verifiers.sandboxes.registry import start_box, stop_box
from verifiers.session import Harness, World, current
from verifiers.task import Task

AHEAD = 8
"""How many boxes may wait for rollouts that have not begun."""


def check_pair(world: World, harness: Harness) -> None:
    """
    Raises:
        ConfigError: this harness makes no sense in this environment, and why.
    """
    for member in getattr(world, "envs", None) or [world]:
        if member is not world and getattr(member, "envs", None):
            check_pair(member, harness)
            continue
        refuse = getattr(harness, "refuse", None)
        reason = member.refuse(harness) or (refuse(member) if refuse is not None else None)
        if reason is not None:
            name = getattr(member, "env_id", "") or type(member).__name__
            raise ConfigError(f"harness {harness.name!r} does not go with environment {name!r}: {reason}")


def box_for(world: World, harness: Harness, task: Task) -> SandboxSpec | None:
    """The box that this rollout is given; None: neither environment nor harness needs one, or the environment makes
    its own."""
    wanted = world.sandbox_for(task)
    if not getattr(harness, "needs_sandbox", False):
        return wanted
    if wanted is None:
        if world.makes_sandbox(task):
            return None
        wanted = SandboxSpec()
    fit = getattr(harness, "fit", None)
    return wanted if fit is None else fit(wanted)


class Boxes(Protocol):
    """Where boxes come from."""

    async def start(self, spec: SandboxSpec, backend: str | Backend | None = None) -> Sandbox:
        """A ready box; the caller stops it with `stop_box`.

        Args:
            backend: a backend or its name; None: the one these boxes are of.
        """
        ...


class FreshBoxes:
    """Local boxes, each started when it is asked for: for a rollout outside a run."""

    async def start(self, spec: SandboxSpec, backend: str | Backend | None = None) -> Sandbox:
        return await start_box(backend or "local", spec)


FRESH = FreshBoxes()


class RunBoxes:
    """The boxes of one run, of each backend from one pool. Nothing is started before the first is asked for."""

    def __init__(self, backend: str | Backend = "local") -> None:
        """
        Args:
            backend: of boxes that are asked for without one: its name, or itself.
        """
        self.backend = backend
        self._pools: dict[str | int, SandboxPool] = {}

    async def start(self, spec: SandboxSpec, backend: str | Backend | None = None) -> Sandbox:
        return await start_box(self._pool(backend or self.backend), spec)

    def _pool(self, backend: str | Backend) -> SandboxPool:
        if isinstance(backend, SandboxPool):
            return backend  # its owner closes it
        key = backend if isinstance(backend, str) else id(backend)
        if key not in self._pools:
            self._pools[key] = SandboxPool(backend, limit=AHEAD)
        return self._pools[key]

    async def close(self) -> None:
        pools, self._pools = list(self._pools.values()), {}
        await asyncio.gather(*(pool.close() for pool in pools))


def boxes_here() -> Boxes:
    """Those of the run whose stage is running here; outside of a run fresh ones."""
    session = current.get()
    return FRESH if session is None else session.boxes


@asynccontextmanager
async def box_of(boxes: Boxes, spec: SandboxSpec, backend: str | Backend | None = None) -> AsyncIterator[Sandbox]:
    """A box for the length of a block: the one a program is graded in, say."""
    box = await boxes.start(spec, backend)
    try:
        yield box
    finally:
        await stop_box(box)
