"""Images without a Python: a static BusyBox over the whole contract, and one static program with nothing beside it."""

import ast
import asyncio
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

import verifiers as vf
from verifiers.errors import SandboxError, SandboxExecError, SandboxStartError
from verifiers.harnesses.loading import load_harness
from verifiers.proxy.gateway import MCP_STDIO, RELAY
from verifiers.sandboxes import Backend, SandboxSpec, agent, carried, start_sandbox
from verifiers.sandboxes.docker import DockerBackend
from verifiers.sandboxes.docker.engine import EngineError
from verifiers.sandboxes.docker.images import tree_digest
from verifiers.sandboxes.local import LocalBackend
from verifiers.sandboxes.local.images import ImageStore
from verifiers.testing.sandboxes import SandboxConformance

BUSYBOX = shutil.which("busybox", path="/usr/bin:/bin")
SMALL = SandboxSpec(memory_mb=256, disk_mb=64, pids=64)
FILES_USED = (
    "import sys, posix\nprint(sys.path, *sorted({line.split()[5] for line in open('/proc/self/maps') if '/' in line}))"
)

IMAGE = os.environ.get("VF_TEST_DOCKER_IMAGE", "verifiers-test:bookworm")
ENGINE = DockerBackend(default_image=IMAGE)
MADE = set[str]()

needs_engine = pytest.mark.skipif(
    "VF_TEST_DOCKER_IMAGE" not in os.environ and "VERIFIERS_CI" not in os.environ,
    reason='needs a container engine with the test image: eval "$(.ci/docker-up)"',
)
each_backend = pytest.mark.parametrize("backend", ["local", pytest.param(ENGINE, id="docker", marks=needs_engine)])
needs_busybox = pytest.mark.skipif(BUSYBOX is None, reason="needs a static BusyBox; install busybox-static")


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    """What these tests keep stays out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def busybox_root(tmp_path_factory) -> Path:
    """What an Alpine-like image has: BusyBox, user files, nothing of a libc."""
    root = tmp_path_factory.mktemp("busybox")
    for name in ("bin", "etc", "tmp", "root"):
        (root / name).mkdir()
    (root / "tmp").chmod(0o1777)
    assert BUSYBOX is not None
    shutil.copy(BUSYBOX, root / "bin/busybox")
    for name in subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nalice:x:1234:1234::/tmp:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nalice:x:1234:\n")
    (root / "etc/of-this-run").write_bytes(os.urandom(8))  # no other suite's image has the name its content gives
    MADE.add(f"verifiers-rootfs:{tree_digest(root)}")
    return root


@pytest.fixture(scope="session")
def scratch_root(tmp_path_factory) -> Path:
    """`FROM scratch` and one file. BusyBox under this name knows one command: the one its arguments name."""
    root = tmp_path_factory.mktemp("scratch")
    assert BUSYBOX is not None
    (root / "busybox-program").write_bytes(Path(BUSYBOX).read_bytes() + os.urandom(8))
    (root / "busybox-program").chmod(0o755)
    MADE.add(f"verifiers-rootfs:{tree_digest(root)}")
    return root


@needs_busybox
class TestBusyBoxLocal(SandboxConformance):
    backend = "local"
    python = carried.PYTHON

    @pytest.fixture(autouse=True)
    def on_busybox(self, busybox_root: Path, monkeypatch):
        monkeypatch.setattr(type(self), "spec", replace(SandboxConformance.spec, rootfs=busybox_root))


@needs_busybox
@needs_engine
class TestBusyBoxDocker(SandboxConformance):
    backend = ENGINE
    python = carried.PYTHON

    @pytest.fixture(autouse=True)
    def on_busybox(self, busybox_root: Path, monkeypatch):
        monkeypatch.setattr(type(self), "spec", replace(SandboxConformance.spec, rootfs=busybox_root))


@pytest.fixture(scope="module", autouse=True)
def no_images_stay():
    """In the engine, which may be somebody's."""
    yield
    if "DOCKER_HOST" in os.environ:
        asyncio.run(_remove_made_images())


async def _remove_made_images() -> None:
    for name in MADE:
        with suppress(SandboxError):
            await ENGINE.engine.call("DELETE", f"/images/{name}")


