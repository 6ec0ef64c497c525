"""The conformance suite of sandbox backends, for pytest with pytest-asyncio. Subclass it in a test module:

    class TestMyBackend(SandboxConformance):
        backend = "my-backend"   # a registered name, or an instance

`SandboxConformance` is what every backend must pass. Commands in it use a POSIX shell and coreutils only, so that
BusyBox will do, except where a test says that it needs Python in the box.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from verifiers.errors import SandboxExecError, SandboxLostError, SandboxStartError
from verifiers.sandboxes import Backend, Sandbox, SandboxSpec, get_backend, start_sandbox
from verifiers.testing.refusals import RefusesOddArguments
from verifiers.testing.transfers import PATIENCE_S, TransferConformance

SECRET = "conformance-secret-3f1c"


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


COUNT = """
n=0
for p in /proc/[0-9]*/cmdline; do
  case "$(tr '\\0' ' ' <$p 2>/dev/null)" in "sleep $MARKER "*) n=$((n+1)) ;; esac
done
echo $n
"""


SERVER = """
import _socket
server = _socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(8)
print(server.getsockname()[1], flush=True)
connection = _socket.socket(fileno=server._accept()[0])
asked = connection.recv(65536)
connection.sendall(asked.upper() + b"z" * 500_000)
connection.close()
"""
CLIENT = """
import _socket, sys
client = _socket.socket(_socket.AF_UNIX)
client.connect(sys.argv[1])
client.sendall(b"hello " * 50_000)
client.shutdown(1)
count = 0
while data := client.recv(65536):
    count += data.count(b"H")
print(count)
"""
"""Both with what any Python has built in, so that one without its library will do."""


async def _count(box: Sandbox, marker: str) -> int:
    """How many processes `sleep <marker>` the box has."""
    return int((await box.exec(COUNT, env={"MARKER": marker})).stdout)


async def _comes_to(box: Sandbox, marker: str, count: int) -> bool:
    """Whether the box comes to have that many: a shell is done before those it left have become `sleep`."""
    ends = time.monotonic() + PATIENCE_S
    while await _count(box, marker) != count:
        if time.monotonic() > ends:
            return False
        await asyncio.sleep(0.1)
    return True


async def _gone(box: Sandbox, marker: str) -> bool:
    """Whether `marker`'s processes end."""
    return await _comes_to(box, marker, 0)


@contextlib.contextmanager
def echo_server(folder: Path) -> Iterator[Path]:
    """A unix socket on this machine that answers each connection with what it was sent, in upper case."""
    path = folder / "echo.sock"
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen(16)

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                while data := connection.recv(65536):
                    connection.sendall(data.upper())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield path
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(PATIENCE_S)


