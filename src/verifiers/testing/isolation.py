"""What every isolating sandbox backend must hold against hostile code, for pytest: subclass as `SandboxConformance`.

Attacks run as the box's own user with what the box has. Where a box may die of an attack on itself, the suite accepts a
typed error for it; nothing may reach this machine, another box, or outlive the box.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from verifiers.errors import SandboxError, SandboxLimitError, SandboxLostError, SandboxPolicyError
from verifiers.sandboxes import Backend, Sandbox, SandboxSpec, start_sandbox

SECRET = "isolation-secret-b91e"
PATIENCE_S = 60.0
"""How long a test waits for what must come: on a slow machine a right backend takes long, a wrong one for ever."""
CONNECT = """
import socket, sys
family, target = sys.argv[1], sys.argv[2]
s = socket.socket(getattr(socket, family)); s.settimeout(3)
s.connect("\\0" + target if family == "AF_UNIX" else (target.split(":")[0], int(target.split(":")[1])))
print("connected")
"""
MANY_CONNECTIONS = """
import socket, time
held, end = [], time.time() + 8
while len(held) < 2500 and time.time() < end:
    s = socket.socket(socket.AF_UNIX); s.settimeout(0.2)
    try:
        s.connect("s")
        held.append(s)
    except OSError:
        s.close()
print(len(held))
time.sleep(1)
"""
TTY_INJECTION = """
import fcntl, os, pty, termios
pid, fd = pty.fork()
if pid == 0:
    for code in (termios.TIOCSTI, 0x541C):
        try:
            fcntl.ioctl(0, code, b"x")
            print("injected", code, flush=True)
        except OSError as error:
            print("refused", error.errno, flush=True)
    os._exit(0)
out = b""
while True:
    try:
        data = os.read(fd, 1024)
    except OSError:
        break
    if not data:
        break
    out += data