@needs_busybox
@each_backend
async def test_one_static_program_is_image_enough(scratch_root: Path, backend: str | Backend):
    async with start_sandbox(backend, replace(SMALL, rootfs=scratch_root, files={"in/f": "text"})) as box:
        assert (await box.exec(["/busybox-program", "cat", "in/f"])).stdout == "text"
        assert await box.read("in/f") == b"text"
        for user in (None, "1234:1234") if os.geteuid() == 0 else (None,):
            with pytest.raises(SandboxExecError, match="no /bin/sh: give the command as a list"):
                await box.exec("echo hello", user=user)
        with pytest.raises(SandboxExecError, match="no such program"):
            await box.exec(["echo", "hello"])


@needs_busybox
async def test_what_an_image_tells_loaders_reaches_commands_and_no_program_of_ours(busybox_root: Path, tmp_path: Path):
    """With LD_DEBUG=help no program that has a loader gets further than its loader."""
    settings = {"LD_DEBUG": "help", "LD_PRELOAD": "/bin/busybox", "LANG": "de_DE.ISO-8859-1", "IMAGE": "ä=b"}
    root = shutil.copytree(busybox_root, tmp_path / "root", symlinks=True)
    (root / "mine").touch()
    ImageStore().add(root, name="tells-loaders:1", env=settings)
    async with start_sandbox("local", replace(SMALL, image="tells-loaders:1", env={"LD_AUDIT": "x"})) as box:
        shown = (await box.exec("env")).stdout

    assert {f"{name}={value}" for name, value in (settings | {"LD_AUDIT": "x"}).items()} <= set(shown.splitlines())


@needs_busybox
@needs_engine
async def test_the_same_in_containers_their_other_users_and_their_snapshots(busybox_root: Path, tmp_path: Path):
    root = shutil.copytree(busybox_root, tmp_path / "root", symlinks=True)
    (root / "Dockerfile").write_text('FROM scratch\nCOPY . /\nENV LD_DEBUG=help LD_PRELOAD="a b"\nUSER alice\n')
    spec = replace(SMALL, image=f"build:{root}", env={"LD_AUDIT": "x"})
    wanted = {"LD_DEBUG=help", "LD_PRELOAD=a b", "LD_AUDIT=x"}
    MADE.add(f"verifiers-build:{tree_digest(root)}")
    async with start_sandbox(ENGINE, spec) as box:
        await box.write("kept", "by alice")
        mine, roots = await box.exec("id -un; env"), await box.exec("id -un; env", user="root")
        name = await box.snapshot()
    MADE.add(name)
    async with start_sandbox(ENGINE, replace(spec, image=name)) as box:
        copy = await box.exec("id -un; env; cat kept; find / -xdev -name '.agent' -o -name agent.pyc")

    assert wanted | {"alice"} <= set(mine.stdout.splitlines())
    assert wanted | {"root"} <= set(roots.stdout.splitlines())
    assert wanted | {"alice", "by alice"} <= set(copy.stdout.splitlines())
    assert ".agent\n" not in copy.stdout


@needs_busybox
@needs_engine
async def test_an_engine_of_another_system_is_given_the_python_of_an_image(busybox_root: Path, monkeypatch):
    """As Docker Desktop's: nothing of this machine runs there."""
    monkeypatch.setattr("sys.platform", "darwin")
    backend = DockerBackend(default_image=IMAGE)
    async with start_sandbox(backend, replace(SMALL, rootfs=busybox_root)) as box:
        ran = await box.exec([*carried.PYTHON, "-c", "import sys; print(sys.prefix)"])
    theirs = await backend.agents.get("")
    ours = await ENGINE.agents.get((await ENGINE.images.resolve(SandboxSpec()))["Id"])
    with suppress(EngineError):  # another suite's box has it
        await ENGINE.engine.call("DELETE", f"/volumes/{theirs.name}")

    assert ran.stdout == f"{carried.PLACE}\n"
    assert theirs.name != ours.name


