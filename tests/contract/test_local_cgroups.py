"""Limits of local boxes as the kernel has them, and what cgroups of version 2 take to be used."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from verifiers.errors import SandboxLimitError
from verifiers.sandboxes import Sandbox, SandboxSpec, get_backend, start_sandbox
from verifiers.sandboxes.local import LocalBackend
from verifiers.sandboxes.local.keeper import cgroups, delegated, kernel, seats, unified

FILES = {
    "memory": ("memory.max", "memory.limit_in_bytes"),
    "cpu": ("cpu.max", "cpu.cfs_quota_us"),
    "pids": ("pids.max",),
}


def folders_of(box: str) -> list[Path]:
    return [Path(at, name) for at, names, _ in os.walk("/sys/fs/cgroup") for name in names if name == box]


async def fill(box: Sandbox) -> None:
    for _ in range(20):
        await box.exec("head -c 150000000 /dev/zero >/tmp/full; echo more >>/tmp/more", timeout_s=60)


@pytest.fixture
def limited() -> LocalBackend:
    backend = get_backend("local")
    assert isinstance(backend, LocalBackend)
    return backend


async def cgroups_of(backend: LocalBackend) -> list[str]:
    return (await backend.keeper()).cgroups


async def test_the_kernel_has_the_limits(limited: LocalBackend):
    if not {"memory", "cpu"} <= set(await cgroups_of(limited)):
        pytest.skip("this user may make no cgroups: run the tests as root, or log in where systemd delegates them")
    spec = SandboxSpec(memory_mb=96, cpus=0.5, pids=48, disk_mb=16, user="root")
    async with start_sandbox("local", spec) as box:
        found = {
            name: (folder / name).read_text().split()[0]
            for folder in folders_of(box.id)
            for names in FILES.values()
            for name in names
            if (folder / name).exists()
        }
        inside = (await box.exec("cat /proc/self/cgroup; ls /sys/fs/cgroup")).stdout

    assert str(96 << 20) in (found.get("memory.max"), found.get("memory.limit_in_bytes"))
    assert "50000" in (found.get("cpu.max"), found.get("cpu.cfs_quota_us"))
    assert found["pids.max"] == "48" or os.geteuid() != 0
    assert box.id not in inside
    assert not folders_of(box.id)


async def test_a_disk_that_fills_the_memory_ends_the_box(limited: LocalBackend):
    if "memory" not in await cgroups_of(limited):
        pytest.skip("this user may make no cgroups: run the tests as root, or log in where systemd delegates them")
    async with start_sandbox("local", SandboxSpec(memory_mb=64, disk_mb=200)) as box:
        with pytest.raises(SandboxLimitError, match="out of its memory"):
            await fill(box)


def memory_folder(box: str) -> Path:
    """Its memory cgroup of version 1, which keeps its inode under every name."""
    found = [folder for folder in folders_of(box) if (folder / "memory.limit_in_bytes").exists()]
    if not found:
        pytest.skip("needs cgroups of version 1 that this user may make")
    return found[0]


async def until_reused(inode: int, spec: SandboxSpec, *, patience_s: float = 60) -> Sandbox:
    """A running box that has the memory cgroup `inode`."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        box = await get_backend("local").start(spec)
        if memory_folder(box.id).stat().st_ino == inode:
            return box
        await box.stop()
    raise AssertionError("the cgroup was not taken again")


async def test_a_cgroup_is_taken_again_without_a_trace_of_the_box_before():
    async with start_sandbox("local", SandboxSpec(memory_mb=192, disk_mb=120)) as first:
        await first.exec("head -c 100000000 /dev/zero >/tmp/full; tail -c 60000000 /tmp/full | tail -n 1 | wc -c")
        inode = memory_folder(first.id).stat().st_ino
    second = await until_reused(inode, SandboxSpec(memory_mb=64, disk_mb=48))
    try:
        folder = memory_folder(second.id)
        limit, used = ((folder / f"memory.{name}_in_bytes").read_text().strip() for name in ("limit", "usage"))
        filled = await second.exec(
            "head -c 40000000 /dev/zero >/tmp/full && stat -c %s /tmp/full; ls -A /tmp /workspace"
        )
        again = await second.exec("echo alive")
    finally:
        await second.stop()

    assert limit == str(64 << 20)
    assert int(used) < 8 << 20
    assert filled.stdout == "40000000\n/tmp:\nfull\n\n/workspace:\n"
    assert again.stdout == "alive\n"


async def test_a_box_that_runs_out_of_memory_is_told_from_the_one_before():
    async with start_sandbox("local", SandboxSpec(memory_mb=64, disk_mb=16)) as first:
        inode = memory_folder(first.id).stat().st_ino
    second = await until_reused(inode, SandboxSpec(memory_mb=64, disk_mb=200))
    with pytest.raises(SandboxLimitError, match="out of its memory"):
        await fill(second)
    await second.stop()
    for _ in range(40):  # more than wait to be taken again
        async with start_sandbox("local", SandboxSpec(memory_mb=64, disk_mb=16)) as box:
            assert memory_folder(box.id).stat().st_ino != inode
            assert (await box.exec("echo alive")).stdout == "alive\n"


