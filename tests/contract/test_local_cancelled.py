"""Starts and uses of local boxes that are cancelled anywhere, once or twice, leave nothing behind."""

import asyncio
import os
import resource
from collections import Counter
from contextlib import suppress

import pytest

from verifiers.errors import SandboxStartError
from verifiers.sandboxes import SandboxSpec, fork_sandbox, get_backend, start_sandbox
from verifiers.sandboxes.local import LocalBackend
from verifiers.sandboxes.local.snapshots import LocalSandbox
from waiting import until

SPEC = SandboxSpec(memory_mb=64, disk_mb=16, files={"a": "b"}, setup=["true"])


def descriptors() -> list[str]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue  # the folder's own
    return sorted(found)


async def use() -> None:
    async with start_sandbox("local", SPEC) as box:
        await box.exec("echo hi")
        await box.write("x", b"y" * 300_000)
        await box.exec("cat", stdin=b"z" * 300_000, timeout_s=20)


async def test_cancelled_anywhere_once_or_twice():
    backend = get_backend("local")
    assert isinstance(backend, LocalBackend)
    await use()
    before = descriptors()

    for step in range(90):
        task = asyncio.ensure_future(use())
        await asyncio.sleep(step * 0.0005)
        task.cancel()
        for _ in range(step % 5):
            await asyncio.sleep(0)
        if step % 2:
            task.cancel()
        await asyncio.wait([task])

    keeper = await backend.keeper()
    assert await until(lambda: not keeper.ends)
    assert await until(lambda: not Counter(descriptors()) - Counter(before)), (before, descriptors())


async def test_a_start_without_enough_descriptors_keeps_none():
    await use()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = descriptors()
    numbers = {int(number) for number in os.listdir("/proc/self/fd")}
    failed = 0
    for room in range(min(set(range(len(numbers) + 1)) - numbers), max(numbers) + 12):
        resource.setrlimit(resource.RLIMIT_NOFILE, (room, hard))
        try:
            await use()
        except SandboxStartError:
            failed += 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert failed > 0
    assert await until(lambda: not Counter(descriptors()) - Counter(before))


class Unheeding(LocalBackend):
    """Its boxes are there all the same when their start is cancelled at the last moment, as `wait_for` may have it."""

    def __init__(self) -> None:
        super().__init__()
        self.there = asyncio.Event()

    async def start(self, spec: SandboxSpec) -> LocalSandbox:
        box = await super().start(spec)
        if spec.image is not None:
            self.there.set()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
        return box


@pytest.mark.parametrize("turns", range(6))
async def test_forks_cancelled_twice_leave_no_copy(turns: int):
    engine = Unheeding()

    async def fork() -> None:
        async with fork_sandbox(box, backend=engine):
            pass

    try:
        async with start_sandbox(engine, SandboxSpec(memory_mb=64, disk_mb=16)) as box:
            forking = asyncio.ensure_future(fork())
            await asyncio.wait_for(engine.there.wait(), 60)
            forking.cancel()
            for _ in range(turns):
                await asyncio.sleep(0)
            forking.cancel()
            await asyncio.wait([forking])

            assert forking.cancelled()
            assert await until(lambda: list(engine._boxes) == [box.id])
    finally:
        await engine.close()
