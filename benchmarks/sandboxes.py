"""What a sandbox costs: `python benchmarks/sandboxes.py [--backend local] [--held 512] [--image NAME] [--json]`.

Times are medians in milliseconds on this machine; *bare* is fork and exec of the same command without any sandbox,
measured in the same run, so that a loaded or slow machine shows in both. Compare rows of one run only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from verifiers.sandboxes import SandboxSpec, SnapshotBackend, fork_sandbox, get_backend, start_sandbox
from verifiers.sandboxes.egress.door import PORT
from verifiers.sandboxes.local import LocalBackend
from verifiers.sandboxes.pool import SandboxPool

COMMAND = ["/bin/true"]
SPEC = SandboxSpec(memory_mb=256, disk_mb=64, pids=64)


@dataclass
class Row:
    what: str
    value: float
    unit: str
    target: str = ""


async def median_ms(act: Callable[[], Awaitable[object]], count: int) -> float:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        await act()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


async def rate(act: Callable[[], Awaitable[object]], *, workers: int, count: int) -> float:
    """Acts per second with `workers` at a time."""

    async def work() -> None:
        for _ in range(count // workers):
            await act()

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(workers)))
    return count / (time.perf_counter() - began)


def fork_and_exec() -> None:
    os.waitpid(os.posix_spawn(COMMAND[0], COMMAND, {}), 0)


async def bare() -> None:
    fork_and_exec()


def own_processes() -> list[int]:
    """Pids of all processes below this one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def memory_mb(pids: list[int]) -> float:
    """Proportional set size: shared pages counted once over all."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return total / 1024


async def commands(name: str, rows: list[Row]) -> None:
    backend = get_backend(name)
    box = await backend.start(SPEC)
    await median_ms(lambda: box.exec(COMMAND), 50)
    rows.append(Row("bare: fork, exec, wait", await median_ms(bare, 300), "ms"))
    rows.append(Row("exec in a running box", await median_ms(lambda: box.exec(COMMAND), 300), "ms", "<= 1.0"))
    rows.append(Row("exec of a shell line", await median_ms(lambda: box.exec("true"), 300), "ms"))
    await box.stop()
    boxes = await asyncio.gather(*(backend.start(SPEC) for _ in range(64)))
    turn = iter(range(1 << 30))
    rows.append(Row("bare, per second", await rate(bare, workers=1, count=1000), "/s"))
    per_second = await rate(lambda: boxes[next(turn) % 64].exec(COMMAND), workers=64, count=4096)
    rows.append(Row("execs per second over 64 boxes", per_second, "/s", ">= 2000"))
    await asyncio.gather(*(box.stop() for box in boxes))


def small_image(folder: Path) -> Path:
    """A root of nothing but `COMMAND` and its libraries."""
    said = subprocess.run(["ldd", COMMAND[0]], capture_output=True, text=True, check=True).stdout
    for name in [COMMAND[0], *(word for word in said.split() if word.startswith("/"))]:
        target = folder / name.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(name), target)
    return folder


async def cycles(
    name: str, rows: list[Row], label: str, targets: tuple[str, str] = ("", ""), *, spec: SandboxSpec = SPEC
) -> None:
    backend = get_backend(name)

    async def cycle() -> None:
        box = await backend.start(spec)
        try:
            await box.exec(COMMAND)
        finally:
            await box.stop()

    await cycle()
    rows.append(Row(f"start, exec, destroy{label}", await median_ms(cycle, 40), "ms", targets[0]))
    rows.append(Row("... per second, 8 at a time", await rate(cycle, workers=8, count=160), "/s", targets[1]))


async def copies(name: str, image: str | None, rows: list[Row]) -> None:
    """Snapshots and forks of a box that changed a little, without an image or over one."""
    backend = get_backend(name)
    over = f", over {image}" if image else ""
    box = await backend.start(replace(SPEC, image=image))
    await box.exec("mkdir -p d && for i in 1 2 3 4 5 6 7 8 9 10; do echo $i >d/$i; done")
    names: list[str] = []

    async def snapshot() -> None:
        names.append(await box.snapshot(temporary=True))

    async def fork() -> None:
        async with fork_sandbox(box, backend=backend) as copy:
            await copy.exec(COMMAND)

    rows.append(Row(f"snapshot of ten small files{over}", await median_ms(snapshot, 40), "ms"))
    rows.append(Row(f"fork, exec, destroy{over}", await median_ms(fork, 40), "ms"))
    await box.exec("head -c 32000000 /dev/zero | tr '\\0' x >data")
    rows.append(Row(f"snapshot of 32 MB{over}", await median_ms(snapshot, 10), "ms"))
    await box.stop()
    assert isinstance(backend, SnapshotBackend)
    for each in names:
        await backend.remove_snapshot(each)


async def pooled(name: str, rows: list[Row]) -> None:
    times = []
    async with SandboxPool(get_backend(name), limit=16) as pool:
        for _ in range(2):  # after a single request none waits
            await (await pool.start(SPEC)).stop()
        for _ in range(40):
            while not pool.waiting:  # noqa: ASYNC110 - a pool tells nobody
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            began = time.perf_counter()
            box = await pool.start(SPEC)
            await box.exec(COMMAND)
            times.append(time.perf_counter() - began)
            await box.stop()
    rows.append(Row("from the pool, exec", statistics.median(times) * 1e3, "ms", "<= 2"))


async def allowed(name: str, rows: list[Row]) -> None:
    """A request for 1 KiB and one for 64 MiB to a server on this machine's loopback, from a box and from a process."""
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    ask = ["/usr/bin/python3", "-I", "-S", "-c", ASK, "127.0.0.1", str(port)]
    spec = replace(SPEC, network="allowlist", allow=(f"127.0.0.1:{port}",))
    async with server, start_sandbox(name, spec) as box:
        for size, count, what in ((1024, 300, "a request"), (64 << 20, 3, "64 MiB")):
            direct = await _run(*ask, "0", str(size), str(count))
            proxied = await box.exec([*ask, str(PORT), str(size), str(count)])
            rows.append(Row(f"{what}: direct", float(direct), "ms"))
            rows.append(Row(f"{what}: from a box with an allow list", float(proxied.stdout), "ms"))


