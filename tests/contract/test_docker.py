"""The docker backend on a real engine: the shipped conformance suite, then images, limits, and no box without an owner.

`eval "$(.ci/docker-up)"` starts an engine of its own. CI fails without one, it does not skip.
"""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import verifiers as vf
from verifiers.errors import (
    Cause,
    SandboxError,
    SandboxLimitError,
    SandboxLostError,
    SandboxPolicyError,
    SandboxStartError,
)
from verifiers.sandboxes import Sandbox, SandboxSpec, start_sandbox
from verifiers.sandboxes.docker import DockerBackend
from verifiers.sandboxes.docker.engine import EngineAddress
from verifiers.sandboxes.docker.spec import LABEL, LABEL_OWNER, LABEL_SNAPSHOT, container
from verifiers.sandboxes.owner import RUN, Owner, current_owner
from verifiers.testing.allowlist import AllowListConformance
from verifiers.testing.isolation import IsolationConformance
from verifiers.testing.sandboxes import SandboxConformance
from verifiers.testing.snapshots import SnapshotConformance
from waiting import until

IMAGE = os.environ.get("VF_TEST_DOCKER_IMAGE", "verifiers-test:bookworm")
SMALL = SandboxSpec(memory_mb=256, pids=64, disk_mb=64)
ENGINE = DockerBackend(default_image=IMAGE)

pytestmark = pytest.mark.skipif(
    "VF_TEST_DOCKER_IMAGE" not in os.environ and "VERIFIERS_CI" not in os.environ,
    reason='needs a container engine with the test image: eval "$(.ci/docker-up)"',
)


class TestDocker(SandboxConformance):
    backend = ENGINE


class TestDockerSnapshots(SnapshotConformance):
    backend = ENGINE


class TestDockerIsolation(IsolationConformance):
    backend = ENGINE

    async def test_terminal_input_cannot_be_injected(self, box: Sandbox) -> None:
        """The engine's filter lets a box write into terminals, but the only ones it has are those it makes."""
        own = await box.exec("cat </dev/tty; ls /dev/pts; ps -o tty= -p $$ 2>/dev/null")

        assert "No such device" in own.stderr
        assert own.stdout.split() in (["ptmx"], ["ptmx", "?"])


class TestDockerAllowList(AllowListConformance):
    backend = ENGINE


async def owned_by(owner: str) -> list[str]:
    found = await ENGINE.engine.call("GET", "/containers/json", query={"all": True})
    return [each["Id"] for each in found if (each.get("Labels") or {}).get(LABEL_OWNER) == owner]


async def gone(owner: str) -> bool:
    return not await owned_by(owner)


async def own_boxes() -> set[str]:
    """Of this process: others may use the engine as well."""
    return {info.id for info in await ENGINE.ls() if info.run == RUN}


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
    owner = (await asyncio.wait_for(runner.stdout.readline(), 60)).decode().strip()
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
    owner = (await asyncio.wait_for(runner.stdout.readline(), 60)).decode().strip()
    await asyncio.sleep(delay_s)
    runner.kill()
    await runner.wait()
    await asyncio.sleep(3)  # the engine goes on making what it was asked for

    assert await until(lambda: gone(owner)), await owned_by(owner)
    await asyncio.sleep(2)
    assert await until(lambda: gone(owner)), await owned_by(owner)


async def test_pruning_removes_what_never_started_and_spares_what_is_owned():
    async with start_sandbox(ENGINE, SMALL):
        pass  # a process prunes once by itself, before its first box
    ended = await asyncio.create_subprocess_exec("true")
    await ended.wait()
    dead = str(Owner(ended.pid, 1, current_owner().boot))
    body = container(SMALL, IMAGE, ["true"], quota=False)
    body["Labels"][LABEL_OWNER] = dead
    left = (await ENGINE.engine.call("POST", "/containers/create", body=body))["Id"]
    body["Labels"]["verifiers.host"] = "another-machine.1"
    foreign = (await ENGINE.engine.call("POST", "/containers/create", body=body))["Id"]
    async with start_sandbox(ENGINE, SMALL) as box:
        listed = {info.id: info for info in await ENGINE.ls()}
        removed = {info.id for info in await ENGINE.prune()}
        after = {info.id for info in await ENGINE.ls()}
        assert (await box.exec("echo alive")).stdout == "alive\n"
    await ENGINE.engine.call("DELETE", f"/containers/{foreign}")

    assert (listed[left].state, listed[left].owner_alive) == ("created", False)
    assert left in removed
    assert removed.isdisjoint({box.id, foreign})
    assert {box.id, foreign} <= after
    assert left not in after


