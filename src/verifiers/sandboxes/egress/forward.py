"""HTTP to the proxy: a tunnel by CONNECT, or one plain request in absolute form (RFC 9110, 9112).

Every message is read and written anew by one strict parser, h11: what goes on is what was understood here, with a Host
of the URI's, without hop-by-hop fields, and with one kind of length. A connection carries one request, so none can hide
behind another.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

import h11

from verifiers.sandboxes.egress.allow import split_port
from verifiers.sandboxes.egress.carrying import (
    HEAD_TIMEOUT_S,
    IDLE_TIMEOUT_S,
    Idle,
    Program,
    Reach,
    Upstream,
    together,
    tunnel,
    using,
)
from verifiers.sandboxes.egress.outer import ProxyError
from verifiers.sandboxes.egress.reach import RefusedHost, UnreachableHost
from verifiers.sandboxes.wire import CHUNK

MAX_HEAD = 1 << 16
"""Bytes of a request's or an answer's head."""
LINGER_S = 5.0
"""How long a program that has its answer and still owes a body may be silent before it is hung up on."""
ABSOLUTE = re.compile(rb"(?i:http)://([^/?#@\\]+)(/[^#]*|\?[^#]*)?")
HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authentication-info proxy-authorization proxy-connection "
    b"te trailer transfer-encoding upgrade".split()
)

Headers = list[tuple[bytes, bytes]]


class _Bad(Exception):
    """No request that is served here: status and why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Target(NamedTuple):
    """What a request wants."""

    host: str
    port: int
    path: bytes
    """Empty for a tunnel."""


async def serve_http(program: Program, reach: Reach) -> None:
    """Serve one request.

    Raises:
        OSError: either side hung up in the middle, or nothing moved for long.
        ProxyError: this machine's proxy leads nowhere; the program has been told.
    """
    server = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
    request = None
    try:
        async with Idle(HEAD_TIMEOUT_S):
            request = await _next(server, program.read)
        if not isinstance(request, h11.Request):
            return  # it said nothing
        target = _target(request)
        async with using(await reach(target.host, target.port, "http" if target.path else "https")) as upstream:
            if target.path:
                await _Exchange(program, server, upstream).run(request, target)
            else:
                await _open_tunnel(program, server)
                await tunnel(program, upstream)
    except (RefusedHost, UnreachableHost, ProxyError, _Bad, h11.RemoteProtocolError, ValueError) as error:
        await _refuse(program, server, error, with_body=not _is_head(request))
        if isinstance(error, ProxyError):
            raise
    except h11.LocalProtocolError as error:
        raise ConnectionResetError(str(error)) from error


def _is_head(request: object) -> bool:
    return isinstance(request, h11.Request) and request.method == b"HEAD"


def _target(request: h11.Request) -> Target:
    fields = {name for name, _ in request.headers}
    if {b"content-length", b"transfer-encoding"} <= fields:
        raise _Bad(400, "a request has a Content-Length or a Transfer-Encoding, not both")
    if request.method == b"CONNECT":
        if fields & {b"content-length", b"transfer-encoding"}:
            raise _Bad(400, "CONNECT has no body")
        host, port = split_port(request.target.decode("ascii"))
        if port is None:
            raise _Bad(400, "CONNECT takes host:port")
        return Target(host, port, b"")
    found = ABSOLUTE.fullmatch(request.target)
    if found is None:
        raise _Bad(400, "this is a proxy: it takes http:// URIs, CONNECT host:port, and SOCKS5")
    host, port = split_port(found[1].decode("ascii"))
    if ":" in host and not host.startswith("["):
        raise _Bad(400, "an IPv6 address in a URI is in brackets")
    path = found[2] or b"/"
    return Target(host, port or 80, path if path.startswith(b"/") else b"/" + path)


async def _open_tunnel(program: Program, server: h11.Connection) -> None:
    while isinstance(server.next_event(), h11.EndOfMessage):
        pass  # there is no body
    await program.write(server.send(h11.Response(status_code=200, headers=[], reason=b"open")) or b"")
    program.put_back(server.trailing_data[0])


