"""No container without an owner: what is left of killed runs, cancelled starts and boxes taken away.

Other processes may use the same engine meanwhile: only what carries this one's labels is looked at.
"""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

import needs
from verifiers.errors import (
    SandboxLostError,
)
from verifiers.sandboxes import SandboxSpec, start_sandbox
from verifiers.sandboxes.docker.spec import LABEL_OWNER, container
from verifiers.sandboxes.owner import Owner, current_owner
from waiting import until

pytestmark = needs.DOCKER
ENGINE = needs.docker_backend()
IMAGE = needs.DOCKER_IMAGE
SMALL = SandboxSpec(memory_mb=256, pids=64, disk_mb=64)


async def owned_by(owner: str) -> list[str]:
    found = await ENGINE.engine.call("GET", "/containers/json", query={"all": True})
    return [each["Id"] for each in found if (each.get("Labels") or {}).get(LABEL_OWNER) == owner]


async def gone(owner: str) -> bool:
    return not await owned_by(owner)


RUNNER = """
import asyncio, sys
from verifiers.sandboxes import SandboxSpec
from verifiers.sandboxes.docker import DockerBackend
from verifiers.sandboxes.owner import current_owner

async def main():
    backend = DockerBackend(default_image=sys.argv[1])
    boxes = await asyncio.gather(*(backend.start(SandboxSpec(memory_mb=128)) for _ in range(3)))
    await boxes[0].exec("setsid sleep 999 >/dev/null 2>&1 &")
    print(current_owner(), flush=True)
    await boxes[1].exec("trap '' TERM HUP; sleep 999")

asyncio.run(main())
"""


async def test_boxes_die_with_a_killed_runner():
    runner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUNNER, IMAGE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": "src"}
    )
    assert runner.stdout is not None
    owner = (await asyncio.wait_for(runner.stdout.readline(), 200)).decode().strip()
    assert len(await owned_by(owner)) == 3
    runner.send_signal(signal.SIGKILL)
    await runner.wait()

    assert await until(lambda: gone(owner)), await owned_by(owner)


STARTS = """
import asyncio, sys
from verifiers.sandboxes import SandboxSpec
from verifiers.sandboxes.docker import DockerBackend
from verifiers.sandboxes.owner import current_owner

async def work(backend):
    while True:
        await (await backend.start(SandboxSpec(memory_mb=128))).stop()

async def main():
    backend = DockerBackend(default_image=sys.argv[1])
    await (await backend.start(SandboxSpec(memory_mb=128))).stop()
    print(current_owner(), flush=True)
    await asyncio.gather(*(work(backend) for _ in range(6)))

asyncio.run(main())
"""


@pytest.mark.parametrize("delay_s", [0.1, 0.25, 0.45])
async def test_containers_that_were_being_made_go_as_well(delay_s: float):
    runner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", STARTS, IMAGE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": "src"}
    )
    assert runner.stdout is not None
    owner = (await asyncio.wait_for(runner.stdout.readline(), 200)).decode().strip()
    await asyncio.sleep(delay_s)
    runner.kill()
    await runner.wait()
    await asyncio.sleep(3)  # the engine goes on making what it was asked for

    assert await until(lambda: gone(owner)), await owned_by(owner)
    await asyncio.sleep(2)
    assert await until(lambda: gone(owner)), await owned_by(owner)


async def test_pruning_removes_what_never_started_and_spares_what_is_owned():
    ended = await asyncio.create_subprocess_exec("true")
    await ended.wait()
    dead = str(Owner(ended.pid, 1, current_owner().boot))
    body = container(SMALL, IMAGE, ["true"], quota=False)
    body["Labels"][LABEL_OWNER] = dead
    elsewhere = {**body, "Labels": {**body["Labels"], "verifiers.host": "another-machine.1"}}
    foreign = (await ENGINE.engine.call("POST", "/containers/create", body=elsewhere))["Id"]
    async with start_sandbox(ENGINE, SMALL) as box:
        for _ in range(20):  # another process that prunes may be quicker
            left = (await ENGINE.engine.call("POST", "/containers/create", body=body))["Id"]
            found = {info.id: info.state for info in await ENGINE.prune()}
            if left in found:
                break
        after = {info.id for info in await ENGINE.ls()}
        assert (await box.exec("echo alive")).stdout == "alive\n"
    await ENGINE.engine.call("DELETE", f"/containers/{foreign}")

    assert found.get(left) == "created"
    assert not {box.id, foreign} & set(found)
    assert {box.id, foreign} <= after
    assert left not in after


async def test_a_box_taken_away_is_lost():
    async with start_sandbox(ENGINE, SMALL) as box:
        other = await box.exec("id -u", user="nobody")
        waiting = asyncio.ensure_future(box.exec("sleep 60"))
        await asyncio.sleep(0.2)
        await ENGINE.engine.call("DELETE", f"/containers/{box.id}", query={"force": True})
        with pytest.raises(SandboxLostError, match="is gone"):
            await asyncio.wait_for(waiting, 120)
        with pytest.raises(SandboxLostError):
            await box.exec("true", user="nobody")
    assert other.stdout == "65534\n"


async def test_a_cancelled_start_leaves_nothing():
    before = await owned_by(str(current_owner()))
    for delay_s in (0.0, 0.02, 0.06, 0.15, 0.3):
        starting = asyncio.ensure_future(ENGINE.start(SMALL))
        await asyncio.sleep(delay_s)
        starting.cancel()
        await asyncio.wait([starting])
        if not starting.cancelled():
            await starting.result().stop()
        assert set(await owned_by(str(current_owner()))) <= set(before)
