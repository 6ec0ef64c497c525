"""A run of `SandboxEnv` that is killed or interrupted in the middle: its boxes, and those that waited, are gone."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import needs
from e2e.commands import environment
from verifiers.sandboxes import BoxInfo, get_backend
from verifiers.sandboxes.owner import RUN
from waiting import blocked_until

pytestmark = pytest.mark.timeout(900)  # whoever removes containers of an engine stays half a minute, for those to come

RUNNER = """
import asyncio, json, sys
import verifiers as vf
from verifiers.sandboxes.owner import RUN

backend, image, marker = sys.argv[1:]
line = f"setsid sleep {marker} >/dev/null 2>&1 & trap '' TERM INT HUP; sleep {marker} >/dev/null 2>&1 & sleep 0.4"

class Env(vf.SandboxEnv):
    finished = 0

    async def post_sandbox_setup(self, state):
        await self.box(state).expose(8000)

    async def post_rollout(self, state):
        self.finished += 1
        pools = state.session.boxes._pools.values()
        if self.finished >= 8 and sum(pool.waiting for pool in pools):
            print("ready", RUN, flush=True)

def reply(messages, tools, sampling):
    if messages[-1]["role"] == "tool":
        return "done"
    call = {"id": "c", "name": "bash", "arguments": json.dumps({"command": line})}
    return vf.AssistantMessage(content="", tool_calls=[call])

env = Env(
    eval_dataset=lambda: [{"question": "", "answer": ""}],
    backend=backend,
    docker_image=image or None,
    memory_gb=0.125,
    disk_size_gb=0.03,
)
asyncio.run(env.evaluate(vf.ScriptedModel(reply), num_examples=1, rollouts_per_example=10000, max_concurrent=4))
"""


def processes_with(text: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and text in (entry / "cmdline").read_text().split("\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def boxes_of(run: str, backend: str) -> list[BoxInfo]:
    return [box for box in asyncio.run(get_backend(backend).ls()) if box.run == run]


@pytest.fixture(params=["local", pytest.param("docker", marks=needs.DOCKER)])
def running(request, tmp_path):
    """(the process of a run with boxes in use and boxes that wait, its run id, its backend, what its commands are)."""
    marker = f"8{os.getpid() % 100000:05d}{time.monotonic_ns() % 1000:03d}"
    argv = [
        sys.executable,
        "-c",
        RUNNER,
        request.param,
        needs.DOCKER_IMAGE if request.param == "docker" else "",
        marker,
    ]
    env = environment(TMPDIR=str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    runner = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=tmp_path, text=True, start_new_session=True
    )
    assert runner.stdout is not None
    said = runner.stdout.readline().split()
    try:
        assert said[:1] == ["ready"], runner.stderr and runner.stderr.read()
        assert said[1] != RUN
        yield runner, said[1], request.param, marker
    finally:
        runner.kill()
        runner.communicate()


def test_a_killed_run_leaves_nothing(running, tmp_path):
    runner, run, backend, marker = running
    assert blocked_until(lambda: len(processes_with(marker)) >= 2)
    if backend == "docker":
        assert blocked_until(lambda: len(boxes_of(run, backend)) >= 4)
    runner.kill()
    runner.wait()

    assert blocked_until(lambda: not processes_with(marker))
    assert backend == "local" or blocked_until(lambda: not boxes_of(run, backend))
    assert blocked_until(lambda: not processes_with(str(runner.pid)))  # who removes containers is gone as well
    asyncio.run(get_backend(backend).prune())  # of local boxes empty cgroups may be left, for the next run to remove
    assert boxes_of(run, backend) == []
    _nothing_else(runner.pid, tmp_path)


def test_an_interrupted_run_ends_at_once_and_leaves_nothing(running, tmp_path):
    runner, run, backend, marker = running
    runner.send_signal(signal.SIGINT)
    assert runner.wait(200) != 0

    assert boxes_of(run, backend) == []
    assert blocked_until(lambda: not processes_with(marker))
    assert blocked_until(lambda: not processes_with(str(runner.pid)))
    _nothing_else(runner.pid, tmp_path)


def _nothing_else(pid: int, folder: Path) -> None:
    assert not [line for line in Path("/proc/mounts").read_text().splitlines() if line.startswith(("keeper ", "box "))]
    assert list((folder / "tmp").iterdir()) == []
    assert not list(Path(tempfile.gettempdir()).glob(f"vf-*{pid}.*"))
    if Path("/sys/fs/cgroup").is_dir():
        names = [name for _, folders, _ in os.walk("/sys/fs/cgroup") for name in folders]
        assert not [name for name in names if name.startswith(f"vf-{pid}.")]
