"""Boxes with an allow list on a machine that reaches the world through a proxy: real programs through a real one."""

import asyncio
import base64
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import h11
import pip
import pytest

from served import bare_repository, certificate, serving, tiny_wheel
from verifiers.sandboxes import SandboxSpec, start_sandbox
from verifiers.sandboxes.egress import reach
from verifiers.sandboxes.egress.door import PORT

SECRET = "pa ss:w/ord@1"
QUOTED = "pa%20ss%3Aw%2Ford%401"


def listed(*allow: str, **changes: object) -> SandboxSpec:
    return SandboxSpec(memory_mb=512, disk_mb=128, pids=64, network="allowlist", allow=allow, **changes)  # pyright: ignore


@dataclass
class Proxy:
    """An HTTP proxy that has names of its own, all on this machine's loopback, and wants credentials if told so."""

    names: dict[str, int] = field(default_factory=dict)
    credentials: str = ""
    answer: bytes = b""
    """Said to everything instead."""
    asked: list[str] = field(default_factory=list)
    """Method and target of each request."""
    heads: list[dict[bytes, bytes]] = field(default_factory=list)
    port: int = 0

    @asynccontextmanager
    async def running(self, context: ssl.SSLContext | None = None) -> AsyncIterator["Proxy"]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self
            server.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.answer_one(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER)
        connection.receive_data(await reader.readuntil(b"\r\n\r\n"))
        request = connection.next_event()
        assert isinstance(request, h11.Request)
        head = dict(request.headers)
        self.asked.append(f"{request.method.decode()} {request.target.decode()}")
        self.heads.append(head)
        if self.answer:
            writer.write(self.answer)
            await writer.drain()
            return
        wanted = b"Basic " + base64.b64encode(self.credentials.encode())
        if self.credentials and head.get(b"proxy-authorization") != wanted:
            writer.write(b'HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n')
            await writer.drain()
            return
        url = urlsplit(f"//{request.target.decode()}" if request.method == b"CONNECT" else request.target.decode())
        if url.hostname not in self.names:
            writer.write(b"HTTP/1.1 502 No such name\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.names[url.hostname])
        if request.method == b"CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            target = url.path + (f"?{url.query}" if url.query else "")
            kept = [(name, value) for name, value in request.headers if not name.startswith(b"proxy-")]
            onward = h11.Connection(h11.CLIENT)
            far_writer.write(onward.send(h11.Request(method=request.method, target=target, headers=kept)) or b"")
        try:
            await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
        finally:
            far_writer.close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
    else:
        writer.close()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


def set_proxy(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", url)
    monkeypatch.setenv("http_proxy", url)


def look_up(monkeypatch: pytest.MonkeyPatch, known: dict[str, str]) -> None:
    """From now on this machine knows names in `known` as the addresses there, and nobody's in `.invalid`."""
    real = socket.getaddrinfo

    def looked_up(host: str, port: int, *rest: object, **options: object) -> object:
        if host.endswith(".invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "nobody knows it")
        return real(known.get(host, host), port, *rest, **options)  # pyright: ignore

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)


async def test_pip_installs_through_the_machines_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Names go there unresolved, with the credentials that no box and no log is ever shown."""
    tiny_wheel(tmp_path)
    with serving(tmp_path) as port:
        async with Proxy({"index.example.org": port}, credentials=f"me:{SECRET}").running() as proxy:
            set_proxy(monkeypatch, f"http://me:{QUOTED}@127.0.0.1:{proxy.port}")
            files = {"tools/pip": Path(pip.__file__).parent}
            async with start_sandbox("local", listed("index.example.org", files=files)) as box:
                install = "python3 -m pip install --target lib --trusted-host index.example.org --index-url"
                done = await box.exec(
                    f"{install} http://index.example.org/simple tiny", env={"PYTHONPATH": "tools"}, timeout_s=120
                )
                seen = await box.exec("env; cat /proc/*/environ", timeout_s=120)
                refused = await box.exec("curl -sSi http://elsewhere.example.org/", timeout_s=120)

    assert done.ok, done.stderr
    assert proxy.asked[0] == "GET http://index.example.org/simple/tiny/"
    assert len([line for line in proxy.asked if "elsewhere" in line]) == 0
    assert "not in this sandbox's allow list: elsewhere.example.org:80" in refused.stdout
    assert f":{proxy.port}" not in seen.stdout
    assert "me:" not in seen.stdout + caplog.text
    assert "pa ss" not in seen.stdout + caplog.text


async def test_tunnels_and_socks_go_through_the_machines_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    signed, context = certificate(tmp_path, "files.example.org")
    (tmp_path / "said").write_text("over TLS")
    with serving(tmp_path, context) as port:
        async with Proxy({"files.example.org": port}, credentials="me:1").running() as proxy:
            monkeypatch.setenv("ALL_PROXY", f"http://me:1@127.0.0.1:{proxy.port}/")
            async with start_sandbox("local", listed("*.example.org:443", files={"ca.pem": signed})) as box:
                fetch = "curl -sS --cacert ca.pem https://files.example.org/said"
                tunnelled = await box.exec(fetch, timeout_s=120)
                by_socks = await box.exec(f"{fetch} --noproxy '' --proxy socks5h://127.0.0.1:{PORT}", timeout_s=120)

    assert (tunnelled.stdout, by_socks.stdout) == ("over TLS", "over TLS"), tunnelled.stderr + by_socks.stderr
    assert proxy.asked == ["CONNECT files.example.org:443"] * 2


async def test_git_clones_through_the_machines_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    bare_repository(tmp_path)
    with serving(tmp_path) as port:
        async with Proxy({"git.example.org": port}).running() as proxy:
            set_proxy(monkeypatch, f"127.0.0.1:{proxy.port}")
            async with start_sandbox("local", listed("git.example.org")) as box:
                done = await box.exec("git clone -q http://git.example.org/repo.git && cat repo/file", timeout_s=120)

    assert done.stdout == "cloned", done.stderr
    assert b"proxy-authorization" not in proxy.heads[0]


async def test_a_proxy_may_want_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its certificate is checked; what goes through is TLS in TLS."""
    signed, context = certificate(tmp_path, "files.example.org")
    (tmp_path / "said").write_text("twice")
    trusting = ssl.create_default_context(cafile=signed)
    with serving(tmp_path, context) as port:
        async with Proxy({"files.example.org": port}).running(context) as proxy:
            set_proxy(monkeypatch, f"https://127.0.0.1:{proxy.port}")
            async with start_sandbox("local", listed("files.example.org", files={"ca.pem": signed})) as box:
                fetch = "curl -sS --cacert ca.pem https://files.example.org/said"
                refused = await box.exec(fetch, timeout_s=120)
                monkeypatch.setattr("verifiers.sandboxes.egress.outer._trust", lambda: trusting)
                done = await box.exec(fetch, timeout_s=120)

    assert done.stdout == "twice", done.stderr
    assert "502" in refused.stderr
    assert proxy.asked == ["CONNECT files.example.org:443"]


FAILURES = {
    "refuses": (b"HTTP/1.1 403 Not \xe9ver\r\nContent-Length: 0\r\n\r\n", "answered 403 Not ?ver"),
    "wants credentials": (b"HTTP/1.1 407 Who\r\nContent-Length: 0\r\n\r\n", "wants credentials, or others than"),
    "is none": (b"SSH-2.0-x\r\n\r\n", "gave no valid answer"),
    "hangs up": (b" ", "gave no valid answer"),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_a_proxy_that_leads_nowhere_is_said_in_one_line(
    case: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """To the box without where the proxy is, to the log with it, to nobody with credentials; once a host."""
    answer, said = FAILURES[case]
    async with Proxy(answer=answer).running() as proxy:
        set_proxy(monkeypatch, f"http://me:{QUOTED}@127.0.0.1:{proxy.port}")
        async with start_sandbox("local", listed("files.example.org")) as box:
            fetch = f"curl -sv -x http://127.0.0.1:{PORT} https://files.example.org/"
            told = (await box.exec(fetch, timeout_s=120)).stderr
            await box.exec(fetch, timeout_s=120)
    lines = [text for text in caplog.messages if box.id in text]
    line = f"files.example.org:443 cannot be reached: the proxy of this machine {said}"

    assert line in told
    assert "502" in told
    assert f":{proxy.port}" not in told
    assert len(lines) == 1
    assert line in lines[0]
    assert f"(http://127.0.0.1:{proxy.port})" in lines[0]
    assert "me:" not in told + caplog.text
    assert "pa ss" not in told + caplog.text


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://me:secret@127.0.0.1:{closed}", "cannot be reached: Connection refused"),
        ("http://me:secret@proxy.invalid:3128", "cannot be reached: nobody knows it"),
        ("socks5h://me:secret@127.0.0.1:1080", "cannot be used"),
        ("http://me:secret@127.0.0.1:port", "cannot be used"),
        ("http://me:secret@", "cannot be used"),
    ],
)
async def test_a_proxy_that_cannot_be_used_is_said_in_one_line(
    url: str, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    look_up(monkeypatch, {})
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        set_proxy(monkeypatch, url.format(closed=closed.getsockname()[1]))
        async with start_sandbox("local", listed("files.example.org")) as box:
            plain = await box.exec("curl -sSi http://files.example.org/", timeout_s=120)
            tunnel = await box.exec("curl -sv https://files.example.org/", timeout_s=120)

    assert f"files.example.org:80 cannot be reached: the proxy of this machine {said}" in plain.stdout
    assert f"files.example.org:443 cannot be reached: the proxy of this machine {said}" in tunnel.stderr
    for text in (plain.stdout, tunnel.stderr, caplog.text):
        assert "secret" not in text
        assert "me:" not in text
    if "socks5h" in url:
        assert "this library speaks to http:// and https:// proxies" in caplog.text


async def test_plain_requests_say_what_the_proxy_wants(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async with Proxy(credentials="me:right").running() as proxy:
        set_proxy(monkeypatch, f"http://me:wrong@127.0.0.1:{proxy.port}")
        async with start_sandbox("local", listed("files.example.org")) as box:
            answer = (await box.exec("curl -sSi http://files.example.org/", timeout_s=120)).stdout

    assert answer.startswith("HTTP/1.1 502 the proxy of this machine wants credentials")
    assert f"(http://127.0.0.1:{proxy.port})" in caplog.text
    assert "wrong" not in answer + caplog.text


async def test_what_needs_no_proxy_is_reached_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """This machine's own addresses never need one; names and networks in NO_PROXY do not either."""
    (tmp_path / "said").write_text("direct")
    look_up(monkeypatch, {})
    with serving(tmp_path) as port:
        async with Proxy().running() as proxy:
            set_proxy(monkeypatch, f"http://127.0.0.1:{proxy.port}")
            spec = listed(f"127.0.0.1:{port}", "localhost", "240.1.2.3", "files.invalid")
            async with start_sandbox("local", spec) as box:
                fetch = f"curl -sSi -m 20 --noproxy '' -x http://127.0.0.1:{PORT} http://"
                direct = await box.exec(f"{fetch}127.0.0.1:{port}/said", timeout_s=120)
                by_name = await box.exec(f"{fetch}localhost:{port}/said", timeout_s=120)
                assert proxy.asked == []
                for host in ("240.1.2.3", "files.invalid"):
                    await box.exec(f"{fetch}{host}/", timeout_s=120)
                assert proxy.asked == ["GET http://240.1.2.3/", "GET http://files.invalid/"]
                monkeypatch.setenv("NO_PROXY", "240.1.0.0/16,.invalid")
                monkeypatch.setattr(reach, "TRY_TIMEOUT_S", 0.2)
                for host in ("240.1.2.3", "files.invalid"):
                    await box.exec(f"{fetch}{host}/", timeout_s=120)  # whatever there is
                assert len(proxy.asked) == 2

    assert direct.stdout.endswith("direct")
    assert by_name.stdout.endswith("direct")


async def test_a_name_nobody_listed_goes_to_the_proxy_as_a_checked_address(monkeypatch: pytest.MonkeyPatch):
    """A box with `*` chooses names itself: one that leads to a special range is refused."""
    leads = {"public.example.com": "93.184.215.14", "inner.example.com": "10.1.2.3", "own.example.com": "127.0.0.1"}
    look_up(monkeypatch, leads)
    async with Proxy().running() as proxy:
        set_proxy(monkeypatch, f"http://127.0.0.1:{proxy.port}")
        async with start_sandbox("local", listed("*", "files.example.org")) as box:
            said = {
                host: (await box.exec(f"curl -sSi http://{host}/", timeout_s=120)).stdout
                for host in (*leads, "files.example.org")
            }

    assert proxy.asked == ["CONNECT 93.184.215.14:80", "GET http://files.example.org/"]
    assert "10.1.2.3 is private, which needs an entry of its own" in said["inner.example.com"]
    assert "127.0.0.1 is loopback, which needs an entry of its own" in said["own.example.com"]