async def test_a_box_taken_away_is_lost():
    async with start_sandbox(ENGINE, SMALL) as box:
        other = await box.exec("id -u", user="nobody")
        waiting = asyncio.ensure_future(box.exec("sleep 60"))
        await asyncio.sleep(0.2)
        await ENGINE.engine.call("DELETE", f"/containers/{box.id}", query={"force": True})
        with pytest.raises(SandboxLostError, match="is gone"):
            await asyncio.wait_for(waiting, 30)
        with pytest.raises(SandboxLostError):
            await box.exec("true", user="nobody")
    assert other.stdout == "65534\n"


async def test_the_probe_tells_what_is_missing(tmp_path: Path):
    assert await ENGINE.probe() is None
    missing = DockerBackend(address=EngineAddress(str(tmp_path / "no.sock")))
    assert "DOCKER_HOST" in (await missing.probe() or "")
    with pytest.raises(SandboxError, match=r"no\.sock"):
        await missing.start(SMALL)


async def test_a_cancelled_start_leaves_nothing():
    before = await own_boxes()
    for delay_s in (0.0, 0.02, 0.06, 0.15, 0.3):
        starting = asyncio.ensure_future(ENGINE.start(SMALL))
        await asyncio.sleep(delay_s)
        starting.cancel()
        await asyncio.wait([starting])
        if not starting.cancelled():
            await starting.result().stop()
        assert await own_boxes() <= before


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
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN mkdir -m 777 /data\nVOLUME /data\n")
    spec = replace(SMALL, image=f"build:{tmp_path}")
    fill = "for n in 1 2 3; do head -c 40000000 /dev/zero >/data/$n; done; sleep 60"
    async with start_sandbox(ENGINE, spec) as box:
        with pytest.raises(SandboxPolicyError, match="/data"):
            await box.snapshot()
        with pytest.raises(SandboxLimitError, match="disk_mb=64"):
            await box.exec(fill, timeout_s=60)


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


async def test_a_dockerfile_is_built_once(tmp_path: Path):
    marker = os.urandom(8).hex()
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nCOPY f /f\nRUN head -c 16 /dev/urandom | od -x >/{marker}\n")
    (tmp_path / "f").write_text("in the context")
    spec = replace(SMALL, image=f"build:{tmp_path}")

    async def look() -> str:
        async with start_sandbox(ENGINE, spec) as box:
            return (await box.exec(f"cat /f /{marker}")).stdout

    before = set(await made_images("verifiers-build"))
    first, again = await asyncio.gather(look(), look())
    assert first.startswith("in the context")
    assert again == first
    (tmp_path / "f").write_text("changed")
    assert (await look()).startswith("changed")
    for tag in set(await made_images("verifiers-build")) - before:
        await ENGINE.engine.call("DELETE", f"/images/{tag}")


async def test_what_does_not_build_says_why(tmp_path: Path):
    with pytest.raises(SandboxStartError, match="no file named Dockerfile"):
        await ENGINE.start(replace(SMALL, image=f"build:{tmp_path}"))
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN echo the-reason; exit 9\n")
    with pytest.raises(SandboxStartError, match="the-reason"):
        await ENGINE.start(replace(SMALL, image=f"build:{tmp_path}"))
    with pytest.raises(SandboxStartError, match="no-such-image-here"):
        await ENGINE.start(replace(SMALL, image="no-such-image-here:v1"))


