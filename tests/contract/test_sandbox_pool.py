"""A pool hands out fresh boxes, keeps few, learns how many and of which kinds, and leaves none."""

import asyncio
import time
from contextlib import suppress
from dataclasses import replace

import pytest

from verifiers.errors import ConfigError, SandboxLostError
from verifiers.rollout.provision import RunBoxes
from verifiers.sandboxes import SandboxSpec, get_backend, start_sandbox
from verifiers.sandboxes.local.backend import LocalBackend
from verifiers.sandboxes.local.snapshots import LocalSandbox
from verifiers.sandboxes.owner import RUN
from verifiers.sandboxes.pool import SandboxPool
from verifiers.sandboxes.registry import stop_box
from waiting import until

SPEC = SandboxSpec(memory_mb=64, disk_mb=16, pids=32)


async def own_boxes() -> list[str]:
    """Of this process: others may run boxes as well."""
    return [box.id for box in await get_backend("local").ls() if box.run == RUN]


async def settled(pool: SandboxPool, count: int) -> bool:
    return await until(lambda: pool.waiting >= count)


async def use(pool: SandboxPool, spec: SandboxSpec = SPEC, times: int = 2) -> None:
    for _ in range(times):
        async with start_sandbox(pool, spec) as box:
            assert (await box.exec("echo used >mark")).ok


async def test_a_waiting_box_is_handed_out_once_and_prepared():
    async with SandboxPool("local") as pool:
        await use(pool)
        assert await settled(pool, 1)
        waiting = pool._shelf(SPEC).ready[0].id
        async with start_sandbox(pool, replace(SPEC, files={"a": "b"})) as second:
            assert second.id == waiting
            assert (await second.exec("ls")).stdout == "a\n"
            async with start_sandbox(pool, replace(SPEC, memory_mb=65)) as other:
                assert other.spec.memory_mb == 65
        assert await settled(pool, 1)
    assert await own_boxes() == []


async def test_a_kind_asked_for_once_keeps_no_box():
    async with SandboxPool("local") as pool:
        for memory_mb in range(60, 70):
            await use(pool, replace(SPEC, memory_mb=memory_mb), times=1)
        await asyncio.sleep(0.5)
        assert pool.waiting == 0
        await use(pool, replace(SPEC, memory_mb=69), times=1)
        assert await settled(pool, 1)
        assert {box.spec.memory_mb for shelf in pool._shelves.values() for box in shelf.ready} == {69}


async def test_variables_and_lives_of_their_own_make_no_kind_of_their_own():
    async with SandboxPool("local") as pool:
        await use(pool)
        assert await settled(pool, 1)
        waiting = pool._shelf(SPEC).ready[0].id
        spec = replace(SPEC, env={"ROLLOUT": "17", "PATH": "/usr/bin:/bin"}, timeout_s=5.5)
        began = time.monotonic()
        async with start_sandbox(pool, spec) as box:
            assert (box.id, box.spec.timeout_s) == (waiting, 5.5)
            assert (await box.exec("echo $ROLLOUT $PATH")).stdout == "17 /usr/bin:/bin\n"
            assert (await box.exec("echo $ROLLOUT", env={"ROLLOUT": "18"})).stdout == "18\n"
            process = await box.spawn("echo $ROLLOUT")
            assert await process.stdout.read() == b"17\n"
            with pytest.raises(SandboxLostError, match=r"timeout_s=5\.5"):
                await asyncio.wait_for(box.exec("sleep 600"), 120)
        assert time.monotonic() - began > 5.4


async def test_a_life_begins_when_a_box_is_handed_out():
    spec = replace(SPEC, timeout_s=4.0)
    async with SandboxPool("local") as pool:
        await use(pool, spec)
        assert await settled(pool, 1)
        waiting = pool._shelf(spec).ready[0].id
        await asyncio.sleep(4.2)
        async with start_sandbox(pool, spec) as box:
            assert box.id == waiting
            assert (await box.exec("echo alive")).stdout == "alive\n"