class _Exchange:
    """One plain request and its answer; whichever ends, and however, the answer is what counts."""

    def __init__(self, program: Program, server: h11.Connection, upstream: Upstream) -> None:
        self.program, self.server, self.upstream = program, server, upstream
        self.client = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)

    async def run(self, request: h11.Request, target: Target) -> None:
        host = target.host if target.port == 80 else f"{target.host}:{target.port}"
        headers = [(b"Host", host.encode()), *_end_to_end(request.headers.raw_items(), drop=(b"host",))]
        if any(name == b"transfer-encoding" for name, _ in request.headers):
            headers.append((b"Transfer-Encoding", b"chunked"))
        headers.append((b"Connection", b"close"))
        path, proxy = target.path, self.upstream.proxy
        if proxy is not None:
            path = b"http://%b%b" % (host.encode(), target.path)
            headers += proxy.headers
        self.send(h11.Request(method=request.method, target=path, headers=headers))
        async with Idle(IDLE_TIMEOUT_S) as self.idle:
            await together(self.answer(), self.body(), wait=False)
        await _end(self.program, self.server)

    def send(self, event: h11.Event) -> None:
        self.upstream.writer.write(self.client.send(event) or b"")

    async def body(self) -> None:
        with suppress(ConnectionError):  # it may answer without having read everything
            while isinstance(event := await _next(self.server, self.program.read), (h11.Data, h11.EndOfMessage)):
                self.idle.touch()
                self.send(event if isinstance(event, h11.Data) else h11.EndOfMessage())
                await self.upstream.writer.drain()
                if isinstance(event, h11.EndOfMessage):
                    return

    async def answer(self) -> None:
        while True:
            try:
                event = await _next(self.client, lambda: self.upstream.reader.read(CHUNK))
            except h11.RemoteProtocolError as error:
                raise self.broken(f"no valid answer: {error}") from error
            self.idle.touch()
            if isinstance(event, h11.Response):
                if event.status_code == 407 and self.upstream.proxy is not None:
                    raise self.upstream.proxy.refused(event)
                headers = [*_end_to_end(event.headers.raw_items()), (b"Connection", b"close")]
                event = h11.Response(status_code=event.status_code, reason=event.reason, headers=headers)
            elif isinstance(event, h11.InformationalResponse):
                headers = _end_to_end(event.headers.raw_items())
                event = h11.InformationalResponse(status_code=event.status_code, headers=headers)
            elif isinstance(event, h11.EndOfMessage):
                event = h11.EndOfMessage()
            elif not isinstance(event, h11.Data):
                raise self.broken("it hung up without an answer")
            await self.program.write(self.server.send(event) or b"")
            if isinstance(event, h11.EndOfMessage):
                return

    def broken(self, text: str) -> Exception:
        """Told to the program as long as no answer has begun; else it sees the answer break off."""
        begun = self.server.our_state is not h11.SEND_RESPONSE
        return ConnectionResetError(text) if begun else UnreachableHost(text)


def _end_to_end(headers: Iterable[tuple[bytes, bytes]], drop: tuple[bytes, ...] = ()) -> Headers:
    """Without the fields that are for the next hop only, by their kind or because `Connection` says so."""
    kept = list(headers)
    options = b",".join(value for name, value in kept if name.lower() == b"connection")
    named = {part.strip().lower() for part in options.split(b",")} - {b"content-length"}
    dropped = HOP_BY_HOP.union(drop, named)
    return [(name, value) for name, value in kept if name.lower() not in dropped]


async def _next(connection: h11.Connection, read: Callable[[], Awaitable[bytes]]) -> h11.Event | type[h11.PAUSED]:
    while True:
        event = connection.next_event()
        if not isinstance(event, type) or event is h11.PAUSED:
            return event  # pyright: ignore[reportReturnType]
        connection.receive_data(await read())


async def _refuse(program: Program, server: h11.Connection, error: Exception, *, with_body: bool) -> None:
    """Tell the program why there is nothing, also in the status line: many programs show no more of it."""
    if server.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        raise ConnectionResetError(str(error))
    if isinstance(error, (RefusedHost, UnreachableHost, ProxyError, _Bad)):
        status, text = (
            error.status if isinstance(error, _Bad) else 403 if isinstance(error, RefusedHost) else 502,
            str(error),
        )
    else:
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        text = f"not understood: {error}"
    reason = re.sub("[^ -~]", "?", text).encode()
    body = reason + b"\n"
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body))), ("Connection", "close")]
    answer = server.send(h11.Response(status_code=status, reason=reason[:200], headers=headers)) or b""
    await program.write(answer + body if with_body else answer)
    await _end(program, server)


async def _end(program: Program, server: h11.Connection) -> None:
    """Nothing more is said to `program`, which may still be sending and come to read only then."""
    program.end()
    if server.their_state in (h11.SEND_BODY, h11.ERROR):
        async with Idle(LINGER_S) as idle:
            while await program.read():
                idle.touch()
