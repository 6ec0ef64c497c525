"""The shipped conformance suite over every backend of ours."""

import asyncio
import socket
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from verifiers.errors import SandboxPolicyError
from verifiers.sandboxes import SandboxSpec, get_backend, start_sandbox
from verifiers.sandboxes.local import LocalBackend
from verifiers.testing.allowlist import AllowListConformance
from verifiers.testing.isolation import IsolationConformance
from verifiers.testing.sandboxes import SandboxConformance
from verifiers.testing.snapshots import SnapshotConformance

RESOLVERS = Path("/etc/resolv.conf").read_text()
CONNECT = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))); print('there')"
BUSY = """
import os, time
os.fork(), os.fork()
end = time.time() + 2
while time.time() < end:
    pass
print(time.process_time())
"""


class TestUnsafeLocal(SandboxConformance):
    backend = "unsafe-local"
    spec = SandboxSpec(memory_mb=512, disk_mb=256, pids=128)

    async def test_an_allow_list_is_refused(self):
        with pytest.raises(SandboxPolicyError, match="cannot restrict the network"):
            async with start_sandbox("unsafe-local", replace(self.spec, network="allowlist", allow=("example.org",))):
                pass


class TestLocal(SandboxConformance):
    backend = "local"

    async def test_a_full_network_is_this_machines(self):
        async with start_sandbox("local", replace(self.spec, network="full")) as box:
            with socket.create_server(("127.0.0.1", 0)) as server:
                result = await box.exec(["python3", "-c", CONNECT, str(server.getsockname()[1])], timeout_s=20)
            names = (await box.exec("cat /etc/resolv.conf")).stdout

        assert result.stdout == "there\n"
        assert names == RESOLVERS

    async def test_cpus_are_bounded(self):
        """Four busy loops share a quarter of a processor: in two seconds half a second of it, and some slack."""
        backend = get_backend("local")
        assert isinstance(backend, LocalBackend)
        if "cpu" not in (await backend.keeper()).cgroups:
            pytest.skip("this user may make no cgroups: run the tests as root, or log in where systemd delegates them")
        async with start_sandbox("local", replace(self.spec, cpus=0.25)) as box:
            result = await box.exec(["python3", "-c", BUSY], timeout_s=60)

        assert 0 < sum(float(line) for line in result.stdout.split()) < 1.2


class TestLocalSnapshots(SnapshotConformance):
    backend = "local"


class TestLocalIsolation(IsolationConformance):
    backend = "local"


class TestLocalAllowList(AllowListConformance):
    backend = "local"


def _example() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "examples" / "sandbox_backend.py"
    spec = spec_from_file_location("sandbox_backend_example", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestBackendOfAThirdParty(SandboxConformance):
    """The example that the documentation shows."""

    backend = _example().UnshareBackend()


class TestAllowListOfAThirdParty(AllowListConformance):
    """Its boxes have an empty network, and the rest is the library's."""

    backend = TestBackendOfAThirdParty.backend


def test_the_documentation_shows_the_example_as_it_is():
    root = Path(__file__).resolve().parents[2]
    example = (root / "examples" / "sandbox_backend.py").read_text()
    shown = example[example.index("import asyncio") : example.index("async def main")].strip()

    assert shown in (root / "docs" / "sandboxes.md").read_text()


@pytest.mark.parametrize("backend", ["local", "unsafe-local"])
async def test_trees_of_any_depth_go_in_and_go(backend: str, tmp_path: Path):
    folder = tmp_path / "deep"
    for _ in range(1000):
        folder.mkdir()
        folder /= "d"
    try:
        async with start_sandbox(backend, SandboxSpec(memory_mb=128, disk_mb=32)) as box:
            await box.upload(tmp_path / "deep", "deep")
            assert (await box.exec("find deep | wc -l")).stdout.strip() == "1000"
    finally:  # Python's own removal runs out of stack
        removing = await asyncio.create_subprocess_exec("rm", "-rf", str(tmp_path / "deep"))
        await removing.wait()
    assert box.id not in [info.id for info in await get_backend(backend).ls()]
