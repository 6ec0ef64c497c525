"""Local boxes in processes with several event loops: in threads, and in forked children."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from verifiers.errors import SandboxLostError
from verifiers.sandboxes import SandboxSpec, start_sandbox
from verifiers.sandboxes.local.snapshots import LocalSandbox
from waiting import blocked_until

SPEC = SandboxSpec(memory_mb=64, disk_mb=16)
MARKER = f"8642{os.getpid()}"  # of this process: the tests may run twice at once
SOURCE = str(Path(__file__).parents[2] / "src")
IN_CHILD = """
import asyncio, os, sys
from verifiers.sandboxes import SandboxSpec, start_sandbox
spec = SandboxSpec(memory_mb=64, disk_mb=16)
async def once(word):
    async with asyncio.timeout(120), start_sandbox("local", spec) as box:
        print((await box.exec(["echo", word])).stdout.strip(), flush=True)
async def main():
    async with start_sandbox("local", spec) as box:
        await box.exec("true")
        pid = os.fork()
        if pid == 0:
            asyncio.run(once("child"))
            sys.stdout.flush()
            %s
        os.waitpid(pid, 0)
        await once("other")
        print((await asyncio.wait_for(box.exec("echo mine"), 120)).stdout.strip(), flush=True)
asyncio.run(main())
"""
HOLDING = """
import asyncio, os, time
from verifiers.sandboxes import SandboxSpec, start_sandbox
async def main():
    async with start_sandbox("local", SandboxSpec(memory_mb=64, disk_mb=16)) as box:
        await box.spawn(["sleep", "MARKER"])
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
            os._exit(0)
        print(pid, flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


async def test_threads_with_loops_of_their_own_have_boxes_at_the_same_time():
    said: list[str] = []

    async def use() -> None:
        for _ in range(3):
            async with start_sandbox("local", SPEC) as box:
                said.append((await box.exec("sleep 0.1; echo first", timeout_s=120)).stdout)
                said.append((await box.exec("sleep 0.1; echo second", timeout_s=120)).stdout)

    threads = [threading.Thread(target=asyncio.run, args=(use(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    await use()
    for thread in threads:
        await asyncio.to_thread(thread.join, 120)

    assert sorted(said) == ["first\n"] * 15 + ["second\n"] * 15


async def test_boxes_start_again_as_soon_as_a_keeper_is_gone():
    async with start_sandbox("local", SPEC) as box:
        assert isinstance(box, LocalSandbox)
        os.kill(child_of(box.keeper.process.pid), signal.SIGKILL)
        with pytest.raises(SandboxLostError):
            await asyncio.wait_for(box.exec("sleep 600"), 120)
        async with start_sandbox("local", SPEC) as other:
            assert (await other.exec("echo again")).stdout == "again\n"


@pytest.mark.parametrize("end", ["os._exit(0)", "import atexit; atexit._run_exitfuncs(); os._exit(0)"])
def test_a_forked_child_has_boxes_of_its_own_and_leaves_its_parents_alone(end: str):
    argv = [sys.executable, "-c", IN_CHILD % end]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=250, check=False, env={**os.environ, "PYTHONPATH": SOURCE}
    )

    assert done.stdout.split() == ["child", "other", "mine"], done.stderr


def test_boxes_end_with_their_runner_although_a_forked_child_lives_on():
    code = HOLDING.replace("MARKER", MARKER)
    runner = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": SOURCE}
    )
    assert runner.stdout is not None
    child = int(runner.stdout.readline())
    try:
        assert blocked_until(lambda: bool(sleepers()))
        runner.kill()
        runner.wait()
        runner.stdout.close()
        assert blocked_until(lambda: not sleepers())
    finally:
        os.kill(child, 9)


def child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())


def sleepers() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == f"sleep\0{MARKER}\0".encode():
                found.append(path.parent.name)
        except OSError:
            continue  # it has ended
    return found
