"""What a backend with `network="allowlist"` must hold, for pytest: subclass as `SandboxConformance`.

For backends whose boxes are `AgentSandbox`es, where the proxy of this library keeps the list. Servers stand on this
machine's loopback; what is asked inside needs python3. Attacks speak to the proxy in raw bytes.
"""

from __future__ import annotations

import asyncio
import http.server
import json
import resource
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import ClassVar

import pytest

from verifiers.errors import SandboxError
from verifiers.sandboxes import Backend, Sandbox, SandboxSpec, start_sandbox
from verifiers.sandboxes.egress.door import PORT
from verifiers.testing.isolation import own_address

RAW = """
import json, socket, sys, time
answers = []
for pieces in json.load(sys.stdin):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
    for piece in pieces[:-1]:
        s.sendall(piece.encode("latin-1"))
        time.sleep(0.05)
    s.sendall(pieces[-1].encode("latin-1"))
    s.settimeout(60)
    got = b""
    try:
        while len(got) < 65536:
            data = s.recv(65536)
            if not data:
                break
            got += data
    except OSError as error:
        got += b"<" + type(error).__name__.encode() + b">"
    answers.append(got.decode("latin-1"))
print(json.dumps(answers))
"""
DIRECT = """
import socket, sys
for host, port in (target.rsplit(":", 1) for target in sys.argv[1:]):
    try:
        socket.create_connection((host, int(port)), timeout=3)
        print("connected", host)
    except OSError:
        pass
"""
FETCH = """
import os, sys, urllib.request
with urllib.request.urlopen(sys.argv[1]) as answer:
    total = 0
    while data := answer.read(65536):
        total += len(data)
print(total)
"""
SEND = """
import http.client, sys
link = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
link.set_tunnel(sys.argv[2], int(sys.argv[3]))
link.request("POST", "/count", body=(b"x" * 65536 for _ in range(int(sys.argv[4]))), encode_chunked=True,
             headers={"Transfer-Encoding": "chunked"})
print(link.getresponse().read().decode())
"""
MANY = """
import socket, sys
links = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
for link in links[::2]:
    link.sendall(b"CONNECT ")
print(len(links))
"""
SPELLINGS = (
    "127.1",
    "0x7f.1",
    "0x7f000001",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "127.0.0.1.",
    "127.000.000.001",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[2002:7f00:1::]",
    "[::1]",
    "[::]",
    "0.0.0.0",
    "0",
    "localhost",
    "LOCALHOST.",
    "user@127.0.0.1",
    "example.com@127.0.0.1",
    "127.0.0.1%00.example.com",
    "127.0.0.1#.example.com",
    "[fe80::1%25lo]",
    "169.254.169.254",
    "168.63.129.16",
    "100.100.100.200",
)
"""Ways to write this machine, or a metadata service."""