ASK = """
import socket, statistics, sys, time
host, port, proxy, size, count = sys.argv[1], *map(int, sys.argv[2:])
times = []
for _ in range(count):
    began = time.perf_counter()
    s = socket.create_connection(("127.0.0.1", proxy or port))
    if proxy:
        s.sendall(b"CONNECT %s:%d HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n" % (host.encode(), port))
        said = b""
        while not said.endswith(b"\\r\\n\\r\\n"):
            said += s.recv(4096)
        assert b" 200 " in said, said
    s.sendall(b"%d\\n" % size)
    got = 0
    while data := s.recv(1 << 20):
        got += len(data)
    assert got == size, got
    s.close()
    times.append(time.perf_counter() - began)
print(statistics.median(times) * 1e3)
"""


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    piece, left = bytes(1 << 16), int(await reader.readline())
    while left:
        writer.write(piece[:left])
        left -= min(left, len(piece))
        await writer.drain()
    writer.close()


async def _run(*argv: str) -> bytes:
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    return said


async def held(name: str, count: int, rows: list[Row], label: str, target: str) -> None:
    backend = get_backend(name)
    before = memory_mb(own_processes())
    boxes = []
    for _ in range(0, count, 16):
        boxes += await asyncio.gather(*(backend.start(SPEC) for _ in range(16)))
    each = (memory_mb(own_processes()) - before) / len(boxes)
    rows.append(Row(f"memory of each of {len(boxes)} held{label}", each, "MB", target))
    await asyncio.gather(*(box.stop() for box in boxes))


async def measure(name: str, count: int, image: str | None) -> list[Row]:
    reason = await get_backend(name).probe()
    if reason is not None:
        sys.exit(f"sandbox backend {name!r} does not work here: {reason}")
    rows: list[Row] = []
    backend = get_backend(name)
    await commands(name, rows)
    if isinstance(backend, LocalBackend):
        await cycles(name, rows, " (shell)", ("<= 12", ">= 150"))
        if count:
            await held(name, count, rows, " (shell)", "<= 1")
        backend.lazy = False
    await cycles(name, rows, " (agent)", ("<= 22", ">= 90"))
    if isinstance(backend, LocalBackend):
        with tempfile.TemporaryDirectory() as folder:
            await cycles(name, rows, " (image)", spec=replace(SPEC, rootfs=small_image(Path(folder))))
    if count:
        await held(name, count, rows, " (agent)", "<= 5")
    await pooled(name, rows)
    if isinstance(backend, SnapshotBackend):
        for each in (None, image) if image else (None,):
            await copies(name, each, rows)
    await backend.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="local")
    parser.add_argument("--held", type=int, default=512, help="boxes held at once for the memory row; 0 leaves it out")
    parser.add_argument("--image", help="also measures copies of boxes of this image")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = asyncio.run(measure(arguments.backend, arguments.held, arguments.image))
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows]))
        return
    load = subprocess.run(["uptime"], capture_output=True, text=True, check=False).stdout.strip()
    print(f"backend {arguments.backend}, {os.cpu_count()} CPUs; {load}")
    for row in rows:
        print(f"{row.what:42} {row.value:10.2f} {row.unit:4} {row.target}")


if __name__ == "__main__":
    main()