async def test_a_pool_is_bounded_and_takes_boxes_ahead_by_demand():
    async with SandboxPool("local", limit=3) as pool:
        for _ in range(12):
            async with start_sandbox(pool, SPEC):
                pass
        assert await settled(pool, 1)
        await asyncio.sleep(0.5)
        assert 1 <= pool.waiting <= 3
    assert pool.waiting == 0
    assert await own_boxes() == []


async def test_kinds_in_use_take_the_room_of_kinds_that_were():
    async with SandboxPool("local", limit=1) as pool:
        await use(pool)
        assert await settled(pool, 1)
        await use(pool, replace(SPEC, memory_mb=65))

        def kinds() -> list[int]:
            return [shelf.spec.memory_mb for shelf in pool._shelves.values() for _ in shelf.ready]

        assert await until(lambda: kinds() == [65])


async def test_a_box_that_died_while_it_waited_is_not_handed_out():
    async with SandboxPool("local") as pool:
        await use(pool)
        assert await settled(pool, 1)
        await pool._shelf(SPEC).ready[0].stop()
        async with start_sandbox(pool, SPEC) as box:
            assert (await box.exec("echo works")).stdout == "works\n"


async def test_closing_while_boxes_start_leaves_none():
    async with SandboxPool("local") as pool:
        await use(pool)
    assert await own_boxes() == []


class Unstoppable(LocalBackend):
    """Has its box just when it is cancelled, as any await may have its result by then."""

    async def start(self, spec: SandboxSpec) -> LocalSandbox:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.2)
        return await super().start(spec)


async def test_a_box_that_was_there_when_the_pool_closed_is_not_left():
    backend = Unstoppable()
    async with SandboxPool(backend) as pool:
        await use(pool)
        await asyncio.sleep(0.05)
    left = [box.id for box in await backend.ls() if box.run == RUN]
    await backend.close()

    assert left == []


async def test_a_run_has_one_pool_for_each_backend():
    boxes = RunBoxes("local")
    made = [await boxes.start(SPEC), await boxes.start(SPEC, "unsafe-local"), await boxes.start(SPEC, "local")]
    assert [box.backend for box in made] == ["local", "unsafe-local", "local"]
    assert sorted(map(str, boxes._pools)) == ["local", "unsafe-local"]
    for box in made:
        await stop_box(box)
    await boxes.close()
    assert await own_boxes() == []


class Counted:
    """The local backend, and how many boxes it was asked for."""

    def __init__(self) -> None:
        self.engine, self.started, self.may_start = get_backend("local"), 0, asyncio.Event()
        self.may_start.set()

    async def start(self, spec: SandboxSpec):
        self.started += 1
        await self.may_start.wait()
        return await self.engine.start(spec)

    def __getattr__(self, name: str):
        return getattr(self.engine, name)


async def test_taking_a_box_that_waits_waits_for_no_start():
    backend = Counted()
    async with SandboxPool(backend) as pool:
        await use(pool)
        assert await settled(pool, 1)
        backend.may_start.clear()
        box = await asyncio.wait_for(pool.start(SPEC), 120)
        backend.may_start.set()
        await stop_box(box)


@pytest.mark.parametrize("limit", [1, 2])
async def test_kinds_that_are_asked_for_in_turn_do_not_take_each_others_boxes(limit: int):
    backend, rounds = Counted(), 8
    async with SandboxPool(backend, limit=limit) as pool:
        for _ in range(rounds):
            await use(pool, SPEC, times=1)
            await use(pool, replace(SPEC, memory_mb=65), times=1)
            await asyncio.sleep(0.1)
        assert await settled(pool, limit)
    assert backend.started <= 2 * rounds + limit + 1


async def test_a_pool_given_for_a_run_is_its_pool_and_stays_open():
    async with SandboxPool("local") as pool:
        boxes = RunBoxes(pool)
        for _ in range(2):
            await stop_box(await boxes.start(SPEC))
        await boxes.close()
        assert await settled(pool, 1)


def test_a_pool_serves_one_event_loop():
    pool = SandboxPool("local")

    async def once() -> None:
        async with start_sandbox(pool, SPEC):
            pass

    asyncio.run(once())
    with pytest.raises(ConfigError, match="one event loop"):
        asyncio.run(once())
