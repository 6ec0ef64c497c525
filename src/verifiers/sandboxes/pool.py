"""A backend that keeps boxes started ahead of need, so that starting one costs a rollout nothing.

    async with SandboxPool("local", limit=16) as pool, start_sandbox(pool, spec) as box: ...

Boxes are fresh: each is handed out once and never returns. How many wait is learnt per kind of box, from how many
are asked for while one starts. A kind asked for once keeps none: it may never be asked for again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

from verifiers.errors import ConfigError, SandboxError
from verifiers.sandboxes.base import Backend, BoxInfo, Sandbox, SandboxSpec
from verifiers.sandboxes.box import AgentSandbox
from verifiers.sandboxes.registry import STOP_TIMEOUT_S, stop_box, usable_backend

HORIZON_S = 10.0
"""Demand is looked at over this long."""
IDLE_S = 60.0
"""A kind of box not asked for in this long, and in three times its usual interval, is let go."""
REFILL_DELAY_S = 0.005
"""Before a new box competes for the processor with the first command in the one just taken."""
MARGIN = 2.0
"""How many times as long as a start takes is looked at for how many are asked for meanwhile."""
KINDS = 256
"""How many kinds are remembered; the one not asked for longest is forgotten first."""
REQUESTS = 128
"""How many requests of a kind are remembered."""


class _Shelf:
    """The boxes of one kind that wait."""

    def __init__(self, spec: SandboxSpec) -> None:
        self.spec = spec
        self.ready: deque[Sandbox] = deque()
        self.starting: set[asyncio.Task[None]] = set()
        self.taken: deque[float] = deque(maxlen=REQUESTS)
        self.times = 0
        """How often one was asked for."""
        self.start_s = 0.05
        self.first_taken = self.last_taken = time.monotonic()

    def take(self, now: float) -> None:
        self.times += 1
        self.taken.append(now)
        self.last_taken = now

    def wanted(self, now: float) -> int:
        """How many should wait: as many as were asked for at the busiest time; none after a single request."""
        if self.times < 2:
            return 0
        if now - self.last_taken > IDLE_S + 3 * self.interval_s:
            return 0
        while self.taken and self.taken[0] < now - HORIZON_S:
            self.taken.popleft()
        return max(1, _most_within(self.taken, MARGIN * self.start_s))

    @property
    def held(self) -> int:
        """How many wait or will do so soon."""
        return len(self.ready) + len(self.starting)

    @property
    def interval_s(self) -> float:
        return (self.last_taken - self.first_taken) / max(1, self.times - 1)

    def pause_s(self, now: float) -> float:
        """About how long until the next is asked for; of kinds alike, the one that has boxes keeps them."""
        return max(self.interval_s, now - self.last_taken) * (0.5 if self.held else 1.0)

    def note_start(self, took_s: float) -> None:
        self.start_s += 0.2 * (took_s - self.start_s)


def _most_within(moments: Iterable[float], span_s: float) -> int:
    """How many of these ascending moments at most lie within `span_s` of each other."""
    window: deque[float] = deque()
    most = 0
    for moment in moments:
        window.append(moment)
        while window[0] < moment - span_s:
            window.popleft()
        most = max(most, len(window))
    return most


class SandboxPool:
    """Boxes of `backend`, started ahead; a `Backend` itself. Used from one event loop."""

    def __init__(self, backend: str | Backend = "local", *, limit: int = 16) -> None:
        self._name = backend
        self._backend: Backend | None = None if isinstance(backend, str) else backend
        self.limit = limit
        """How many boxes may wait, over all kinds."""
        self._shelves: dict[str, _Shelf] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _engine(self) -> Backend:
        if self._backend is None:
            assert isinstance(self._name, str)
            self._backend = await usable_backend(self._name)
        return self._backend

    @property
    def waiting(self) -> int:
        """How many boxes are ready."""
        return sum(len(shelf.ready) for shelf in self._shelves.values())

    async def start(self, spec: SandboxSpec) -> Sandbox:
        """A box that waited, else a new one; as with any backend the caller applies `files` and `setup`."""
        if self._loop not in (None, asyncio.get_running_loop()):
            raise ConfigError("a SandboxPool serves one event loop, whose end its boxes do not outlive; make a new one")
        self._loop = asyncio.get_running_loop()
        engine = await self._engine()
        if self._closed:
            return await engine.start(spec)
        shelf = self._shelf(spec)
        began = time.monotonic()
        shelf.take(began)
        while shelf.ready:
            box = shelf.ready.popleft()
            if _is_alive(box) and _dedicated(box, spec):
                asyncio.get_running_loop().call_later(REFILL_DELAY_S, self._refill, engine)
                return box
            self._discard(box)
        box = await engine.start(spec)
        shelf.note_start(time.monotonic() - began)
        self._refill(engine)
        return box

    def _shelf(self, spec: SandboxSpec) -> _Shelf:
        """Of the boxes that `spec` can be served from; what a box can be given late makes no kind of its own."""
        kind = replace(spec, files={}, setup=(), env={}, timeout_s=None)
        key = repr(kind)
        shelf = self._shelves.pop(key, None) or _Shelf(kind)
        self._shelves[key] = shelf  # the last one is the one asked for last
        return shelf

    def _refill(self, engine: Backend) -> None:
        """Start what is missing, and stop what nobody waits for or what keeps kinds in more demand from their room."""
        if self._closed:
            return
        now = time.monotonic()
        wanted = {key: shelf.wanted(now) for key, shelf in self._shelves.items()}
        share = self._shares(wanted, now)
        missing = sum(max(0, share[key] - shelf.held) for key, shelf in self._shelves.items())
        crowded = missing - (self.limit - sum(shelf.held for shelf in self._shelves.values()))
        for key, shelf in self._shelves.items():
            while shelf.ready and (shelf.held > wanted[key] or (crowded > 0 and shelf.held > share[key])):
                self._discard(shelf.ready.pop())
                crowded -= 1
        room = self.limit - sum(shelf.held for shelf in self._shelves.values())
        for key, shelf in self._shelves.items():
            for _ in range(min(share[key] - shelf.held, room)):
                room -= 1
                task = asyncio.ensure_future(self._start_one(engine, shelf))
                shelf.starting.add(task)
                task.add_done_callback(shelf.starting.discard)
        for key in list(self._shelves)[: max(0, len(self._shelves) - KINDS)]:
            if not self._shelves[key].held:
                del self._shelves[key]

    def _shares(self, wanted: Mapping[str, int], now: float) -> dict[str, int]:
        """How many boxes each kind may keep: one after the other gets one more, those in most demand first."""
        share = dict.fromkeys(wanted, 0)
        asking = sorted((key for key in wanted if wanted[key]), key=lambda key: self._shelves[key].pause_s(now))
        room = self.limit
        while asking and room > 0:
            for key in asking[:room]:
                share[key] += 1
            room -= len(asking)
            asking = [key for key in asking if share[key] < wanted[key]]
        return share

    async def _start_one(self, engine: Backend, shelf: _Shelf) -> None:
        began = time.monotonic()
        try:
            box = await engine.start(shelf.spec)
        except SandboxError:
            return  # whoever asks next starts one and hears why that fails
        try:
            await box.exec(["true"], timeout_s=30)  # a box's first command is several times slower than its others
        except SandboxError:
            self._discard(box)
            return
        except BaseException:
            self._discard(box)
            raise
        if self._closed:  # whatever it awaited had its result already when it was cancelled, and went on
            self._discard(box)
            return
        shelf.note_start(time.monotonic() - began)
        shelf.ready.append(box)

    def _discard(self, box: Sandbox) -> None:
        task = asyncio.ensure_future(stop_box(box))
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    async def probe(self) -> str | None:
        return await (await self._engine()).probe()

    async def ls(self) -> list[BoxInfo]:
        return await (await self._engine()).ls()

    async def prune(self) -> list[BoxInfo]:
        return await (await self._engine()).prune()

    async def close(self) -> None:
        """Stop what waits; boxes handed out stay their takers'. Waits no longer than stopping a box may take."""
        self._closed = True
        shelves, self._shelves = list(self._shelves.values()), {}
        starting = [task for shelf in shelves for task in shelf.starting]
        for task in starting:
            task.cancel()
        for shelf in shelves:
            while shelf.ready:
                self._discard(shelf.ready.pop())
        await _finished(starting)
        await _finished(self._stopping)


async def _finished(tasks: Iterable[asyncio.Task[Any]]) -> None:
    waiting = list(tasks)
    if waiting:
        await asyncio.wait(waiting, timeout=STOP_TIMEOUT_S)


def _is_alive(box: Sandbox) -> bool:
    return getattr(box, "alive", True)  # a third party's box may not tell


def _dedicated(box: Sandbox, spec: SandboxSpec) -> bool:
    """Whether `box` now is as `spec` asks; a third party's may be unable to take a life or variables late."""
    if isinstance(box, AgentSandbox):
        box.dedicate(spec)
        return True
    return not spec.env and spec.timeout_s is None
