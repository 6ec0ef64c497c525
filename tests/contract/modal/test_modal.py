"""The modal backend with Modal's own client, against a control plane served here."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from verifiers.errors import SandboxError, SandboxLimitError, SandboxLostError, SandboxPolicyError, SandboxStartError
from verifiers.sandboxes import SandboxSpec, start_sandbox
from verifiers.sandboxes.modal.backend import MAX_LIFE_S, ModalBackend, create_options
from verifiers.sandboxes.modal.backend import _warn_once as warn_once
from verifiers.sandboxes.modal.box import EXPIRE_S
from verifiers.testing.sandboxes import SandboxConformance
from verifiers.testing.snapshots import SnapshotConformance
from waiting import until

modal = pytest.importorskip("modal", reason="needs modal: python -m pip install -e '.[modal]'")

SMALL = SandboxSpec(memory_mb=256, cpus=1, pids=64, disk_mb=64)
ENGINE = ModalBackend()


@pytest.mark.usefixtures("modal_world")
class TestModal(SandboxConformance):
    backend = ENGINE


@pytest.mark.usefixtures("modal_world")
class TestModalFirstGeneration(SandboxConformance):
    """What needs the older calls, which Modal keeps for boxes with a GPU."""

    backend = ENGINE

    @pytest.fixture(autouse=True)
    def first_generation(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MODAL_SANDBOX_V2", "0")


@pytest.mark.usefixtures("modal_world")
class TestModalSnapshots(SnapshotConformance):
    backend = ENGINE


def made(world: Any, id: str) -> Any:
    return world.boxes[id]


async def test_both_generations_are_what_they_say(modal_world: Any, monkeypatch: pytest.MonkeyPatch):
    modal_world.calls.clear()
    async with start_sandbox(ENGINE, SMALL) as second:
        assert made(modal_world, second.id).task.endswith("V")
    monkeypatch.setenv("MODAL_SANDBOX_V2", "0")
    async with start_sandbox(ENGINE, SMALL) as first:
        assert not made(modal_world, first.id).task.endswith("V")

    assert {"SandboxCreateRequest", "SandboxCreateV2Request"} <= set(modal_world.calls)


async def test_limits_life_and_network_reach_modal(modal_world: Any, caplog: pytest.LogCaptureFixture):
    warn_once.cache_clear()
    async with start_sandbox(ENGINE, SMALL) as box:
        given = made(modal_world, box.id).definition
    resources = given.resources

    assert "bounds neither" in caplog.text
    assert (resources.memory_mb, resources.memory_mb_max, resources.milli_cpu_max) == (256, 256, 1000)
    assert given.timeout_secs == MAX_LIFE_S
    assert given.network_access.network_access_type == given.network_access.BLOCKED

    spec = replace(SMALL, network="allowlist", allow=("files.example.com", "*.example.org", "10.1.2.3", "10.0.0.0/8"))
    async with start_sandbox(ENGINE, replace(spec, timeout_s=90.5)) as box:
        given = made(modal_world, box.id).definition
    assert given.timeout_secs == 91
    assert given.network_access.network_access_type == given.network_access.ALLOWLIST
    assert list(given.network_access.allowed_domains) == ["files.example.com", "*.example.org"]
    assert list(given.network_access.allowed_cidrs) == ["10.1.2.3/32", "10.0.0.0/8"]

    async with start_sandbox(ENGINE, replace(SMALL, network="full")) as box:
        given = made(modal_world, box.id).definition
    assert given.network_access.network_access_type == given.network_access.OPEN
    with pytest.raises(SandboxPolicyError, match="rootfs"):
        create_options(SandboxSpec(rootfs="/tmp"))


@pytest.mark.parametrize("generation", ["0", "1"])
async def test_named_ports_have_modal_s_tunnels_where_there_is_a_network(
    modal_world: Any, monkeypatch: pytest.MonkeyPatch, generation: str
):
    monkeypatch.setenv("MODAL_SANDBOX_V2", generation)
    engine = ModalBackend(ports=[8000])
    async with start_sandbox(engine, replace(SMALL, network="full")) as box:
        address, other = await box.expose(8000), await box.expose(8001)
    assert (address.port, address.tls) == (443, True)
    assert address.host.endswith("-8000.example.net")
    assert (other.host, other.tls) == ("127.0.0.1", False)

    async with start_sandbox(engine, SMALL) as box:
        assert (await box.expose(8000)).host == "127.0.0.1"
        assert not made(modal_world, box.id).definition.open_ports.ports


async def test_a_box_without_a_heartbeat_ends_itself(modal_world: Any):
    """The first process, as it is sent, with a shorter wait: Modal itself would let the box run on."""
    async with start_sandbox(ENGINE, SMALL) as box:
        argv = list(made(modal_world, box.id).definition.entrypoint_args)
    assert f", {EXPIRE_S})" in argv[-1]
    argv[-1] = argv[-1].replace(f", {EXPIRE_S})", ", 4)")
    process = await asyncio.create_subprocess_exec(*argv, stdin=asyncio.subprocess.PIPE)
    assert process.stdin is not None
    for _ in range(20):  # longer than it would wait, and never nearly as long between two
        process.stdin.write(b".")
        await asyncio.sleep(0.25)
    assert process.returncode is None
    assert await asyncio.wait_for(process.wait(), 120) == 0
    process.stdin.close()


async def test_heartbeats_are_sent(modal_world: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verifiers.sandboxes.modal.box.BEAT_S", 0.05)
    async with start_sandbox(ENGINE, SMALL) as box:
        assert await until(lambda: made(modal_world, box.id).first.written >= 3)
    assert made(modal_world, box.id).over.is_set()


async def test_pruning_ends_boxes_of_dead_owners_only(modal_world: Any):
    async with start_sandbox(ENGINE, SMALL) as mine, start_sandbox(ENGINE, SMALL) as orphan:
        owner = made(modal_world, orphan.id).tags["verifiers-owner"]
        pid, _, rest = owner.partition(".")
        made(modal_world, orphan.id).tags["verifiers-owner"] = f"{pid}.1.{rest.partition('.')[2]}"
        listed = {info.id: info for info in await ENGINE.ls()}
        removed = [info.id for info in await ENGINE.prune()]

        assert (listed[mine.id].owner_alive, listed[orphan.id].owner_alive) == (True, False)
        assert removed == [orphan.id]
        with pytest.raises(SandboxLostError):
            await orphan.exec("true")
        assert (await mine.exec("echo alive")).stdout == "alive\n"


async def test_a_box_that_modal_ends_is_lost_and_one_that_kills_its_agent_is_at_fault(modal_world: Any):
    async with start_sandbox(ENGINE, SMALL) as box:
        sandbox = await modal.Sandbox.from_id.aio(box.id)
        await sandbox.terminate.aio()
        with pytest.raises(SandboxLostError, match="137"):
            await box.exec("sleep 600")
        await sandbox.detach.aio()
    async with start_sandbox(ENGINE, SMALL) as box:
        with pytest.raises(SandboxLimitError, match="killed from inside"):
            await box.exec("kill -9 $PPID; sleep 30")


async def test_a_cancelled_start_leaves_nothing(modal_world: Any):
    before = {info.id for info in await ENGINE.ls()}
    for delay_s in (0.0, 0.02, 0.1, 0.3):
        starting = asyncio.ensure_future(ENGINE.start(SMALL))
        await asyncio.sleep(delay_s)
        starting.cancel()
        await asyncio.wait([starting])
        if not starting.cancelled():
            await starting.result().stop()
        assert {info.id for info in await ENGINE.ls()} <= before


async def test_images(modal_world: Any, tmp_path: Path):
    (tmp_path / "Dockerfile").write_text("FROM python:3.11-slim\nRUN echo built\n")
    async with start_sandbox(ENGINE, replace(SMALL, image=f"build:{tmp_path}")) as box:
        assert made(modal_world, box.id).definition.image_id in modal_world.images
        assert any("RUN echo built" in line for lines in modal_world.images.values() for line in lines)
        snapshot = await box.snapshot()
    async with start_sandbox(ENGINE, replace(SMALL, image=snapshot)) as box:
        assert made(modal_world, box.id).definition.image_id == snapshot
    async with start_sandbox(ENGINE, replace(SMALL, image="python:3.12")):
        assert any("FROM python:3.12" in line for lines in modal_world.images.values() for line in lines)
    (tmp_path / "Dockerfile").write_text("FROM python:3.11-slim\nRUN exit 9\n")
    with pytest.raises(SandboxStartError, match="exit 9"):
        await ENGINE.start(replace(SMALL, image=f"build:{tmp_path}"))
    with pytest.raises(SandboxStartError, match="not found"):
        await ENGINE.start(replace(SMALL, image="im-unknown"))


async def test_images_without_a_python_are_given_one_when_told(modal_world: Any, tmp_path: Path):
    (tmp_path / "Dockerfile").write_text("FROM node:22\nRUN echo built\n")
    for image in ("golang:1.25", f"build:{tmp_path}"):
        async with start_sandbox(ENGINE, replace(SMALL, image=image)) as box:
            assert modal_world.mounts[made(modal_world, box.id).definition.image_id] == ""
        async with start_sandbox(ModalBackend(add_python="3.12"), replace(SMALL, image=image)) as box:
            id = made(modal_world, box.id).definition.image_id
            assert modal_world.mounts[id].startswith("mo-python-build-standalone.")
            assert "COPY /python/. /usr/local" in modal_world.images[id]
    with pytest.raises(SandboxStartError, match=r"2\.7"):
        await ModalBackend(add_python="2.7").start(replace(SMALL, image="golang:1.25"))


async def test_modal_s_own_errors_stay_inside(
    modal_world: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async with start_sandbox(ENGINE, SMALL) as box:
        monkeypatch.setattr(modal_world, "refusing", True)
        for call in (ENGINE.ls, ENGINE.prune):
            with pytest.raises(SandboxError, match="no budget"):
                await call()
        with pytest.raises(SandboxStartError, match="no budget"):
            await ENGINE.start(SMALL)
        assert "no budget" in (await ENGINE.probe() or "")
        await box.stop()
        assert "ends by itself" in caplog.text
        monkeypatch.undo()
        left = await modal.Sandbox.from_id.aio(box.id)
        await left.terminate.aio()
        await left.detach.aio()


async def test_what_is_gone_is_not_found(modal_world: Any):
    with pytest.raises(modal.exception.NotFoundError):
        await modal.Sandbox.from_id.aio("sb-" + "x" * 26)
    async with start_sandbox(ENGINE, SMALL) as box:
        forgotten = modal_world.boxes.pop(box.id)
        await box.stop()
        modal_world.boxes[box.id] = forgotten
    left = await modal.Sandbox.from_id.aio(box.id)
    await left.terminate.aio()
    await left.detach.aio()


async def test_the_probe_tells_a_wrong_token(modal_world: Any):
    assert await ENGINE.probe() is None
    wrong = await modal.Client.from_credentials.aio("token-id", "wrong")
    reason = await ModalBackend(client=wrong).probe()
    await wrong.close.aio()

    assert reason is not None
    assert "MODAL_TOKEN_ID" in reason
