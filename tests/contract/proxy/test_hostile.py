"""Programs that misbehave: each is answered or cut off within bounds, and leaves nothing behind."""

import asyncio
import gzip
import json
import os
import random

import httpx
import pytest

from verifiers.proxy import server
from verifiers.session import Limits
from waiting import until

BODY = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
PATHS = ["/v1/chat/completions", "/v1/responses", "/v1/messages"]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def raw(served, request: bytes, *, wait_s: float = 120.0) -> bytes:
    """What the socket answers to these bytes until it closes."""
    reader, writer = await asyncio.open_unix_connection(served.door.socket)
    writer.write(request)
    try:
        async with asyncio.timeout(wait_s):
            return await reader.read()
    finally:
        writer.close()


def head(served, length: int, extra: str = "") -> bytes:
    return (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.door.secret}\r\n"
        f"Content-Length: {length}\r\n{extra}\r\n"
    ).encode()


async def client_of(served):
    headers = {"Authorization": f"Bearer {served.door.secret}"}
    return httpx.AsyncClient(base_url=served.door.url, headers=headers, timeout=120)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b'{"messages": 3, "input": 3}',
        b'{"messages": [3], "input": [3]}',
        b'{"messages": [{"role": 7}], "input": [{"role": 7}], "system": {"a": 1}}',
        b'{"messages": [{"role": "user", "content": {"x": [1]}}], "tools": [{"x": 1}, 3]}',
        b'{"messages": [], "input": []}',
        b'{"messages": [{"role": "assistant", "tool_calls": [1]}], "input": [{"type": "function_call"}], "tools": 1}',
        b"[" * 100_000,
        b'{"messages": [{"role": "user", "content": %s1%s}], "input": [{"role": "user", "content": %s1%s}]}'
        % (b"[" * 400, b"]" * 400, b"[" * 400, b"]" * 400),
        b'{"messages": [{"role": "user", "content": "x"}], "input": "x", "tools": [{"type": "function", "name": "f", '
        b'"parameters": 3, "input_schema": 3, "function": {"name": "f", "parameters": 3}}]}',
        b'{"messages": [{"role": "user", "content": "x"}], "input": "x", "temperature": "hot"}',
        b'{"messages": [{"role": "user", "content": "x"}], "input": "x", "tool_choice": [1], "max_tokens": 0.5}',
        b'{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": 5}]}], '
        b'"input": [{"role": "user", "content": [{"type": "input_image", "image_url": 5}]}]}',
        b'{"messages": [{"role": "assistant", "content": "x", "tool_calls": [{"id": 1, "function": {"name": 2}}]}], '
        b'"input": [{"type": "function_call", "call_id": "1", "name": "x", "arguments": {"a": 1}}]}',
        b'{"messages": [{"role": "user", "content": 5}], "input": [{"role": "user", "content": 5}]}',
    ],
)
async def test_bodies_that_are_no_request(serve, path, body):
    async with serve("r") as served, await client_of(served) as client:
        answer = await client.post(path, content=body)
        assert answer.status_code in (200, 400)
        assert ("error" in answer.json()) == (answer.status_code == 400)
        assert not served.door.stopped.is_set()
        assert served.door.fault is None
        after = {"model": "m", "messages": [{"role": "user", "content": "go"}], "max_tokens": 9}
        assert (await client.post("/v1/messages", json=after)).status_code == 200


async def test_wrong_and_missing_secrets(serve):
    async with serve("r") as served, serve("r") as other, httpx.AsyncClient(base_url=served.door.url) as client:
        for headers in ({}, {"Authorization": "Bearer sk-vf-0"}, {"x-api-key": "x"}, {"Authorization": "Bearer"}):
            assert (await client.post("/v1/chat/completions", json=BODY, headers=headers)).status_code == 401
            assert (await client.post("/mcp", json={}, headers=headers)).status_code == 401
        assert (await client.post("/k/nope/v1/messages", json=BODY)).json()["type"] == "error"
        assert (await client.get("/v1/models")).status_code == 401
        closed = other.door.secret
        assert (served.model.calls, other.model.calls) == (0, 0)
    async with serve("r") as served, httpx.AsyncClient(base_url=served.door.url) as client:
        late = await client.post("/v1/chat/completions", json=BODY, headers={"x-api-key": closed})
        assert late.status_code == 401


async def test_a_door_serves_its_own_rollout_only(serve):
    async with serve("one") as one, serve("two") as two, await client_of(two) as client:
        assert (await client.post("/v1/chat/completions", json=BODY)).status_code == 200
        transport = httpx.AsyncHTTPTransport(uds=str(one.door.socket))
        async with httpx.AsyncClient(transport=transport) as inside:
            headers = {"Authorization": f"Bearer {two.door.secret}"}
            crossed = await inside.post("http://x/v1/chat/completions", json=BODY, headers=headers)
            assert crossed.status_code == 401
    assert (one.door.calls, two.door.calls) == (0, 1)