class SandboxConformance(RefusesOddArguments, TransferConformance):
    """What `verifiers.sandboxes.base` promises, backend by backend."""

    backend: ClassVar[str | Backend] = "local"
    spec: ClassVar[SandboxSpec] = SandboxSpec(memory_mb=512, disk_mb=256, pids=128)
    python: ClassVar[Sequence[str]] = ("python3",)
    """How a Python >= 3.8 is run in the box; without one the tests of connections are skipped."""

    @pytest.fixture
    async def box(self) -> AsyncIterator[Sandbox]:
        async with start_sandbox(self.backend, self.spec) as box:
            yield box

    # -- commands ---------------------------------------------------------------------------------------------

    async def test_a_shell_line_and_an_argv(self, box: Sandbox) -> None:
        line = await box.exec("echo out; echo err >&2; exit 3")
        argv = await box.exec(["printf", "%s|", "a b", "$HOME", ""])

        assert (line.exit_code, line.stdout, line.stderr, line.ok) == (3, "out\n", "err\n", False)
        assert (argv.exit_code, argv.stdout, argv.ok) == (0, "a b|$HOME||", True)
        assert not line.truncated
        assert not line.timed_out
        assert 0 < line.duration_s < PATIENCE_S

    async def test_a_command_ended_by_a_signal_has_128_plus_it(self, box: Sandbox) -> None:
        assert (await box.exec("kill -9 $$")).exit_code == 137
        assert (await box.exec("kill -15 $$")).exit_code == 143

    async def test_what_cannot_be_started_is_an_exec_error(self, box: Sandbox) -> None:
        with pytest.raises(SandboxExecError):
            await box.exec(["no-such-program-here"])
        with pytest.raises(SandboxExecError):
            await box.exec("true", cwd="/no/such/folder")
        with pytest.raises(SandboxExecError):
            await box.exec("true", user="no-such-user")
        with pytest.raises(SandboxExecError):
            await box.exec([])
        with pytest.raises(SandboxExecError):
            await box.exec(["echo", "a\0b"])

        assert (await box.exec("echo still here")).stdout == "still here\n"

    async def test_environment_and_folder(self, box: Sandbox) -> None:
        await box.exec("mkdir -p inner")

        assert (
            await box.exec("echo $GREETING $OTHER", env={"GREETING": "hi=there", "OTHER": ""})
        ).stdout == "hi=there\n"
        assert (await box.exec("echo $GREETING")).stdout == "\n"
        assert (await box.exec("pwd")).stdout == f"{box.spec.workdir}\n"
        assert (await box.exec("pwd", cwd="inner")).stdout == f"{box.spec.workdir}/inner\n"
        assert (await box.exec("pwd", cwd="/")).stdout == "/\n"

    async def test_the_environment_of_this_process_stays_outside(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CONFORMANCE_SECRET", SECRET)
        async with start_sandbox(self.backend, self.spec) as box:
            assert SECRET not in (await box.exec("env; cat /proc/1/environ /proc/$PPID/environ 2>/dev/null")).stdout

    async def test_stdin(self, box: Sandbox) -> None:
        assert (await box.exec("cat", stdin="some text")).stdout == "some text"
        assert (await box.exec("cat", stdin=b"")).stdout == ""
        assert (await box.exec(["wc", "-c"], stdin=b"x" * 5_000_000)).stdout.strip() == "5000000"

    async def test_a_reader_without_stdin_does_not_hang(self, box: Sandbox) -> None:
        assert (await box.exec("cat; read line; echo over", timeout_s=PATIENCE_S)).stdout == "over\n"

    async def test_stdin_nobody_reads(self, box: Sandbox) -> None:
        assert (await box.exec("true", stdin=b"x" * 5_000_000, timeout_s=PATIENCE_S)).exit_code == 0

    async def test_timeout_kills_all_that_was_started(self, box: Sandbox) -> None:
        script = (
            "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM; sleep 7771 & sleep 7771' & (sleep 7771 &) ; sleep 7771"
        )
        result = await box.exec(f"echo begun; {script}", timeout_s=2)

        assert result.timed_out
        assert result.stdout == "begun\n"
        assert result.duration_s < PATIENCE_S
        assert await _gone(box, "7771")
        assert (await box.exec("echo alive")).stdout == "alive\n"

    async def test_timeout_spares_what_others_started(self, box: Sandbox) -> None:
        other = await box.spawn("sleep 7772")
        await box.exec("sleep 7773 >/dev/null 2>&1 &")
        assert (await box.exec("sleep 60", timeout_s=0.3)).timed_out

        assert other.exit_code is None
        assert await _comes_to(box, "7773", 1)
        await other.kill()
        assert await other.wait() == 137

    async def test_cancelling_kills(self, box: Sandbox) -> None:
        task = asyncio.ensure_future(box.exec("sleep 7774 & sleep 7774"))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert await _gone(box, "7774")

    async def test_background_children_do_not_hold_a_command_up(self, box: Sandbox) -> None:
        result = await box.exec("(while true; do echo noise; sleep 0.05; done) & echo front", timeout_s=PATIENCE_S)

        assert not result.timed_out
        assert "front\n" in result.stdout
        await box.exec("sleep 1 & sleep 7775 &")
        assert await _comes_to(box, "7775", 1)

    async def test_output_is_capped_and_streamed(self, box: Sandbox) -> None:
        before = _peak_mb()
        many = await box.exec("yes | head -c 1000000000", max_output=10_000, timeout_s=120)
        line = await box.exec("head -c 50000000 /dev/zero | tr '\\0' a; echo end >&2", max_output=10_000, timeout_s=120)

        assert (len(many.stdout), many.truncated, many.exit_code) == (10_000, True, 0)
        assert (line.stdout, line.stderr, line.truncated) == ("a" * 10_000, "end\n", True)
        assert _peak_mb() - before < 100

    async def test_output_of_exactly_the_cap_is_whole(self, box: Sandbox) -> None:
        result = await box.exec("printf 12345", max_output=5)

        assert (result.stdout, result.truncated) == ("12345", False)

    async def test_bytes_that_are_no_text(self, box: Sandbox) -> None:
        assert (await box.exec("printf 'a\\377\\300b'")).stdout == "a\ufffd\ufffdb"

    async def test_many_at_once(self, box: Sandbox) -> None:
        results = await asyncio.gather(*(box.exec(f"sleep 0.2; echo {i}") for i in range(16)))

        assert [result.stdout for result in results] == [f"{i}\n" for i in range(16)]

    # -- processes --------------------------------------------------------------------------------------------

    async def test_a_process_talks_both_ways(self, box: Sandbox) -> None:
        process = await box.spawn("while read line; do echo got $line; done; echo over >&2; exit 4")
        await process.write(b"one\n")
        assert await process.stdout.readline() == b"got one\n"
        await process.write(b"two\n")
        assert await process.stdout.readline() == b"got two\n"
        assert process.exit_code is None
        await process.close_stdin()

        assert await process.stderr.read() == b"over\n"
        assert await process.wait() == 4
        assert process.exit_code == 4

    async def test_signals_and_killing(self, box: Sandbox) -> None:
        process = await box.spawn("trap 'echo caught; exit 7' TERM; echo ready; while true; do sleep 0.05; done")
        assert await process.stdout.readline() == b"ready\n"
        await process.kill(15)
        assert await process.stdout.readline() == b"caught\n"
        assert await process.wait() == 7
        await process.kill()

        tree = await box.spawn("setsid sleep 7776 & echo ready; wait")
        assert await tree.stdout.readline() == b"ready\n"
        await tree.kill()
        assert await tree.wait() == 137
        assert await _gone(box, "7776")

    async def test_unread_output_stops_the_command_not_the_host(self, box: Sandbox) -> None:
        before = _peak_mb()
        process = await box.spawn("yes")
        await asyncio.sleep(1)

        assert _peak_mb() - before < 50
        assert await process.stdout.readexactly(1_000_000) == b"y\n" * 500_000
        await process.kill()
        assert await process.wait() == 137

    async def test_a_process_that_cannot_start(self, box: Sandbox) -> None:
        with pytest.raises(SandboxExecError):
            await box.spawn(["no-such-program-here"])

    # -- files ------------------------------------------------------------------------------------------------

    async def test_a_port_is_reachable_from_outside(self, box: Sandbox) -> None:
        """Needs Python in the box."""
        await self._needs_python(box)
        server = await box.spawn([*self.python, "-c", SERVER])
        port = int(await asyncio.wait_for(server.stdout.readline(), PATIENCE_S))
        address = await box.expose(port)
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"hello ")
        answer = await asyncio.wait_for(reader.read(), PATIENCE_S)
        writer.close()

        assert answer == b"HELLO " + b"z" * 500_000
        assert await server.wait() == 0

    async def test_a_socket_of_this_machine_is_reachable_from_inside(self, box: Sandbox, tmp_path: Path) -> None:
        """Needs Python in the box."""
        await self._needs_python(box)
        with echo_server(tmp_path) as path:
            await box.bind_socket(path, "sockets/model.sock")
            runs = [box.exec([*self.python, "-c", CLIENT, "model.sock"], cwd="sockets") for _ in range(3)]
            results = await asyncio.wait_for(asyncio.gather(*runs), 2 * PATIENCE_S)

        assert [result.stdout for result in results] == ["50000\n"] * 3, results[0].stderr
        with pytest.raises(FileNotFoundError):
            await box.bind_socket(tmp_path / "missing.sock", "x.sock")

    async def _needs_python(self, box: Sandbox) -> None:
        try:
            found = (await box.exec([*self.python, "-c", ""])).ok
        except SandboxExecError:
            found = False
        if not found:
            pytest.skip("needs an image with python3")

    # -- life -------------------------------------------------------------------------------------------------

    async def test_files_and_setup_come_first(self, tmp_path: Path) -> None:
        (tmp_path / "tree").mkdir()
        (tmp_path / "tree" / "f").write_text("from disk")
        spec = self._spec(
            files={"a.txt": "text", "t": tmp_path / "tree"}, setup=["cat a.txt t/f >joined"], env={"SET": "yes"}
        )
        async with start_sandbox(self.backend, spec) as box:
            assert await box.read("joined") == b"textfrom disk"
            assert (await box.exec("echo $SET")).stdout == "yes\n"

    async def test_setup_that_fails_is_a_start_error(self) -> None:
        with pytest.raises(SandboxStartError, match="exited with 5"):
            async with start_sandbox(self.backend, self._spec(setup=["echo why >&2; exit 5"])):
                pass

    async def test_ending_all_processes(self, box: Sandbox) -> None:
        left = await box.exec("trap '' TERM; (setsid sleep 1117 >/dev/null 2>&1 &); sleep 1117 >/dev/null 2>&1 &")
        assert left.ok
        waiting = asyncio.ensure_future(box.exec("echo kept > kept; sleep 1117"))
        assert (await box.exec("until [ -s kept ]; do sleep 0.05; done", timeout_s=PATIENCE_S)).ok
        await box.end_processes()

        assert (await asyncio.wait_for(waiting, PATIENCE_S)).exit_code == 137
        assert await _gone(box, "1117")
        assert await box.read("kept") == b"kept\n"

    async def test_ending_what_was_started_since(self, box: Sandbox) -> None:
        await box.exec("(setsid sleep 1118 >/dev/null 2>&1 &)")
        assert await _comes_to(box, "1118", 1)
        await asyncio.sleep(0.1)
        since_s = float((await box.read("/proc/uptime")).split()[0])
        await box.exec("(setsid sleep 1119 >/dev/null 2>&1 &); trap '' TERM; sleep 1119 >/dev/null 2>&1 &")
        await box.end_processes(since_s=since_s)

        assert await _gone(box, "1119")
        assert await _count(box, "1118") == 1

    async def test_stopping(self) -> None:
        async with start_sandbox(self.backend, self.spec) as box:
            backend = get_backend(self.backend) if isinstance(self.backend, str) else self.backend
            listed = {info.id: info for info in await backend.ls()}
            assert listed[box.id].owner_alive
            waiting = asyncio.ensure_future(box.exec("sleep 60"))
            await asyncio.sleep(0.2)
            await box.stop()
            await box.stop()
            with pytest.raises(SandboxLostError):
                await waiting
            with pytest.raises(SandboxLostError):
                await box.exec("true")
            with pytest.raises(SandboxLostError):
                await box.read("x")
            assert box.id not in {info.id for info in await backend.ls()}

    async def test_life_ends_on_time(self) -> None:
        async with start_sandbox(self.backend, self._spec(timeout_s=2)) as box:
            with pytest.raises(SandboxLostError):
                await asyncio.wait_for(box.exec("sleep 600"), PATIENCE_S)
            with pytest.raises(SandboxLostError):
                await box.exec("true")

    def _spec(self, **changes: object) -> SandboxSpec:
        from dataclasses import replace

        return replace(self.spec, **changes)  # pyright: ignore[reportArgumentType]
