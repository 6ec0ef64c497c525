"""Whatever bytes a program sends, at most one request goes on, and it means one thing to everybody."""

import asyncio
import re
import socket

from hypothesis import example, given
from hypothesis import strategies as st

from verifiers.sandboxes.egress.allow import host_of
from verifiers.sandboxes.egress.carrying import Program, Upstream
from verifiers.sandboxes.egress.forward import serve_http

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LINES = st.sampled_from(
    [
        b"Host: elsewhere",
        b"Content-Length: 5",
        b"Content-Length: 0",
        b"Content-Length: 5, 5",
        b"Content-Length: +5",
        b"content-length : 5",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: Chunked",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding:\tchunked",
        b"Transfer-Encoding : chunked",
        b"Connection: keep-alive, Content-Length, Transfer-Encoding, Host",
        b"Connection: upgrade, X-Mine",
        b"Upgrade: websocket",
        b"Proxy-Authorization: Basic eA==",
        b"X-Mine: 1",
        b"X-Two: a\r\n b",
        b"X-Bare: a\nEvil: b",
        b"X-Null: a\0b",
        b"Expect: 100-continue",
        b"TE: trailers",
    ]
)
TARGETS = st.sampled_from(
    [
        b"http://a.example/p",
        b"HTTP://a.example:81?q",
        b"http://a.example",
        b"/p",
        b"http://a.example/p\r\nEvil: 1",
        b"http://a.example /p",
        b"http://x@a.example/",
        b"http://a.example:80:80/",
        b"*",
        b"http:///p",
        b"http://a.example/#f",
    ]
)
BODIES = st.sampled_from(
    [
        b"",
        b"hello",
        b"0\r\n\r\n",
        b"5\r\nhello\r\n0\r\n\r\n",
        b"5;ext=1\r\nhello\r\n0\r\nTrailer: 1\r\n\r\n",
        b"GET http://b.example/hidden HTTP/1.1\r\nHost: b.example\r\n\r\n",
        b"5\r\nhelloXX0\r\n\r\n",
        b"fffffffffffffffff\r\nx",
    ]
)
REQUESTS = st.builds(
    lambda method, target, version, lines, end, body, rest: (
        b"%b %b HTTP/%b\r\n%b%b%b%b"
        % (method, target, version, b"".join(b"%b\r\n" % line for line in lines), end, body, rest)
    ),
    st.sampled_from([b"GET", b"POST", b"HEAD", b"get", b"PO ST", b"OPTIONS"]),
    TARGETS,
    st.sampled_from([b"1.1", b"1.0", b"2.0"]),
    st.lists(LINES, max_size=5),
    st.sampled_from([b"\r\n", b"\n", b"\r\n\r\n", b" \r\n\r\n"]),
    BODIES,
    BODIES,
)


class Scripted:
    """A program that sends `pieces` and then says no more."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces
        self.got = b""

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        return self.pieces.pop(0) if self.pieces else b""

    async def write(self, data: bytes) -> None:
        self.got += data

    def end(self) -> None:
        pass


async def passed_on(sent: list[bytes]) -> tuple[bytes, bytes]:
    """(what the upstream server is sent, what the program is answered)."""
    near, far = socket.socketpair()
    program = Scripted(sent)

    async def reach(host: str, port: int, kind: str) -> Upstream:
        assert host_of(host) == "a.example"
        return Upstream(*await asyncio.open_connection(sock=near))

    far.setblocking(False)
    loop, got = asyncio.get_running_loop(), b""

    async def answer() -> None:
        nonlocal got
        while data := await loop.sock_recv(far, 65536):
            got += data
            if len(got) == len(data):
                await loop.sock_sendall(far, ANSWER)

    answering = asyncio.ensure_future(answer())
    try:
        await serve_http(Program(program), reach)
    except OSError:
        pass  # a program that hangs up in the middle
    finally:
        near.close()
        await asyncio.sleep(0)
        await answering
        far.close()
    return got, program.got


def check(request: bytes) -> None:
    """`request` is one request, read as strictly as can be."""
    head, end, body = request.partition(b"\r\n\r\n")
    assert end
    first, *lines = head.split(b"\r\n")
    assert re.fullmatch(rb"[A-Za-z]+ [!-~]+ HTTP/1\.1", first)
    assert all(re.fullmatch(rb"[!-9;-~]+: [^\r\n\0]*", line) for line in lines)
    fields = [(name.lower(), value) for name, value in (line.split(b": ", 1) for line in lines)]
    names = [name for name, _ in fields]
    assert [value for name, value in fields if name == b"host"] in ([b"a.example"], [b"a.example:81"])
    assert not {b"upgrade", b"proxy-authorization", b"te", b"keep-alive"} & set(names)
    assert [value for name, value in fields if name == b"connection"] == [b"close"]
    assert names.count(b"content-length") + names.count(b"transfer-encoding") <= 1
    if b"transfer-encoding" in names:
        assert dict(fields)[b"transfer-encoding"] == b"chunked"
        while body:
            size, _, rest = body.partition(b"\r\n")
            body = rest[int(size, 16) + 2 :]
            assert rest[int(size, 16) :][:2] == b"\r\n"
            assert int(size, 16) or not body
    else:
        assert len(body) <= int(dict(fields).get(b"content-length", b"0"))


@given(request=REQUESTS, cuts=st.lists(st.integers(1, 200), max_size=4))
@example(request=b"GET http://a.example/p HTTP/1.1\r\nHost: x\r\n\r\n", cuts=[])
@example(
    request=b"POST http://a.example/p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    cuts=[],
)
def test_at_most_one_request_of_one_meaning_goes_on(request: bytes, cuts: list[int]):
    pieces, rest = [], request
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    got, answered = asyncio.run(passed_on([piece for piece in [*pieces, rest] if piece]))

    if got:
        check(got)
        assert b"hidden" not in got.partition(b"\r\n\r\n")[0]
    assert answered == b"" or answered.startswith(b"HTTP/1.1 ")


def test_a_good_request_goes_on_as_it_must():
    """So that the test above is not true of a proxy that passes nothing on."""
    sent = (
        b"POST http://a.example:81?q HTTP/1.1\r\nHost: elsewhere\r\nX-Mine: 1\r\nX-Kept: 2\r\nTE: trailers\r\n"
        b"Connection: X-Mine\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET http://a.example/hidden"
    )
    got, answered = asyncio.run(passed_on([sent]))

    assert got.partition(b"\r\n\r\n")[0].split(b"\r\n") == [
        b"POST /?q HTTP/1.1",
        b"Host: a.example:81",
        b"X-Kept: 2",
        b"Transfer-Encoding: chunked",
        b"Connection: close",
    ]
    assert answered.endswith(b"\r\n\r\nok")