@needs_busybox
@each_backend
async def test_the_carried_python_uses_nothing_of_the_image_and_cannot_be_changed(
    busybox_root: Path, backend: str | Backend
):
    async with start_sandbox(backend, replace(SMALL, rootfs=busybox_root)) as box:
        ran = await box.exec([*carried.PYTHON, "-c", FILES_USED])
        changed = await box.exec(
            f"touch {carried.PLACE}/x {carried.PLACE}/so/x; rm -r {carried.PLACE}; chmod u+w {carried.PLACE}"
        )
        hidden = await box.exec("cat /proc/1/environ /proc/1/maps; readlink /proc/1/exe /proc/1/fd/0")
        left = (await box.exec("ls -A /")).stdout.split()

    assert ran.stderr == ""
    assert [path for path in ran.stdout.split() if "/" in path and carried.PLACE not in path] == []
    assert "Read-only" in changed.stderr
    assert hidden.stdout == ""
    assert set(left) <= {"bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "workspace", ".dockerenv"}


def double(number: int) -> int:
    """Twice a number.

    Args:
        number: what is doubled.
    """
    return 2 * number


PROGRAM = """
tools() { /tmp/.verifiers/python3 -I -S /tmp/.verifiers/mcp.py /tmp/.verifiers/model.sock "$OPENAI_API_KEY"; }
answer=$(tools <<'END'
{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "double", "arguments": {"number": 21}}}
END
)
case $answer in *42*) said="double 42" ;; *) said="no tool" ;; esac
wget -q -O /tmp/said --header "Authorization: Bearer $OPENAI_API_KEY" --header "Content-Type: application/json" \\
  --post-data '{"model": "m", "messages": [{"role": "user", "content": "'"$said"'"}]}' $OPENAI_BASE_URL/chat/completions
"""


@needs_busybox
@pytest.mark.parametrize("backend", ["local", pytest.param("docker", marks=needs_engine)])
async def test_programs_reach_the_model_and_tools_from_boxes_without_a_python(busybox_root: Path, backend: str):
    env = vf.ToolEnv(
        tools=[double],
        eval_dataset=[{"question": "?", "answer": "double 42"}],
        rubric=vf.Rubric([lambda state: float("double 42" in str(state["trajectory"][0]["prompt"]))]),
        sandbox_spec=replace(SMALL, rootfs=busybox_root),
    )
    harness = load_harness(f"command:{PROGRAM}", grace_s=1.0)
    results = await env.evaluate(vf.ScriptedModel(["fine"]), harness=harness, sandbox=backend, max_retries=0)

    assert (results.records[0].reward, results.records[0].error) == (1.0, None)


def imports_of(text: str) -> set[str]:
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import)]
    return {name.name for node in found for name in node.names} - {"sys"}


def test_everything_that_runs_on_it_is_packed():
    packed = {
        ast.unparse(node.targets[0]): node.value
        for node in ast.parse(carried.PACK.read_text()).body
        if isinstance(node, ast.Assign)
    }

    assert imports_of(agent.source()) <= set(ast.literal_eval(packed["AGENT_NEEDS"]))
    scripts = imports_of(RELAY.read_text()) | imports_of(MCP_STDIO.read_text())
    assert scripts <= set(ast.literal_eval(packed["SCRIPTS_NEED"]))


@pytest.mark.parametrize("python", sorted({sys.executable, *filter(os.path.exists, carried.PYTHONS)}))
def test_a_packed_python_finds_all_it_needs_in_its_own_tree(tmp_path: Path, monkeypatch, python: str):
    monkeypatch.setattr(carried, "PYTHONS", (python,))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = str(carried.unpacked())
    argv = [word.replace(carried.PLACE, folder) for word in carried.PYTHON]
    code = f"import http.client, json, selectors, socket, threading\n{FILES_USED}"
    ran = subprocess.run([*argv, "-c", code], capture_output=True, text=True, check=False, env={"LC_ALL": "C"})

    assert ran.stderr == ""
    assert [path for path in ran.stdout.split() if folder not in path] == []


def test_packing_happens_once_and_other_users_may_run_it(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    old = os.umask(0o077)
    try:
        folder = carried.unpacked()
    finally:
        os.umask(old)
    made = carried.packed().stat().st_mtime_ns

    assert carried.unpacked() == folder
    assert carried.packed().stat().st_mtime_ns == made
    assert sorted(os.listdir(tmp_path / "verifiers/agents")) == [folder.name, f"{folder.name}.tar"]
    assert {path.stat().st_mode & 0o777 for path in [folder, *folder.rglob("*")]} == {0o755}


def test_a_machine_without_a_python_to_carry_says_so(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(carried, "PYTHONS", ())
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(SandboxStartError, match="no Python here can be carried"):
        carried.packed()


def test_a_damaged_tar_says_so_once(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tar = carried.packed()
    os.truncate(tar, 100_000)
    with pytest.raises(SandboxStartError, match="was damaged"):
        carried.unpacked()
    assert (carried.unpacked() / carried.LAST).exists()


async def test_a_cache_that_cannot_be_written_is_a_start_error(tmp_path: Path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(SandboxStartError, match="cache folder"):
        await LocalBackend().start(SandboxSpec(memory_mb=64, disk_mb=16))