print(out.decode())
"""


class IsolationConformance:
    """Hostile code in a box without a network."""

    backend: ClassVar[str | Backend] = "local"
    spec: ClassVar[SandboxSpec] = SandboxSpec(memory_mb=256, disk_mb=64, pids=64)
    survives: ClassVar[bool] = True
    """Whether a box outlives attacks on itself (processes killed, memory full) or may end with a typed error."""

    @pytest.fixture
    async def box(self) -> AsyncIterator[Sandbox]:
        async with start_sandbox(self.backend, self.spec) as box:
            yield box

    async def attack(self, box: Sandbox, script: str, *, timeout_s: float = 10) -> str:
        """Run `script` against the box itself, then see that the box works, or is gone with a typed error."""
        try:
            result = await box.exec(script, timeout_s=timeout_s)
            alive = await box.exec("echo alive", timeout_s=PATIENCE_S)
            assert alive.stdout == "alive\n"
            return result.stdout + result.stderr
        except (SandboxLostError, SandboxLimitError):
            assert not self.survives, "the box did not survive"
            return ""

    async def python(self, box: Sandbox, code: str, *arguments: str) -> str:
        result = await box.exec(["python3", "-c", code, *arguments], timeout_s=2 * PATIENCE_S)
        return result.stdout + result.stderr

    # -- this machine -----------------------------------------------------------------------------------------

    async def test_files_of_this_machine_cannot_be_read(self, box: Sandbox, tmp_path: Path) -> None:
        secret = tmp_path / "secret.txt"
        secret.write_text(SECRET)
        secret.chmod(0o644)
        home = str(Path.home())
        script = f"cat {secret} /etc/shadow /proc/1/root{secret} /proc/1/cwd/../..{secret}; ls -a {home}; ls /proc/1/fd"
        result = await box.exec(script)

        assert SECRET not in result.stdout
        assert not set(result.stdout.split()) & (set(os.listdir(home)) - set(os.listdir("/etc/skel")))

    async def test_environment_secrets_cannot_be_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SOME_API_KEY", SECRET)
        async with start_sandbox(self.backend, self.spec) as box:
            result = await box.exec(
                "env; set; cat /proc/*/environ /proc/*/task/*/environ; strings /proc/kcore | head -1"
            )
            assert SECRET not in result.stdout

    async def test_kernel_switches_cannot_be_written(self, box: Sandbox) -> None:
        before = _core_pattern()
        targets = "/proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/sysrq-trigger /sys/kernel/uevent_helper"
        script = f"for f in {targets}; do (echo h >$f) 2>/dev/null && echo WROTE $f; done; true"
        assert "WROTE" not in (await box.exec(script)).stdout
        assert _core_pattern() == before

    async def test_processes_of_this_machine_cannot_be_seen_or_killed(self, box: Sandbox) -> None:
        with _sleeping("4242") as victim:
            seen = await box.exec("cat /proc/*/cmdline | tr '\\0' ' '")
            assert "sleep 4242" not in seen.stdout
            await self.attack(box, f"kill -9 {victim.pid} 2>&1; true")
            await self.attack(box, "kill -9 -1")
            assert victim.poll() is None

    async def test_nothing_is_reachable(self, box: Sandbox) -> None:
        """Needs python3 in the box."""
        await self.needs_python(box)
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
            abstract.bind(f"\0isolation-test-{os.getpid()}")
            abstract.listen()
            port = server.getsockname()[1]
            for family, target in (
                ("AF_INET", f"127.0.0.1:{port}"),
                ("AF_INET", f"{own_address()}:{port}"),
                ("AF_INET", "169.254.169.254:80"),
                ("AF_UNIX", f"isolation-test-{os.getpid()}"),
            ):
                assert "connected" not in await self.python(box, CONNECT, family, target), target
        resolve = "import socket; print('resolved', socket.getaddrinfo('example.com', 80))"
        assert "resolved" not in await self.python(box, resolve)
        vsock = "import socket; socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).connect((2, 22)); print('connected')"
        assert "connected" not in await self.python(box, vsock)

    # -- other boxes, and the one process that serves this one -------------------------------------------------

    async def test_boxes_do_not_see_each_other(self, box: Sandbox) -> None:
        async with start_sandbox(self.backend, self.spec) as other:
            await other.exec(f"echo {SECRET} >/tmp/mine; echo {SECRET} >mine; echo {SECRET} >/dev/shm/mine")
            await other.exec("sleep 4343 >/dev/null 2>&1 &")
            result = await box.exec("cat /tmp/mine mine /dev/shm/mine; cat /proc/*/cmdline; ipcs -m 2>/dev/null; true")

            assert SECRET not in result.stdout
            assert "sleep\x004343" not in result.stdout

    async def test_the_agent_cannot_be_taken_over(self, box: Sandbox) -> None:
        """Whoever speaks for the agent could invent results."""
        script = (
            "p=/proc/$PPID; (: >>$p/mem) 2>/dev/null && echo TOOK mem; (: >>$p/fd/1) 2>/dev/null && echo TOOK fd; "
            "cat $p/environ >/dev/null 2>&1 && echo TOOK environ; cat $p/maps >/dev/null 2>&1 && echo TOOK maps; true"
        )
        assert "TOOK" not in (await box.exec(script)).stdout

    # -- files that cross the border ---------------------------------------------------------------------------

    async def test_what_is_no_file_does_not_come_out(self, box: Sandbox, tmp_path: Path) -> None:
        """Devices, FIFOs, sockets and links out of the tree are refused at once, and nothing is left of the attempt."""
        bind = "import socket; socket.socket(socket.AF_UNIX).bind('socket/x')"
        made = await box.exec(
            "mkdir fifo device socket out up round; mkfifo fifo/x; ln -s /dev/zero device/x; ln -s /etc/passwd out/x; "
            "ln -s ../../../../../../../../../etc/passwd up/x; ln -s ../up/../.. round/x; "
            f'python3 -c "{bind}" || mkfifo socket/x'
        )
        assert made.ok
        for path in ("fifo", "fifo/x", "device", "device/x", "socket", "out", "up", "round", "/dev", "/dev/zero"):
            with pytest.raises(SandboxError):
                await asyncio.wait_for(box.download(path, tmp_path / "copy", max_bytes=1 << 20), PATIENCE_S)
            assert os.listdir(tmp_path) == [], path

    async def test_files_larger_than_the_disk_do_not_come_out(self, box: Sandbox, tmp_path: Path) -> None:
        """Holes and hard links cost the box nothing; whoever reads them without a limit of his own pays for all."""
        size = self.spec.disk_mb << 19
        await box.exec(
            f"mkdir holes links; for n in 1 2 3; do truncate -s {size} holes/$n; done; "
            f"truncate -s {size} links/1; ln links/1 links/2; ln links/1 links/3"
        )
        if (await box.exec(f"truncate -s {3 * size} hole")).ok:
            with pytest.raises(SandboxPolicyError, match="max_bytes"):
                await box.read("hole")
        for path in ("holes", "links"):
            with pytest.raises(SandboxPolicyError, match="max_bytes"):
                await box.download(path, tmp_path / "copy")
            assert os.listdir(tmp_path) == []

    async def test_names_and_hard_links_come_out_as_plain_files(self, box: Sandbox, tmp_path: Path) -> None:
        await box.exec(
            "mkdir t; echo one >t/-rf; ln t/-rf t/..x; ln -s . t/self; echo two >\"$(printf 't/a\\377\\nb')\""
        )
        await box.download("t", tmp_path / "copy")
        (tmp_path / "copy" / "-rf").write_text("changed")

        names = sorted(name for name in os.listdir(tmp_path / "copy") if name != "self")
        assert names[:2] == ["-rf", "..x"]
        assert len(names) == 3
        assert (tmp_path / "copy" / "..x").read_text() == "one\n"
        assert os.listdir(tmp_path) == ["copy"]

    async def test_what_is_no_file_does_not_go_in(self, box: Sandbox, tmp_path: Path) -> None:
        for name in ("fifo", "socket"):
            (tmp_path / name).mkdir()
        os.mkfifo(tmp_path / "fifo" / "x")
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(tmp_path / "socket" / "x"))
            for source in (tmp_path / "fifo", tmp_path / "fifo" / "x", tmp_path / "socket", Path("/dev/zero")):
                with pytest.raises(SandboxError):
                    await asyncio.wait_for(box.upload(source, "odd"), PATIENCE_S)

    async def test_what_goes_in_does_not_follow_prepared_links(self, box: Sandbox, tmp_path: Path) -> None:
        """Links of this machine arrive as links; links at the target are replaced, and what they led to stays."""
        (tmp_path / "tree").mkdir()
        (tmp_path / "tree" / "file").write_text("new")
        (tmp_path / "tree" / "link").symlink_to(tmp_path / "secret")
        (tmp_path / "secret").write_text(SECRET)
        await box.exec("mkdir away; echo old >away/file; ln -s $PWD/away target; ln -s away/file single; mkfifo pipe")
        for source, path in (("tree", "target"), ("tree/file", "single"), ("tree/file", "pipe")):
            await asyncio.wait_for(box.upload(tmp_path / source, path), PATIENCE_S)
        seen = await box.exec(
            "cat away/file target/file single pipe; test -L target/link && echo link; cat target/link"
        )

        assert seen.stdout == "old\nnewnewnewlink\n"
        assert SECRET not in seen.stdout

    # -- privileges -------------------------------------------------------------------------------------------

    async def test_privileges_cannot_be_gained(self, box: Sandbox) -> None:
        status = (await box.exec("cat /proc/self/status")).stdout
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert fields["NoNewPrivs"] == "1"
        assert fields["Seccomp"] == "2"
        forbidden = (1 << 21) | (1 << 19) | (1 << 16) | (1 << 17) | (1 << 12)  # SYS_ADMIN PTRACE MODULE RAWIO NET_ADMIN
        assert int(fields["CapBnd"], 16) & forbidden == 0
        for command in (
            "unshare -Ur true",
            "mount -t tmpfs x /mnt",
            "mknod /tmp/sda b 8 0",
            "chroot / true && mount -o remount,rw /proc/sys",
        ):
            assert (await box.exec(command)).exit_code != 0, command

    async def test_terminal_input_cannot_be_injected(self, box: Sandbox) -> None:
        """Needs python3 in the box."""
        await self.needs_python(box)
        assert "injected" not in await self.python(box, TTY_INJECTION)

    # -- limits -----------------------------------------------------------------------------------------------

    async def test_what_was_ended_takes_no_room(self, box: Sandbox) -> None:
        """What is not gone yet counts against the limit of processes: others could not be started."""
        large = "x = b'x' * (50 << 20); print(flush=True); import time; time.sleep(1120)"
        counting = "set -- /proc/[0-9]*; echo $#"
        await box.exec("true")  # a box may become whole only with its second command
        before = int((await box.exec(counting)).stdout)
        await box.exec(f'for i in 1 2 3; do python3 -c "{large}" >>large 2>&1 & done')
        assert (await box.exec('until [ "$(wc -l <large)" = 3 ]; do sleep 0.05; done', timeout_s=60)).ok
        await box.end_processes()

        assert int((await box.exec(counting)).stdout) <= before

    async def test_a_fork_bomb_stays_in_its_box(self, box: Sandbox) -> None:
        await self.attack(box, "bomb() { bomb | bomb & }; bomb; sleep 60", timeout_s=5)

    async def test_a_memory_bomb_stays_in_its_box(self, box: Sandbox) -> None:
        said = await self.attack(box, "tail /dev/zero; echo ended $?", timeout_s=2 * PATIENCE_S)

        assert "ended 0" not in said

    async def test_many_small_memory_bombs_stay_in_their_box(self, box: Sandbox) -> None:
        hog = "for i in 1 2 3 4 5 6 7 8; do head -c 60000000 /dev/zero | tail -c 50000000 | sleep 5 & done; wait"
        await self.attack(box, hog, timeout_s=PATIENCE_S)

    @pytest.mark.parametrize("place", ["/tmp", ".", "/dev/shm", "/var/tmp"])
    async def test_the_disk_has_an_end(self, box: Sandbox, place: str) -> None:
        filled = await box.exec(f"head -c 200000000 /dev/zero >{place}/fill", timeout_s=2 * PATIENCE_S)
        size = int((await box.exec(f"wc -c <{place}/fill")).stdout)
        await box.exec(f"rm {place}/fill")

        assert filled.exit_code != 0
        assert size <= 64 * 1024 * 1024
        assert (await box.exec("echo again >file; cat file")).stdout == "again\n"

    async def test_device_folders_cannot_be_filled(self, box: Sandbox) -> None:
        assert (await box.exec("head -c 1000 /dev/zero >/dev/fill")).exit_code != 0

    async def test_many_files_have_an_end(self, box: Sandbox) -> None:
        script = "i=0; while [ $i -lt 400 ]; do mkdir d$i && cd d$i || exit 9; i=$((i+1)); done; echo deep"
        assert (await box.exec(script, timeout_s=PATIENCE_S)).exit_code in (0, 1, 2, 9)
        await box.exec(f"rm -rf {box.spec.workdir}/*")
        assert (await box.exec("echo x >y && cat y", cwd=box.spec.workdir)).stdout == "x\n"

    async def test_cpu_time_of_others_goes_on(self, box: Sandbox) -> None:
        """A busy box does not keep its own agent from answering."""
        busy = await box.spawn("for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait")
        assert (await box.exec("echo answered", timeout_s=PATIENCE_S)).stdout == "answered\n"
        await busy.kill()

    # -- what is left -----------------------------------------------------------------------------------------

    async def test_connections_out_of_a_box_have_an_end(self, box: Sandbox, tmp_path: Path) -> None:
        """Each takes descriptors of this process: thousands would leave it none for anything else."""
        held: set[asyncio.StreamWriter] = set()

        def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            held.add(writer)

        server = await asyncio.start_unix_server(hold, tmp_path / "s")
        await box.bind_socket(tmp_path / "s", "s")
        try:
            opened = await self.python(box, MANY_CONNECTIONS)
            for _ in range(600):
                if len(held) >= 64:
                    break
                await asyncio.sleep(0.1)
            assert 64 <= len(held) < 1000, opened
        finally:
            for writer in held:
                writer.close()
            server.close()
        assert (await box.exec("echo alive", timeout_s=PATIENCE_S)).stdout == "alive\n"

    async def test_nothing_outlives_the_box(self) -> None:
        marker = f"48{os.getpid() % 100000:05d}"
        async with start_sandbox(self.backend, self.spec) as box:
            away = f"(setsid sh -c 'trap \"\" TERM INT HUP; sleep {marker}' &)"
            await box.exec(f"trap '' TERM; {away}; sleep {marker} >/dev/null 2>&1 &")
        ends = time.monotonic() + PATIENCE_S
        while _running(marker):
            assert time.monotonic() < ends, "processes of the box outlived it"
            await asyncio.sleep(0.1)

    async def test_many_boxes_start_at_once(self) -> None:
        async def one(number: int) -> str:
            spec = replace(self.spec, memory_mb=64, disk_mb=8, pids=16)
            async with start_sandbox(self.backend, spec) as box:
                return (await box.exec(f"echo {number}")).stdout

        try:
            results = await asyncio.gather(*(one(number) for number in range(self.at_once)))
        except SandboxError as error:
            pytest.fail(f"{self.at_once} boxes at once: {error}")
        assert results == [f"{number}\n" for number in range(self.at_once)]

    at_once: ClassVar[int] = 200

    async def needs_python(self, box: Sandbox) -> None:
        if not (await box.exec("command -v python3")).ok:
            pytest.skip("needs an image with python3")


def _core_pattern() -> str:
    return Path("/proc/sys/kernel/core_pattern").read_text()


@contextmanager
def _sleeping(marker: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", marker])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def own_address() -> str:
    """An address of this machine that is not its loopback, if it has one."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # sends nothing: only asks the routing table
            return probe.getsockname()[0]
    except OSError:
        return "127.0.0.2"


def _running(marker: str) -> int:
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                count += f"sleep\0{marker}\0" in (entry / "cmdline").read_text()
            except OSError:
                continue
    return count
