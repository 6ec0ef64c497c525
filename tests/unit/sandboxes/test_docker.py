"""What the docker backend works out without an engine."""

import asyncio
import dataclasses
import json
import os
import tempfile
from pathlib import Path

import pytest

from verifiers.errors import ConfigError
from verifiers.sandboxes import SandboxSpec
from verifiers.sandboxes.docker.engine import Attached, EngineAddress, engine_address
from verifiers.sandboxes.docker.images import tree_digest
from verifiers.sandboxes.docker.spec import box_info, container
from verifiers.sandboxes.marks import NEVER_STARTED_MAX_AGE_S, marks
from verifiers.sandboxes.owner import current_owner


def test_the_engine_is_the_one_that_docker_host_names(tmp_path: Path):
    socket = tmp_path / "podman" / "podman.sock"
    socket.parent.mkdir()
    socket.touch()

    assert engine_address({"DOCKER_HOST": "unix:///run/x.sock"}) == EngineAddress("/run/x.sock")
    assert engine_address({"DOCKER_HOST": "tcp://127.0.0.1:2375"}) == EngineAddress(None, "127.0.0.1", 2375)
    for environ in ({"DOCKER_HOST": "ssh://x"}, {"DOCKER_HOST": "tcp://x:1", "DOCKER_TLS_VERIFY": "1"}):
        with pytest.raises(ConfigError, match="unix://"):
            engine_address(environ)
    found = engine_address({"XDG_RUNTIME_DIR": str(tmp_path)}).path
    assert found in (str(socket), "/var/run/docker.sock", "/run/podman/podman.sock")


def found_by_an_ordinary_user(runtime: Path) -> str:
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        return str(engine_address({"XDG_RUNTIME_DIR": str(runtime)}).path)
    finally:
        os.seteuid(user)


def test_what_is_closed_to_this_user_is_no_engine():
    """A folder that may not be entered, and a socket of root's beside one of this user's own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "podman").mkdir(mode=0)
        assert not found_by_an_ordinary_user(folder).startswith(name)

        (folder / "podman").chmod(0o755)
        for socket, mode in (("docker.sock", 0), ("podman/podman.sock", 0o666)):
            (folder / socket).touch()
            (folder / socket).chmod(mode)
        assert found_by_an_ordinary_user(folder) != f"{folder}/docker.sock"


def test_a_container_gets_limits_and_no_rights():
    spec = SandboxSpec(memory_mb=64, cpus=0.5, pids=9, disk_mb=3, env={"A": "b=c"}, user="1000:1000")
    body = container(spec, "img", ["agent"], quota=False)
    given = body["HostConfig"]

    assert (given["Memory"], given["MemorySwap"], given["NanoCpus"]) == (64 << 20, 64 << 20, 500_000_000)
    assert (given["PidsLimit"], given["NetworkMode"], given["IpcMode"]) == (9, "none", "private")
    assert (given["CapDrop"], given["SecurityOpt"]) == (["ALL"], ["no-new-privileges"])
    assert {"Name": "fsize", "Soft": 3 << 20, "Hard": 3 << 20} in given["Ulimits"]
    assert not {"Privileged", "Binds", "Mounts", "CapAdd", "Devices", "StorageOpt"} & set(given)
    assert (body["User"], body["Env"], body["StdinOnce"]) == ("1000:1000", [], True)
    assert container(spec, "img", ["agent"], quota=True)["HostConfig"]["StorageOpt"] == {"size": "3m"}


def test_a_network_is_shared_and_a_box_with_a_list_of_hosts_has_none():
    full = container(SandboxSpec(network="full"), "img", ["agent"], quota=False)

    assert (full["HostConfig"]["NetworkMode"], full["NetworkDisabled"]) == ("bridge", False)
    assert container(SandboxSpec(), "img", ["agent"], quota=False)["NetworkDisabled"]
    listed = container(SandboxSpec(network="allowlist", allow=("files.example.com",)), "img", ["agent"], quota=False)
    assert (listed["HostConfig"]["NetworkMode"], listed["NetworkDisabled"]) == ("none", True)


def test_a_box_is_dead_when_its_owner_is():
    now = float(marks()["started"])
    dead = str(dataclasses.replace(current_owner(), start=1))

    def alive(state: str = "running", age_s: float = 0, **changes: str) -> bool:
        labels = {f"verifiers.{name}": value for name, value in {**marks(), **changes}.items()}
        return box_info({"Id": "x", "State": state, "Labels": labels}, now=now + age_s).owner_alive

    assert alive()
    assert not alive(owner=dead)
    assert not alive(owner=dead, state="created")
    assert not alive(owner="nonsense")
    assert alive(host="other.1", owner=dead)
    assert alive(host="other.1", owner=dead, state="created")
    assert not alive(host="other.1", owner=dead, state="created", age_s=NEVER_STARTED_MAX_AGE_S + 1)
    assert alive(host="other.1", owner=dead, state="running", age_s=NEVER_STARTED_MAX_AGE_S + 1)


def test_a_folder_is_known_by_what_is_in_it(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f").write_text("one")
    first = tree_digest(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "f").write_text("one")
    assert tree_digest(tmp_path / "b") == first
    (tmp_path / "a" / "f").write_text("two")
    second = tree_digest(tmp_path / "a")
    (tmp_path / "a" / "f").chmod(0o755)

    assert len({first, second, tree_digest(tmp_path / "a")}) == 3


async def test_an_attached_stream_is_taken_apart_wherever_it_is_cut():
    pieces = [(1, b"out" * 100), (2, b"err"), (1, b""), (2, b"x" * 5000), (1, b"end")]
    raw = b"".join(bytes([kind, 0, 0, 0]) + len(data).to_bytes(4, "big") + data for kind, data in pieces)
    for size in (1, 3, 7, 8, 9, 64, len(raw)):
        reader = asyncio.StreamReader()
        attached = Attached(reader, None)  # pyright: ignore[reportArgumentType] - nothing is written
        got: list[bytes] = []
        for start in range(0, len(raw), size):
            reader.feed_data(raw[start : start + size])
        reader.feed_eof()
        await attached.pump(got.append)

        assert b"".join(got) == b"out" * 100 + b"end"
        assert attached.stderr == (b"err" + b"x" * 5000)[-4096:]
        assert json.dumps(attached.first.decode())
