"""Boxes with an allow list as people use them: pip, git, TLS, a pool; and the proxy's limits."""

import asyncio
import gc
import logging
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pip
import pytest

from served import bare_repository, certificate, serving, tiny_wheel
from verifiers.sandboxes import SandboxSpec, start_sandbox
from verifiers.sandboxes.egress import door, forward, reach
from verifiers.sandboxes.egress.allow import AllowList
from verifiers.sandboxes.egress.door import PORT
from verifiers.sandboxes.egress.lookups import LOOKUPS, Lookups
from verifiers.sandboxes.egress.reach import RefusedHost, UnreachableHost
from verifiers.sandboxes.pool import SandboxPool
from waiting import until

SMALL = SandboxSpec(memory_mb=512, disk_mb=128, pids=64, network="allowlist")
GET = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"


def listed(*allow: str, **changes: object) -> SandboxSpec:
    from dataclasses import replace

    return replace(SMALL, allow=allow, **changes)  # pyright: ignore[reportArgumentType]


async def test_pip_installs_from_a_listed_index(tmp_path: Path):
    tiny_wheel(tmp_path)
    with serving(tmp_path) as port:
        files = {"tools/pip": Path(pip.__file__).parent}
        async with start_sandbox("local", listed(f"127.0.0.1:{port}", files=files)) as box:
            install = f"python3 -m pip install --target lib --index-url http://127.0.0.1:{port}/simple"
            done = await box.exec(f"{install} tiny", env={"PYTHONPATH": "tools"}, timeout_s=120)
            says = await box.exec("python3 -c 'import tiny; print(tiny.SAYS)'", env={"PYTHONPATH": "lib"})
            elsewhere = (
                "python3 -m pip install --target lib2 --retries 1 --index-url https://index.example.org/simple tiny"
            )
            refused = await box.exec(elsewhere, env={"PYTHONPATH": "tools"}, timeout_s=120)

    assert done.ok, done.stderr
    assert says.stdout == "installed\n"
    assert not refused.ok
    assert "not in this sandbox's allow list: index.example.org:443" in refused.stdout + refused.stderr


async def test_git_clones_from_a_listed_host(tmp_path: Path):
    bare_repository(tmp_path)
    with serving(tmp_path) as port:
        async with start_sandbox("local", listed(f"127.0.0.1:{port}")) as box:
            done = await box.exec(f"git clone -q http://127.0.0.1:{port}/repo.git && cat repo/file", timeout_s=120)
            refused = await box.exec("git clone -q https://git.example.org/other.git", timeout_s=120)

    assert done.stdout == "cloned", done.stderr
    assert "403" in refused.stderr


async def test_tls_goes_through_untouched(tmp_path: Path):
    """The certificate that the program checks is the server's own; by address and by name."""
    signed, context = certificate(tmp_path, "localhost")
    (tmp_path / "said").write_text("over TLS")
    with serving(tmp_path, context) as port:
        spec = listed(f"127.0.0.1:{port}", f"localhost:{port}", files={"ca.pem": signed})
        async with start_sandbox("local", spec) as box:
            env = {"SSL_CERT_FILE": "ca.pem"}
            by_address = await box.exec(["python3", "-c", GET, f"https://127.0.0.1:{port}/said"], env=env)
            env["no_proxy"] = "none"
            by_name = await box.exec(["python3", "-c", GET, f"https://localhost:{port}/said"], env=env)
            unknown = await box.exec(["python3", "-c", GET, f"https://127.0.0.1:{port}/said"])

    assert by_address.stdout == "over TLS\n", by_address.stderr
    assert by_name.stdout == "over TLS\n", by_name.stderr
    assert "CERTIFICATE_VERIFY_FAILED" in unknown.stderr


async def test_boxes_from_a_pool_have_their_way_out(tmp_path: Path):
    """Those that waited, too, and with variables that they are given late."""
    (tmp_path / "said").write_text("pooled")
    with serving(tmp_path) as port:
        async with SandboxPool("local") as pool:
            waited = []
            for number in range(4):
                waited.append(pool.waiting)
                async with start_sandbox(pool, listed(f"127.0.0.1:{port}", env={"NUMBER": f"{number}"})) as box:
                    done = await box.exec(["python3", "-c", GET, f"http://127.0.0.1:{port}/said"])
                    assert done.stdout == "pooled\n", done.stderr
                    assert (await box.exec("echo $NUMBER $https_proxy")).stdout == f"{number} http://127.0.0.1:{PORT}\n"
                    assert number == 0 or await until(lambda: bool(pool.waiting))
            async with start_sandbox(pool, listed("files.example.org")) as other:
                refused = await other.exec(["python3", "-c", GET, f"http://127.0.0.1:{port}/said"])
    assert min(waited[2:]) >= 1
    assert "Connection refused" in refused.stderr  # its own loopback


CONNECTS = """
import socket, sys
for number in range(int(sys.argv[2])):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    s.sendall(b"CONNECT h%d.example.org:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n" % number)
    assert s.recv(100).startswith(b"HTTP/1.1 403")
"""