class _Answers(http.server.BaseHTTPRequestHandler):
    """/bytes/N sends N bytes, /endless never stops, /count says how many it was sent, all else who was asked for."""

    protocol_version = "HTTP/1.1"

    @property
    def target(self) -> Target:
        assert isinstance(self.server, Target)
        return self.server

    def do_GET(self) -> None:
        self.target.asked.append((self.headers["Host"], self.path))
        kind, _, count = self.path[1:].partition("/")
        if kind == "endless":
            self.stream()
            return
        size = int(count) if kind == "bytes" else 0
        text = b"" if size else f"{self.command} {self.headers['Host']} {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(size or len(text)))
        self.end_headers()
        self.wfile.write(text)
        for _ in range(size // 65536):
            self.wfile.write(bytes(65536))
        self.wfile.write(bytes(size % 65536))

    def do_POST(self) -> None:
        total = 0
        while size := int(self.rfile.readline(), 16):
            total += len(self.rfile.read(size + 2)) - 2
        self.rfile.readline()
        self.send_response(200)
        self.send_header("Content-Length", str(len(str(total))))
        self.end_headers()
        self.wfile.write(str(total).encode())

    def stream(self) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            while True:
                self.wfile.write(bytes(65536))
                self.target.streamed += 65536
        except OSError:
            self.target.gone.set()
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


class Target(http.server.ThreadingHTTPServer):
    """A server on this machine's loopback that notes what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.asked: list[tuple[str | None, str]] = []
        self.streamed = 0
        self.gone = threading.Event()
        """Set when a reader of /endless hung up."""

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no event here."""


class AllowListConformance:
    """A list is kept, whatever the box does, and costs this machine nothing."""

    backend: ClassVar[str | Backend] = "local"
    spec: ClassVar[SandboxSpec] = SandboxSpec(memory_mb=256, disk_mb=64, pids=64)

    @pytest.fixture
    def target(self) -> Iterator[Target]:
        with Target() as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            yield server
            server.shutdown()
            thread.join()

    @asynccontextmanager
    async def box(self, *allow: str, env: dict[str, str] | None = None) -> AsyncIterator[Sandbox]:
        spec = replace(self.spec, network="allowlist", allow=allow, env=env or {})
        async with start_sandbox(self.backend, spec) as box:
            if not (await box.exec("command -v python3")).ok:
                pytest.skip("needs an image with python3")
            yield box

    async def python(self, box: Sandbox, code: str, *arguments: object) -> str:
        result = await box.exec(["python3", "-c", code, *map(str, arguments)], timeout_s=120)
        return result.stdout + result.stderr

    async def raw(self, box: Sandbox, *pieces: str) -> str:
        """What the proxy answers to one connection that sends these bytes, written as Latin-1."""
        return (await self.all_raw(box, [pieces]))[0]

    async def all_raw(self, box: Sandbox, attempts: Sequence[Sequence[str]]) -> list[str]:
        """The answers to one connection after another."""
        result = await box.exec(["python3", "-c", RAW, str(PORT)], stdin=json.dumps(attempts), timeout_s=120)
        assert result.ok, result.stderr
        return json.loads(result.stdout)

    # -- what is let through ------------------------------------------------------------------------------------

    async def test_what_is_listed_is_reached_in_every_way(self, target: Target) -> None:
        port = target.server_port
        async with self.box(f"127.0.0.1:{port}", f"localhost:{port}") as box:
            plain = await self.raw(box, f"GET http://LocalHost:{port}/a?b=c HTTP/1.1\r\nHost: other\r\n\r\n")
            inner = "GET /in HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            tunnel = await self.raw(box, f"CONNECT localhost:{port} HTTP/1.1\r\nHost: x\r\n\r\n", inner)
            at_once = await self.raw(box, f"CONNECT localhost:{port} HTTP/1.1\r\nHost: x\r\n\r\n{inner}")
            place = _two_bytes(port)
            by_name = await self.raw(box, "\5\1\0", "\5\1\0\3\x09localhost" + place, inner)
            by_address = await self.raw(box, "\5\1\0\5\1\0\1\x7f\0\0\1" + place + inner)
            simple = await self.python(box, FETCH, f"http://127.0.0.1:{port}/bytes/7")

        assert plain.endswith(f"GET LocalHost:{port} /a?b=c")
        assert tunnel.startswith("HTTP/1.1 200 ")
        assert tunnel.endswith("GET x /in")
        assert at_once.startswith("HTTP/1.1 200 ")
        assert at_once.endswith("GET x /in")
        for answer in (by_name, by_address):
            assert answer.startswith("\5\0\5\0\0\1\0\0\0\0\0\0HTTP/1.1 200 ")
            assert answer.endswith("GET x /in")
        assert simple == "7\n"

    async def test_the_specs_own_environment_wins(self) -> None:
        async with self.box(env={"HTTPS_PROXY": "http://192.0.2.1:1", "no_proxy": "*"}) as box:
            said = await box.exec("echo $HTTPS_PROXY $https_proxy $no_proxy $NO_PROXY")

        assert said.stdout == f"http://192.0.2.1:1 http://127.0.0.1:{PORT} * localhost,127.0.0.1,::1\n"

    # -- what is not --------------------------------------------------------------------------------------------

    async def test_what_is_not_listed_is_refused_with_the_reason(self, target: Target) -> None:
        port = target.server_port
        async with self.box("files.example.com", "127.0.0.1:1") as box:
            plain = await self.raw(box, f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n")
            tunnel = await self.raw(box, "CONNECT other.example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
            socks = await self.raw(box, "\5\1\0", "\5\1\0\3\x09localhost" + _two_bytes(port))

        assert plain.startswith(f"HTTP/1.1 403 not in this sandbox's allow list: 127.0.0.1:{port}")
        assert "not in this sandbox's allow list: other.example.com:443" in tunnel.splitlines()[-1]
        assert "files.example.com" in tunnel
        assert socks == "\5\0\5\2\0\1\0\0\0\0\0\0"
        assert target.asked == []

    async def test_nothing_goes_round_the_proxy(self, target: Target) -> None:
        places = (f"127.0.0.1:{target.server_port}", f"{own_address()}:22", "169.254.169.254:80", "1.1.1.1:53")
        resolve = "import socket; print('resolved', socket.getaddrinfo('example.com', 80))"
        async with self.box("*", "0.0.0.0/0", "::/0", f"127.0.0.1:{target.server_port}") as box:
            assert "connected" not in await self.python(box, DIRECT, *places)
            assert "resolved" not in await self.python(box, resolve)
            interfaces = (await box.exec("cat /proc/net/dev")).stdout.splitlines()[2:]

        assert [line.split(":")[0].strip() for line in interfaces if not _is_unused(line)] == ["lo"]

    async def test_wide_lists_open_neither_this_machine_nor_metadata(self, target: Target) -> None:
        """Names that lead here and every way to write an address."""
        port = target.server_port
        own = (own_address(), socket.gethostname())
        async with self.box("*", "0.0.0.0/0", "::/0") as box:
            hosts = [*SPELLINGS, *own]
            tunnels = await self.all_raw(
                box, [[f"CONNECT {host}:{port} HTTP/1.1\r\nHost: x\r\n\r\n"] for host in hosts]
            )
            plain = await self.all_raw(
                box, [[f"GET http://{host}:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n"] for host in hosts]
            )
            names = [host.strip("[]") for host in hosts]
            sent = [f"\5\1\0\5\1\0\3{chr(len(name))}{name}{_two_bytes(port)}" for name in names]
            by_socks = await self.all_raw(box, [[one] for one in sent])

        for host, *answers in zip(hosts, tunnels, plain, strict=True):
            assert {answer.split(" ")[1] for answer in answers} <= {"400", "403", "502"}, (host, answers)
        for host, answer in zip(hosts, by_socks, strict=True):
            assert answer[:3] == "\5\0\5", host
            assert answer[3] in "\1\2\4", (host, answer)
        assert target.asked == []

    async def test_requests_that_mean_two_things_are_refused(self, target: Target) -> None:
        port = target.server_port
        there = f"http://127.0.0.1:{port}"
        hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
        hostile = (
            f"POST {there}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            f"POST {there}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
            f"POST {there}/ HTTP/1.1\r\nHost: x\r\nContent-Length: +4\r\n\r\nabcd",
            f"POST {there}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
            f"GET {there}/ HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
            f"GET {there}/ HTTP/1.1\r\nHost : x\r\n\r\n",
            f"GET {there}/ HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n",
            f"GET http://u@127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n",
            f"GET http://127.0.0.1:{port}\\@x/ HTTP/1.1\r\nHost: x\r\n\r\n",
            f"GET http://127.0.0.1\r\nX: y:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n",
            f"GET  {there}/ HTTP/1.1\r\nHost: x\r\n\r\n",
            f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
            f"CONNECT 127.0.0.1:{port}\0 HTTP/1.1\r\nHost: x\r\n\r\n",
            f"GET /direct HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
            f"GET https://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET http://127.0.0.1:0/ HTTP/1.1\r\nHost: x\r\n\r\n",
            f"GET {there}/ HTTP/1.1\r\nHost: x\r\nA: {'b' * 70000}\r\n\r\n",
        )
        async with self.box(f"127.0.0.1:{port}") as box:
            for asked, said in zip(hostile, await self.all_raw(box, [[one] for one in hostile]), strict=True):
                assert said[:12] in ("HTTP/1.1 400", "HTTP/1.1 431", "HTTP/1.1 501"), (asked[:200], said)
            assert target.asked == []
            first = f"GET {there}/first HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, X-Mine\r\nX-Mine: 1\r\n\r\n"
            answers = await self.raw(box, first + hidden)

        assert answers.count("HTTP/1.1") == 1
        assert target.asked == [(f"127.0.0.1:{port}", "/first")]

    async def test_a_box_without_a_network_has_no_proxy(self) -> None:
        async with self.box("127.0.0.1"), start_sandbox(self.backend, self.spec) as other:
            assert "connected" not in await self.python(other, DIRECT, f"127.0.0.1:{PORT}")
            assert "proxy" not in (await other.exec("env")).stdout.lower()

    async def test_an_empty_list_lets_nothing_through(self, target: Target) -> None:
        async with self.box() as box:
            said = await self.raw(box, f"GET http://127.0.0.1:{target.server_port}/ HTTP/1.1\r\nHost: x\r\n\r\n")

        assert "403 not in this sandbox's allow list" in said
        assert said.endswith("allowed: nothing\n")

    # -- what it costs this machine -----------------------------------------------------------------------------

    async def test_large_bodies_stream_through(self, target: Target) -> None:
        size, port = 50_000_000, target.server_port
        async with self.box(f"127.0.0.1:{port}") as box:
            await self.python(box, FETCH, f"http://127.0.0.1:{port}/bytes/1000000")
            before = _peak_mb()
            down = await self.python(box, FETCH, f"http://127.0.0.1:{port}/bytes/{size}")
            up = await self.python(box, SEND, PORT, "127.0.0.1", port, size // 65536)

            assert _peak_mb() - before < 30
        assert (down, up) == (f"{size}\n", f"{size // 65536 * 65536}\n")

    async def test_a_program_that_does_not_read_stops_the_sender(self, target: Target) -> None:
        port = target.server_port
        asked = (
            f"CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\nGET /endless HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"
        )
        lazy = f"import socket, time; s = socket.create_connection(('127.0.0.1', {PORT})); s.sendall(b'{asked}')"
        async with self.box(f"127.0.0.1:{port}") as box:
            before = _peak_mb()
            process = await box.spawn(["python3", "-c", lazy + "; time.sleep(600)"])
            held = -1
            while target.streamed == 0 or held != target.streamed:
                held = target.streamed
                assert held < 50_000_000, "nobody reads, and the sender goes on"
                await asyncio.sleep(0.5)
            assert _peak_mb() - before < 30
            assert not target.gone.is_set()
            await process.kill()  # a program that is gone
            assert await asyncio.to_thread(target.gone.wait, 60)

    async def test_a_transfer_ends_with_its_box(self, target: Target) -> None:
        port = target.server_port
        async with self.box(f"127.0.0.1:{port}") as box:
            running = asyncio.ensure_future(self.python(box, FETCH, f"http://127.0.0.1:{port}/endless"))
            while target.streamed < 10_000_000:  # noqa: ASYNC110 - the server is a thread
                await asyncio.sleep(0.02)
            assert not running.done()
            await box.stop()
            with pytest.raises(SandboxError):
                await running
            assert await asyncio.to_thread(target.gone.wait, 60)

    async def test_many_connections_at_once_have_an_end(self, target: Target) -> None:
        port = target.server_port
        async with self.box(f"127.0.0.1:{port}") as box:
            assert await self.python(box, MANY, PORT, 300) == "300\n"
            assert await self.python(box, FETCH, f"http://127.0.0.1:{port}/bytes/5") == "5\n"


def _two_bytes(port: int) -> str:
    return chr(port >> 8) + chr(port & 255)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _is_unused(line: str) -> bool:
    """Of /proc/net/dev: an interface of a kind the kernel makes in every namespace, through which nothing has gone."""
    return not any(int(number) for number in line.split(":")[1].split())
