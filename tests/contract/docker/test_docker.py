"""The docker backend on a real engine: the shipped suites, then tasks done in its boxes.

`eval "$(.ci/docker-up)"` starts an engine of its own. CI fails without one, it does not skip.
"""

import shlex
from pathlib import Path

import pytest

import needs
import verifiers as vf
from verifiers.errors import (
    SandboxError,
)
from verifiers.sandboxes import Sandbox, SandboxSpec
from verifiers.sandboxes.docker import DockerBackend
from verifiers.sandboxes.docker.engine import EngineAddress
from verifiers.testing.allowlist import AllowListConformance
from verifiers.testing.isolation import IsolationConformance
from verifiers.testing.sandboxes import SandboxConformance
from verifiers.testing.snapshots import SnapshotConformance

pytestmark = needs.DOCKER
ENGINE = needs.docker_backend()
IMAGE = needs.DOCKER_IMAGE
SMALL = SandboxSpec(memory_mb=256, pids=64, disk_mb=64)


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


async def test_the_probe_tells_what_is_missing(tmp_path: Path):
    assert await ENGINE.probe() is None
    missing = DockerBackend(address=EngineAddress(str(tmp_path / "no.sock")))
    assert "DOCKER_HOST" in (await missing.probe() or "")
    with pytest.raises(SandboxError, match=r"no\.sock"):
        await missing.start(SMALL)


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