@pytest.mark.parametrize(("around_mb", "own_mb"), [(64, 256), (256, 64)])
def test_a_lower_limit_around_all_boxes_is_no_fault_of_one(around_mb: int, own_mb: int):
    mine, limits = cgroups.Cgroups(f"test-{os.getpid()}"), {"memory_mb": own_mb, "pids": 0, "cpus": 0}
    try:
        if "memory" not in mine.folders:
            pytest.skip("needs cgroups of version 1 that this user may make")
        around = Path(cgroups.own_cgroups()["memory"], mine.name)
        (around / "memory.limit_in_bytes").write_text(str(around_mb << 20))
        mine.make("box", limits)
        pid = mine.fork("box", limits)
        if pid == 0:
            mine.enter("box", limits)
            os.execv(sys.executable, [sys.executable, "-c", "b'x' * (128 << 20)"])
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL

        assert mine.was_out_of_memory("box") == (own_mb < around_mb)
    finally:
        mine.remove_all()


async def test_ended_boxes_leave_few_cgroups(limited: LocalBackend):
    async with start_sandbox("local", SandboxSpec(memory_mb=64, disk_mb=16)) as box:
        parent = memory_folder(box.id).parent
    for _ in range(60):
        async with start_sandbox("local", SandboxSpec(memory_mb=64, disk_mb=16)) as box:
            await box.exec(["/bin/true"])

    assert len([path for path in parent.iterdir() if path.is_dir()]) <= seats.KEPT + seats.MOST + 1
    assert all(name.startswith("seat-") for name in os.listdir(parent) if (parent / name).is_dir())


def waiting_below(pid: int) -> list[int]:
    """Bubblewraps that wait to become boxes, below process `pid`."""
    found: list[int] = []
    with contextlib.suppress(OSError):  # it has ended meanwhile
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            below = waiting_below(int(child))
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            found += [int(child)] if b"--args" in words and not below else below
    return found


def all_reaped(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


async def test_boxes_start_where_those_that_waited_have_died(limited: LocalBackend):
    spec = SandboxSpec(memory_mb=64, disk_mb=16)
    async with start_sandbox("local", spec) as box:
        memory_folder(box.id)
    keeper = await limited.keeper()
    deadline = time.monotonic() + 60
    while not waiting_below(keeper.process.pid) and time.monotonic() < deadline:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)
    waiting = waiting_below(keeper.process.pid)
    for pid in waiting:
        os.kill(pid, signal.SIGKILL)
    while not all_reaped(waiting) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    said = []
    for number in range(4):
        async with start_sandbox("local", spec) as box:
            said.append((await box.exec(["/bin/echo", str(number)])).stdout)

    assert waiting
    assert said == [f"{number}\n" for number in range(4)]


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A fresh cgroup of version 2, with or without controllers."""
    own = delegated.own_folders()
    if not own or os.geteuid() != 0:
        pytest.skip("needs root and a mounted cgroup2: run the tests as root")
    folder = Path(tempfile.mkdtemp(prefix="verifiers-test-", dir=own[-1]))
    try:
        yield folder
    finally:
        for below in (folder / delegated.LEAF, folder):
            with contextlib.suppress(FileNotFoundError):
                below.rmdir()


def test_a_child_is_born_in_a_cgroup(cgroup: Path):
    fd = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY)
    read, write = os.pipe()
    pid = kernel.fork_into(fd)
    if pid == 0:
        try:
            os.write(write, next(line for line in Path("/proc/self/cgroup").read_bytes().split() if b"0::" in line))
        finally:
            os._exit(0)
    os.close(fd)

    assert os.waitpid(pid, 0) == (pid, 0)
    assert os.read(read, 4096).decode().endswith(f"/{cgroup.name}")
    os.close(read)
    os.close(write)


def test_what_is_no_cgroup_is_an_error_and_no_child(tmp_path: Path):
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    with pytest.raises(OSError, match="clone3"):
        kernel.fork_into(fd)
    os.close(fd)


def test_processes_make_room_for_cgroups_below_theirs(cgroup: Path):
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        (cgroup / "cgroup.procs").write_text(str(sleeper.pid))
        delegated.make_room(str(cgroup))

        assert delegated.processes_in(str(cgroup)) == []
        assert delegated.processes_in(f"{cgroup}/{delegated.LEAF}") == [sleeper.pid]
    finally:
        sleeper.kill()
        sleeper.wait()


def test_the_whole_machines_processes_are_never_moved(cgroup: Path):
    if not cgroup.parent.joinpath("cgroup.type").exists():
        with pytest.raises(PermissionError, match="whole machine"):
            delegated.make_room(str(cgroup.parent))
    else:  # the root of a container's own view
        assert delegated.own_folders()[-1] == str(cgroup.parent)


def test_boxes_never_leave_a_memory_limit(tmp_path: Path):
    folders = [str(tmp_path / name) for name in ("job/step", "job", ".")]
    for folder, limit in zip(folders, ("max", "1000000", None), strict=True):
        Path(folder).mkdir(parents=True, exist_ok=True)
        if limit is not None:
            Path(folder, "memory.max").write_text(f"{limit}\n")

    assert delegated.reachable(folders) == folders[:2]
    assert delegated.reachable(folders[2:]) == folders[2:]


def test_a_cgroup_with_processes_is_left_as_it_is(cgroup: Path):
    """Handing on `pids` alone would be possible, and would forbid the children everything else."""
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        (cgroup / "cgroup.procs").write_text(str(sleeper.pid))
        unified._enable(str(cgroup))  # pyright: ignore[reportPrivateUsage] - what may not be done here

        assert (cgroup / "cgroup.subtree_control").read_text().strip() == ""
        assert (cgroup / "cgroup.type").read_text().strip() == "domain"
    finally:
        sleeper.kill()
        sleeper.wait()
