"""After SIGKILL of the process that started boxes nothing is left: no process, mount, cgroup, port or folder."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from verifiers.cli import sandbox as command
from verifiers.sandboxes import get_backend
from waiting import blocked_until

RUNNER = """
import asyncio, sys
from verifiers.sandboxes import SandboxSpec, start_sandbox

async def main(backend, marker):
    boxes = [start_sandbox(backend, SandboxSpec(memory_mb=64, disk_mb=16)) for _ in range(4)]
    for box in [await context.__aenter__() for context in boxes]:
        await box.exec(f"sleep {marker} >/dev/null 2>&1 & setsid sleep {marker} >/dev/null 2>&1 &")
        await box.expose(8000)
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""


def processes_with(marker: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and f"sleep\0{marker}\0" in (entry / "cmdline").read_text():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def cgroups_of(pid: int) -> list[str]:
    names = [name for _, folders, _ in os.walk("/sys/fs/cgroup") for name in folders]
    return [name for name in names if name.startswith(f"vf-{pid}.")]


def start_runner(backend: str, marker: str) -> subprocess.Popen:
    source = str(Path(__file__).resolve().parents[2] / "src")
    env = {**os.environ, "PYTHONPATH": source}
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, backend, marker], stdout=subprocess.PIPE, env=env)
    assert runner.stdout is not None
    assert runner.stdout.readline() == b"ready\n"
    return runner


@pytest.mark.parametrize("backend", ["local", "unsafe-local"])
def test_a_killed_runner_leaves_nothing(backend: str, capsys: pytest.CaptureFixture[str]):
    marker = f"9{os.getpid() % 100000:05d}{len(backend)}"
    runner = start_runner(backend, marker)
    try:
        assert blocked_until(lambda: len(processes_with(marker)) == 8)
        assert command.main(["ls", "--backend", backend, "--json"]) == 0
        listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert sum(box["owner_alive"] for box in listed) >= 4 or (backend == "local" and os.geteuid() != 0)
    finally:
        runner.kill()
        runner.wait()
        runner.stdout.close()

    assert blocked_until(lambda: not processes_with(marker))
    assert command.main(["prune", "--backend", backend]) == 0
    capsys.readouterr()
    assert command.main(["ls", "--backend", backend, "--json"]) == 0
    assert not [line for line in capsys.readouterr().out.splitlines() if not json.loads(line)["owner_alive"]]
    assert not [line for line in Path("/proc/mounts").read_text().splitlines() if line.startswith(("keeper ", "box "))]
    assert not [path for path in Path("/tmp").glob("vf-unsafe-*") if f"{runner.pid}." in path.name]
    assert blocked_until(lambda: not cgroups_of(runner.pid))


def test_a_killed_keeper_is_a_lost_box_and_the_next_start_works():
    from verifiers.errors import SandboxLostError
    from verifiers.sandboxes import SandboxSpec, start_sandbox

    async def check() -> None:
        async with start_sandbox("local", SandboxSpec(disk_mb=16)) as box:
            keeper = await get_backend("local").keeper()  # pyright: ignore - the process under test
            os.kill(keeper.process.pid, signal.SIGKILL)
            with pytest.raises(SandboxLostError):
                await asyncio.wait_for(box.exec("sleep 600"), 120)
        async with start_sandbox("local", SandboxSpec(disk_mb=16)) as box:
            assert (await box.exec("echo again")).stdout == "again\n"

    asyncio.run(check())