async def test_a_rootfs_and_a_snapshot_become_images(tmp_path: Path):
    root = tmp_path / "root"
    root.mkdir()
    (root / "f").write_text("from the folder")
    (root / "of-this-test").write_bytes(os.urandom(8))  # another test may have left an image of the same files
    before = set(await made_images("verifiers-rootfs"))
    async with start_sandbox(ENGINE, replace(SMALL, rootfs=root)) as box:
        assert await box.read("/f") == b"from the folder"
    (made,) = set(await made_images("verifiers-rootfs")) - before
    async with start_sandbox(ENGINE, SMALL) as box:
        await box.write("state", "kept")
        name = await box.snapshot()
    async with start_sandbox(ENGINE, replace(SMALL, image=name)) as box:
        assert await box.read("state") == b"kept"
    for tag in (name, made):
        await ENGINE.engine.call("DELETE", f"/images/{tag}")


async def snapshots() -> set[str]:
    """Those of this process."""
    query = {"filters": {"reference": ["verifiers-snapshot"], "label": [f"{LABEL}run={RUN}"]}}
    found = await ENGINE.engine.call("GET", "/images/json", query=query)
    return {tag for each in found for tag in each["RepoTags"] or []}


async def test_what_a_dead_process_meant_for_itself_is_removed():
    """Its temporary snapshot, but not the one it took to keep, nor a living process's."""
    body = {"Labels": {LABEL_OWNER: "1.1.another-boot", LABEL_SNAPSHOT: "temporary"}}
    tag = f"{os.getpid()}-left"
    async with start_sandbox(ENGINE, SMALL) as box:
        mine = await box.snapshot(temporary=True)
        query = {"container": box.id, "repo": "verifiers-snapshot"}
        await ENGINE.engine.call("POST", "/commit", query={**query, "tag": tag}, body=body)
        body["Labels"][LABEL_SNAPSHOT] = "kept"
        await ENGINE.engine.call("POST", "/commit", query={**query, "tag": f"{tag}-kept"}, body=body)
    assert {mine, f"verifiers-snapshot:{tag}", f"verifiers-snapshot:{tag}-kept"} <= await snapshots()
    await ENGINE.prune()
    left = await snapshots()
    for name in (mine, f"verifiers-snapshot:{tag}-kept"):
        await ENGINE.remove_snapshot(name)

    assert {mine, f"verifiers-snapshot:{tag}-kept"} <= left
    assert f"verifiers-snapshot:{tag}" not in left


async def test_a_snapshot_in_use_is_not_removed_and_a_cancelled_one_is_not_left():
    before = await snapshots()
    async with start_sandbox(ENGINE, SMALL) as box:
        name = await box.snapshot()
        async with start_sandbox(ENGINE, replace(SMALL, image=name)):
            with pytest.raises(SandboxPolicyError, match="cannot be removed"):
                await ENGINE.remove_snapshot(name)
        await ENGINE.remove_snapshot(name)
        taking = asyncio.ensure_future(box.snapshot())
        await asyncio.sleep(0.02)
        taking.cancel()
        await asyncio.wait([taking])
        if not taking.cancelled():
            await ENGINE.remove_snapshot(taking.result())
    assert await snapshots() - before == set()


async def made_images(repo: str) -> list[str]:
    found = await ENGINE.engine.call("GET", "/images/json", query={"filters": {"reference": [repo]}})
    return [tag for each in found for tag in each["RepoTags"] or []]


@pytest.mark.parametrize(("harness", "reward"), [("oracle", 1.0), ("noop", 0.0), ("command:$PROGRAM", 1.0)])
async def test_a_task_is_done_in_one_container_and_graded_in_another(harness: str, reward: float):
    """A program without a network of its own reaches the model, and what it wrote is carried over."""
    ask = """
import json, os, urllib.request
body = {"messages": [{"role": "user", "content": os.environ["PROMPT"]}]}
headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
said = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)))
open("out.txt", "w").write(said["choices"][0]["message"]["content"])
"""
    row = {"question": "Write hello to out.txt", "solution": "echo hello > out.txt", "image": IMAGE}
    env = vf.TerminalEnv(eval_dataset=[{**row, "checks": [{"run": "cat out.txt", "stdout": "hello"}]}])
    harness = harness.replace("$PROGRAM", f"python3 -c {shlex.quote(ask)}")
    results = await env.evaluate(vf.ScriptedModel(["hello"]), harness=harness, sandbox="docker", max_retries=0)

    assert (results.records[0].reward, results.records[0].error) == (reward, None)