async def test_unknown_addresses(serve):
    async with serve("r") as served, await client_of(served) as client:
        for method, path in [("GET", "/etc/passwd"), ("POST", "/v1/embeddings"), ("PUT", "/v1/messages")]:
            assert (await client.request(method, path)).status_code in (401, 404)


async def test_half_a_request_and_then_nothing(serve, monkeypatch):
    monkeypatch.setattr(server, "BODY_TIMEOUT_S", 0.2)
    async with serve("r") as served:
        before = descriptors()
        answer = await raw(served, head(served, 1000) + b'{"model"')
        assert b" 408 " in answer.splitlines()[0]
        assert b"connection: close" in answer.lower()
        assert await until(lambda: descriptors() <= before)
        assert served.model.calls == 0


async def test_a_request_that_breaks_off(serve):
    async with serve("r") as served:
        _, writer = await asyncio.open_unix_connection(served.door.socket)
        writer.write(head(served, 1000) + b'{"model"')
        await writer.drain()
        writer.close()
        await asyncio.sleep(0.1)
        assert await until(lambda: served.door.exchanges.open == 0)
        assert (served.model.calls, served.door.fault) == (0, None)


async def test_a_body_that_is_too_large(serve):
    async with serve("r", max_body_mb=1) as served, await client_of(served) as client:
        assert b" 413 " in (await raw(served, head(served, 2 << 20))).splitlines()[0]
        chunked = f"{head(served, 0).decode().replace('Content-Length: 0', 'Transfer-Encoding: chunked')}".encode()
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        assert b" 413 " in (await raw(served, chunked + chunk * 20)).splitlines()[0]
        bomb = gzip.compress(b" " * (64 << 20))
        answer = await client.post("/v1/chat/completions", content=bomb, headers={"Content-Encoding": "gzip"})
        assert answer.status_code in (400, 413)
        assert served.model.calls == 0


async def test_a_head_that_is_too_large(serve):
    async with serve("r") as served:
        answer = await raw(served, b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000 + b"\r\n\r\n")
        assert b" 400 " in answer.splitlines()[0]


async def test_bytes_that_are_no_http(serve):
    dice = random.Random(0)
    async with serve("r") as served:
        for _ in range(20):
            assert b" 400 " in (await raw(served, dice.randbytes(4096) + b"\r\n\r\n")).splitlines()[0]


async def test_a_thousand_calls_at_once(serve):
    async with serve("r", latency_s=0.01, limits=Limits(max_turns=50), max_open_calls=8) as served:
        limits = httpx.Limits(max_connections=200)
        headers = {"Authorization": f"Bearer {served.door.secret}"}
        async with httpx.AsyncClient(base_url=served.door.url, headers=headers, limits=limits, timeout=None) as client:

            async def ask(number: int) -> int:
                body = {"model": "m", "messages": [{"role": "user", "content": str(number)}]}
                return (await client.post("/v1/chat/completions", json=body)).status_code

            statuses = await asyncio.gather(*map(ask, range(1000)))
        assert set(statuses) <= {200, 404, 429}
        assert served.door.calls == served.model.calls == statuses.count(200) <= 50
        assert served.door.exchanges.open == 0


async def test_more_connections_than_a_program_needs(serve, monkeypatch):
    monkeypatch.setattr("verifiers.proxy.gateway.MAX_CONNECTIONS", 10)
    async with serve("r") as served:
        before = descriptors()
        held = [await asyncio.open_unix_connection(served.door.socket) for _ in range(100)]
        await asyncio.sleep(0.1)
        assert descriptors() - before <= 100 + 10
        for _, writer in held:
            writer.close()
    assert await until(lambda: descriptors() <= before)


async def test_a_connection_that_never_asks(serve, monkeypatch):
    monkeypatch.setattr("verifiers.proxy.gateway.IDLE_S", 0.2)
    async with serve("r") as served:
        assert await raw(served, b"POST /v1/chat/comp") == b""
        assert await raw(served, b"") == b""


async def test_everything_is_gone_afterwards(serve):
    before, tasks = descriptors(), len(asyncio.all_tasks())
    async with serve("r", latency_s=0.05) as served:
        reader, writer = await asyncio.open_unix_connection(served.door.socket)
        payload = json.dumps(BODY).encode()
        writer.write(head(served, len(payload)) + payload)
        await asyncio.sleep(0.02)
        folder = served.door.socket.parent
    assert not folder.exists()
    assert await reader.read() is not None
    writer.close()
    assert await until(lambda: len(asyncio.all_tasks()) <= tasks and descriptors() <= before)