async def test_refusals_are_logged_once_a_host_and_not_without_end(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "verifiers.sandboxes"):
        async with start_sandbox("local", listed("files.example.org")) as box:
            for count in (3, 40):
                assert (await box.exec(["python3", "-c", CONNECTS, str(PORT), str(count)])).ok
    told = [text for text in caplog.messages if box.id in text]

    assert sum("h1.example.org:443" in line for line in told) == 1
    assert len(told) == door.MAX_WARNINGS + 1
    assert "further refusals" in told[-1]


async def test_a_program_that_says_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forward, "HEAD_TIMEOUT_S", 0.2)
    # it may be hung up on before it has said even that, where it is slow
    wait = (
        f"import socket\ns = socket.create_connection(('127.0.0.1', {PORT}))\n"
        "try: s.sendall(b'GET '); print(s.recv(9))\nexcept ConnectionError: print(b'')"
    )
    async with start_sandbox("local", listed("files.example.org")) as box:
        assert (await box.exec(["python3", "-c", wait], timeout_s=120)).stdout == "b''\n"


def sockets() -> int:
    found = 0
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found += os.readlink(path).startswith("socket:")
    return found


async def test_a_server_that_reads_nothing_keeps_no_socket_of_a_box_that_ended():
    """What was sent and not taken is thrown away."""
    taken: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda reader, writer: taken.append(writer), "127.0.0.1", 0, limit=1 << 10)
    async with server:
        port = server.sockets[0].getsockname()[1]
        send = (
            f"import socket; s = socket.create_connection(('127.0.0.1', {PORT})); s.sendall(bytes([5, 1, 0]));"
            f"s.recv(2); s.sendall(bytes([5, 1, 0, 1, 127, 0, 0, 1]) + ({port}).to_bytes(2, 'big'));"
            "print(s.recv(99)[1]); s.sendall(bytes(1 << 25))"
        )
        async with start_sandbox("local", SMALL):
            pass  # what the first box opens stays
        gc.collect()  # what tests before this one forgot to close is not this one's
        idle = sockets()
        async with start_sandbox("local", listed(f"127.0.0.1:{port}")) as box:
            process = await box.spawn(["python3", "-u", "-c", send])
            assert await process.stdout.readline() == b"0\n"
            assert await until(lambda: sockets() > idle + 1)
            await asyncio.sleep(0.5)  # for what is sent to fill all there is between the two
        assert await until(lambda: sockets() <= idle + 1)  # the server's own end
        for writer in taken:
            writer.transport.abort()
        await asyncio.sleep(0)


async def test_a_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reach, "TRY_TIMEOUT_S", 0.3)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        place = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        try:
            for one in waiting:  # its queue is full, so the next is not answered
                one.setblocking(False)
                one.connect_ex(place)
            with pytest.raises(UnreachableHost, match="no answer"):
                await reach.reach(AllowList([f"127.0.0.1:{place[1]}"]), *place, "https", Lookups())
        finally:
            for one in waiting:
                one.close()


async def test_a_name_reaches_only_those_of_its_addresses_that_may_be_reached():
    """`localhost` and this machine's own name lead here: listing the name is not enough, listing an address is."""
    one = Lookups()
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        for name in ("localhost", socket.gethostname()):
            with pytest.raises(RefusedHost, match="which needs an entry of its own"):
                await reach.reach(AllowList([name, "*", "0.0.0.0/0"]), name, port, "https", one)
        with pytest.raises(RefusedHost, match="needs an entry of its own"):
            await reach.reach(AllowList(["localhost", "127.0.0.1:1"]), "localhost", port, "https", one)
        upstream = await reach.reach(AllowList(["localhost", f"127.0.0.1:{port}"]), "LOCALHOST.", port, "https", one)
        assert upstream.writer.get_extra_info("peername") == ("127.0.0.1", port)
        upstream.writer.close()
        with pytest.raises(UnreachableHost, match=r"cannot be looked up|did not answer"):
            await reach.reach(AllowList(["no-such-host.invalid"]), "no-such-host.invalid", port, "https", one)
        with pytest.raises(UnreachableHost, match="refused"):
            await reach.reach(AllowList(["127.0.0.2"]), "127.0.0.2", 1, "https", one)


async def test_a_box_whose_names_are_slow_to_look_up_holds_up_no_other(monkeypatch: pytest.MonkeyPatch):
    """Its lookups go on when their askers have given up, and count until they end."""
    answers = threading.Event()
    running: list[str] = []
    real = socket.getaddrinfo

    def looked_up(host: str, *rest: object, **options: object) -> object:
        if host.endswith(".slow.invalid"):
            running.append(host)
            answers.wait(60)
            raise socket.gaierror(socket.EAI_NONAME, "too late")
        return real("127.0.0.1" if host == "quick.invalid" else host, *rest, **options)  # pyright: ignore

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    slow, other = Lookups(), Lookups()
    try:
        given_up = [asyncio.ensure_future(slow.find(f"{number}.slow.invalid", 80)) for number in range(LOOKUPS * 3)]
        await until(lambda: len(running) == LOOKUPS)
        for asker in given_up:
            asker.cancel()
        again = asyncio.ensure_future(slow.find("again.slow.invalid", 80))
        assert [str(address) for address in await other.find("quick.invalid", 80)] == ["127.0.0.1"]
        await asyncio.wait([again], timeout=0.2)
        assert sorted(running) == [f"{number}.slow.invalid" for number in range(LOOKUPS)]
    finally:
        answers.set()
    with pytest.raises(socket.gaierror, match="too late"):
        await again
