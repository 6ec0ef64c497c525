"""A snapshot of a local box is of one moment: the box stands still, and notices nothing of it."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from verifiers.sandboxes import SandboxSpec, fork_sandbox, start_sandbox
from verifiers.sandboxes.local import LocalBackend
from waiting import until

SMALL = SandboxSpec(memory_mb=256, disk_mb=64, pids=64)
ALONE = """
import os
number = 0
files = [os.open(name, os.O_RDWR | os.O_CREAT) for name in ("first", "zlast")]
while True:
    number += 1
    for file in files:
        os.pwrite(file, b"%20d" % number, 0)
"""
HANDED_ON = """
import os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)

def fork():
    while True:
        try:
            return os.fork()
        except BlockingIOError:  # who clears the dead away may stand still already, and they count against the limit
            pass

files = [os.open(name, os.O_RDWR | os.O_CREAT) for name in ("first", "zlast")]
number = 0
while True:
    number += 1
    if fork():
        os._exit(0)
    for file in files:
        os.pwrite(file, b"%20d" % number, 0)
"""
FILL = "for i in $(seq 40); do head -c 400000 /dev/zero >between-$i; done"


@pytest.fixture
async def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A backend with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    engine = LocalBackend()
    yield engine
    await engine.close()


@pytest.mark.parametrize("writer", [ALONE, HANDED_ON], ids=["alone", "handed on"])
@pytest.mark.parametrize("user", [None, "user"])
async def test_two_files_written_in_step_are_in_step_in_each_copy(engine: LocalBackend, writer: str, user: str | None):
    """Between them lies what takes long to copy. The writer may be a process, or one after the other."""
    if user is not None and os.geteuid() != 0:
        pytest.skip("boxes of several users need root")
    async with start_sandbox(engine, replace(SMALL, user=user)) as box:
        await box.exec(f"touch first; {FILL}; touch zlast")
        await box.spawn(["python3", "-c", writer])

        async def numbers(where: object) -> list[int]:
            return [int(await where.read(name) or b"0") for name in ("first", "zlast")]  # pyright: ignore

        reached = 3

        async def further() -> bool:
            return min(await numbers(box)) > reached

        for _ in range(4):
            assert await until(further)
            async with fork_sandbox(box, backend=engine) as copy:
                first, last = await numbers(copy)
                assert 0 <= first - last <= 1
                reached = first


WATCHER = """
import os, signal, subprocess, sys
child = subprocess.Popen(["sleep", "600"])
print(child.pid, flush=True)
pid, status = os.waitpid(child.pid, os.WUNTRACED)
print(os.WIFSTOPPED(status), os.WTERMSIG(status))
"""


async def test_who_waits_for_a_child_does_not_find_it_stopped(engine: LocalBackend):
    async with start_sandbox(engine, SMALL) as box:
        watcher = await box.spawn(["python3", "-c", WATCHER])
        child = int(await watcher.stdout.readline())
        for _ in range(5):
            await engine.remove_snapshot(await box.snapshot())
        await box.exec(f"kill -9 {child}")
        assert await watcher.stdout.readline() == b"False 9\n"


async def test_what_a_box_has_stopped_stays_stopped(engine: LocalBackend):
    state = "cut -d' ' -f3 /proc/$(cat pid)/stat"
    async with start_sandbox(engine, SMALL) as box:
        await box.exec("sleep 600 >/dev/null 2>&1 & echo $! >pid; kill -STOP $!")

        async def stopped() -> bool:
            return (await box.exec(state)).stdout == "T\n"

        assert await until(stopped)
        await engine.remove_snapshot(await box.snapshot())
        assert await stopped()
        await box.exec("kill -CONT $(cat pid)")
        assert (await box.exec(state)).stdout != "T\n"


async def test_what_is_traced_goes_on_as_before(engine: LocalBackend):
    """Its tracer would be told of a signal, and hand it on when the box is in motion again."""
    tracer = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None)
pid = os.fork()
if pid == 0:
    libc.ptrace(0, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
    while True:
        os.getppid()
os.waitpid(pid, 0)
print("tracing", flush=True)
for _ in range(1 << 40):
    libc.ptrace(24, pid, None, None)  # PTRACE_SYSCALL
    _, status = os.waitpid(pid, 0)
    if os.WSTOPSIG(status) != signal.SIGTRAP:
        print("stopped by", os.WSTOPSIG(status), flush=True)
"""
    async with start_sandbox(engine, SMALL) as box:
        process = await box.spawn(["python3", "-c", tracer])
        assert await process.stdout.readline() == b"tracing\n"
        for _ in range(3):
            await engine.remove_snapshot(await box.snapshot())
        await process.kill()
        assert await process.stdout.read() == b""


async def test_a_box_goes_on_when_nobody_takes_its_copy(engine: LocalBackend):
    async with start_sandbox(engine, SMALL) as box:
        await box.exec(FILL)
        ours, theirs = os.pipe()
        await (await engine.keeper()).copy(box.id, "root", theirs)
        os.close(theirs)
        await asyncio.to_thread(os.read, ours, 1)
        os.close(ours)
        assert (await asyncio.wait_for(box.exec("echo on"), 60)).stdout == "on\n"


async def test_copies_at_once_are_of_one_moment_each(engine: LocalBackend):
    async with start_sandbox(engine, SMALL) as box:
        await box.exec(f"touch first; {FILL}; touch zlast")
        await box.spawn(["python3", "-c", ALONE])
        names = await asyncio.gather(*(box.snapshot() for _ in range(4)))
        for name in names:
            async with start_sandbox(engine, replace(SMALL, image=name)) as copy:
                first, last = [int(await copy.read(file) or b"0") for file in ("first", "zlast")]
                assert 0 <= first - last <= 1
