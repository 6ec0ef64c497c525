"""A container engine's HTTP API over its socket: Docker's, and Podman's, which answers the same calls.

The raw API because a box needs two things of it that client libraries make slow or impossible: many calls at once on
one event loop, and the attached stream of a container as a plain reader and writer.
API reference: https://docs.docker.com/reference/api/engine/version/v1.41/
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import aiohttp

from verifiers.errors import ConfigError, SandboxError

VERSION = "v1.41"  # Docker 20.10 and Podman 3 upward
SOCKETS = ("/var/run/docker.sock", "/run/podman/podman.sock")
HEADER = 8
"""Bytes before each piece of an attached stream: which stream, three zeros, its length (big endian)."""
STDERR = 2


class EngineError(SandboxError):
    """The engine answered with an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the container engine answered {status}: {message}")
        self.status = status


class EngineAddress(NamedTuple):
    """Where an engine listens: a unix socket's path, or a host and port."""

    path: str | None
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return f"unix://{self.path}" if self.path else f"tcp://{self.host}:{self.port}"


def _reason(error: Exception) -> str:
    """Why the engine could not be reached, in words; the HTTP client's own text holds its connection key."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.strerror or type(error).__name__
    return str(error) or type(error).__name__


def engine_address(environ: Mapping[str, str] = os.environ) -> EngineAddress:
    """The engine that `DOCKER_HOST` names, else the first standard socket this user may use, rootless ones included."""
    named = environ.get("DOCKER_HOST", "")
    if not named:
        runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
        known = (*SOCKETS, f"{runtime}/docker.sock", f"{runtime}/podman/podman.sock")
        there = [path for path in known if os.path.exists(path)]
        open_to_us = [path for path in there if os.access(path, os.W_OK, effective_ids=True)]
        return EngineAddress([*open_to_us, *there, SOCKETS[0]][0])
    parts = urlsplit(named)
    if parts.scheme == "unix":
        return EngineAddress(parts.path)
    if parts.scheme in ("tcp", "http") and parts.hostname and not environ.get("DOCKER_TLS_VERIFY"):
        return EngineAddress(None, parts.hostname, parts.port or 2375)
    raise ConfigError(f"DOCKER_HOST {named!r} is not supported; give a unix:// socket, or tcp:// without TLS")


class Engine:
    """One engine's API. It keeps no connection and so belongs to no event loop; a local one costs nothing to reopen."""

    def __init__(self, address: EngineAddress) -> None:
        self.address = address

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        data: bytes | AsyncIterable[bytes] | None = None,
        timeout_s: float | None = 120.0,
    ) -> Any:
        """What the engine answered: decoded JSON, else bytes; `EngineError` for a status of 400 and above."""
        async with self.stream(method, path, query=query, body=body, data=data, timeout_s=timeout_s) as response:
            content = await response.read()
            return json.loads(content) if content and response.content_type == "application/json" else content

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        data: bytes | AsyncIterable[bytes] | None = None,
        timeout_s: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response while its body is still to be read; raises as `call` does."""
        where = self.address
        connector = aiohttp.UnixConnector(where.path) if where.path else None
        headers = {"Content-Type": "application/x-tar"} if data is not None else None
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=timeout_s)) as session,
                session.request(
                    method,
                    f"http://{where.host or 'engine'}:{where.port or 80}/{VERSION}{path}{_query(query)}",
                    json=body,
                    data=data,
                    headers=headers,
                ) as response,
            ):
                if response.status >= 400:
                    raise EngineError(response.status, _message(await response.read()))
                yield response
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise SandboxError(f"the container engine at {where} does not answer: {_reason(error)}") from error

    async def attach(self, path: str, *, query: Mapping[str, object] | None = None, body: object = None) -> Attached:
        """The two-way stream that an attach or exec-start call turns its connection into; raises as `call` does."""
        try:
            return await self._attach(path, query=query, body=body)
        except (OSError, EOFError) as error:
            raise SandboxError(f"the container engine at {self.address} does not answer: {_reason(error)}") from error

    async def _attach(self, path: str, *, query: Mapping[str, object] | None, body: object) -> Attached:
        payload = b"" if body is None else json.dumps(body).encode()
        if self.address.path:
            reader, writer = await asyncio.open_unix_connection(self.address.path)
        else:
            reader, writer = await asyncio.open_connection(self.address.host, self.address.port)
        try:
            writer.write(
                f"POST /{VERSION}{path}{_query(query)} HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\n"
                f"Upgrade: tcp\r\nContent-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n".encode()
                + payload
            )
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            status = int(head.split(" ", 2)[1])
            if status not in (101, 200):
                raise EngineError(status, _message(await asyncio.wait_for(reader.read(4096), 5)))
        except BaseException:
            writer.close()
            raise
        return Attached(reader, writer)


class Attached:
    """A container's stdin, stdout and stderr over one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._pending = bytearray()
        self.stderr = bytearray()
        """The last 4 KiB of it, for error messages."""
        self.first = b""
        """The first piece of stdout: an engine that cannot run the command says so here."""

    def write(self, data: bytes) -> None:
        """Send to its stdin; never waits."""
        self._writer.write(data)

    async def pump(self, feed: Callable[[bytes], None]) -> None:
        """Hand its stdout to `feed`, piece by piece, until the container or the engine hangs up."""
        with contextlib.suppress(OSError):
            while piece := await self._reader.read(1 << 18):
                self._pending += piece
                self._take_apart(feed)

    def _take_apart(self, feed: Callable[[bytes], None]) -> None:
        pending, start = self._pending, 0
        while len(pending) >= start + HEADER:
            end = start + HEADER + int.from_bytes(pending[start + 4 : start + HEADER], "big")
            if len(pending) < end:
                break
            content = bytes(pending[start + HEADER : end])
            if pending[start] == STDERR:
                self.stderr += content
                del self.stderr[:-4096]
            else:
                self.first = self.first or content[:512]
                feed(content)
            start = end
        del pending[:start]

    async def close(self) -> None:
        """Hang up: a container whose stdin is bound to this connection reads the end of it."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


def _query(query: Mapping[str, object] | None) -> str:
    """Booleans as 1 and 0, whatever else is not text as JSON, None left out."""
    if not query:
        return ""
    given = {name: value for name, value in query.items() if value is not None}
    texts = {
        name: v if isinstance(v, str) else json.dumps(int(v) if isinstance(v, bool) else v) for name, v in given.items()
    }
    return "?" + urlencode(texts, quote_via=quote)


def _message(content: bytes) -> str:
    text = content.decode("utf-8", "replace").strip()
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:2000]
