"""What a container may not do and how much it may take."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

import needs
from verifiers.errors import (
    Cause,
    SandboxError,
    SandboxLimitError,
    SandboxLostError,
    SandboxPolicyError,
)
from verifiers.sandboxes import SandboxSpec, start_sandbox
from verifiers.sandboxes.docker.images import tree_digest
from waiting import until

pytestmark = needs.DOCKER
ENGINE = needs.docker_backend()
IMAGE = needs.DOCKER_IMAGE
SMALL = SandboxSpec(memory_mb=256, pids=64, disk_mb=64)


async def test_commands_have_no_rights_and_no_way_out():
    async with start_sandbox(ENGINE, SMALL) as box:
        found = await box.exec("grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status")
        status = dict(line.split() for line in found.stdout.splitlines())
        links = (await box.exec("ls /sys/class/net")).stdout.split()
        writes = [
            await box.exec(["sh", "-c", f"echo 1 >{path}"])
            for path in ("/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/sys/kernel/mm/ksm/run", "/proc/1/fd/1")
        ]
        agent = await box.exec("cat /proc/1/environ /proc/1/mem; readlink /proc/1/fd/* /proc/1/cwd; ls /proc/1/cwd/")

    assert {status[f"Cap{name}:"] for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (status["NoNewPrivs:"], status["Seccomp:"]) == ("1", "2")
    assert links == ["lo"]
    assert not any(result.ok for result in writes)
    assert agent.stdout == ""


async def test_no_signal_from_inside_ends_the_agent():
    async with start_sandbox(ENGINE, SMALL) as box:
        result = await box.exec("for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done; sleep 0.2; echo alive")
        assert result.stdout == "alive\n"
        assert (await box.exec("echo still")).stdout == "still\n"


async def test_a_fork_bomb_ends_with_its_time_limit():
    bomb = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"
    async with start_sandbox(ENGINE, replace(SMALL, memory_mb=512)) as box:
        assert (await box.exec(["python3", "-c", bomb], timeout_s=2)).timed_out

        async def ended() -> bool:
            return int((await box.exec("ls -d /proc/[0-9]* | wc -l")).stdout) < 8

        assert await until(ended)


async def test_memory_is_bounded_and_the_box_says_so():
    async with start_sandbox(ENGINE, SMALL) as box:
        assert (await box.exec(["python3", "-c", "x = b'x' * (1 << 30)"])).exit_code in (1, 137)
        assert (await box.exec("echo alive")).stdout == "alive\n"


async def test_volumes_that_an_image_declares_count_as_disk_and_are_in_no_snapshot(tmp_path: Path):
    (tmp_path / "of-this-test").write_bytes(os.urandom(8))
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN mkdir -m 777 /data\nVOLUME /data\n")
    spec = replace(SMALL, image=f"build:{tmp_path}")
    fill = "for n in 1 2 3; do head -c 40000000 /dev/zero >/data/$n; done; sleep 240"
    async with start_sandbox(ENGINE, spec) as box:
        with pytest.raises(SandboxPolicyError, match="/data"):
            await box.snapshot()
        with pytest.raises(SandboxLimitError, match="disk_mb=64"):
            await box.exec(fill, timeout_s=240)
    await ENGINE.remove_snapshot(f"verifiers-build:{tree_digest(tmp_path)}")


async def test_writing_more_than_the_disk_ends_the_box():
    async with start_sandbox(ENGINE, SMALL) as box:
        one = await box.exec("head -c 200000000 /dev/zero >big; stat -c %s big")
        assert int(one.stdout) <= 64 << 20
        with pytest.raises(SandboxLimitError, match="disk_mb=64") as caught:
            await box.exec("rm big; i=0; while true; do head -c 9000000 /dev/zero >f$i; i=$((i+1)); sleep 0.1; done")
        assert caught.value.cause is Cause.POLICY


async def test_users_share_a_box_and_its_workdir_is_the_boxs_user_s():
    async with start_sandbox(ENGINE, replace(SMALL, user="nobody", workdir="/srv/made/here")) as box:
        assert (await box.exec("id -un; touch mine && pwd")).stdout == "nobody\n/srv/made/here\n"
        assert (await box.exec("id -u", user="1234")).stdout == "1234\n"
        assert (await box.exec("id -u; id -g", user="1234:77")).stdout == "1234\n77\n"
        assert (await box.exec("id -u; cat mine", user="root")).stdout == "0\n"
        await box.write("f", "text")
        assert (await box.exec("stat -c %U f")).stdout == "nobody\n"
        assert not (await box.exec("kill -9 1; touch /srv/x")).ok
        with pytest.raises(SandboxLimitError, match="killed from inside"):
            await box.exec("kill -9 $PPID; sleep 30", user="1234")
        assert (await box.exec("id -u", user="1234")).stdout == "1234\n"


async def test_a_box_that_the_engine_ends_is_lost_to_all_its_users():
    """An engine that stops, or somebody who removes the container: neither is the policy's doing."""
    async with start_sandbox(ENGINE, SMALL) as box:
        calls = [box.exec("sleep 60"), box.exec("sleep 60", user="1234")]
        running = [asyncio.ensure_future(call) for call in calls]
        await box.exec("until [ $(cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^sleep$') = 2 ]; do sleep 0.05; done")
        await ENGINE.engine.call("POST", f"/containers/{box.id}/kill")

        ended = await asyncio.wait_for(asyncio.gather(*running, return_exceptions=True), 60)
        assert [type(error) for error in ended] == [SandboxLostError, SandboxLostError]


async def test_the_end_of_a_box_cancels_nobody_who_is_about_to_use_it():
    async with start_sandbox(ENGINE, SMALL) as box:
        entering = asyncio.ensure_future(box.exec("true", user="1234"))
        await asyncio.sleep(0)
        await box.stop()
        with pytest.raises(SandboxError):
            await asyncio.wait_for(entering, 60)
