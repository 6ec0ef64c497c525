"""The environment's tools over MCP, used through the protocol's own client: HTTP and the stdio relay."""

import asyncio
import base64
import json
import sys
from contextlib import asynccontextmanager

import httpx
import httpx2
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from verifiers.errors import SandboxLostError
from verifiers.messages import Tool, ToolMessage
from verifiers.proxy.gateway import MCP_STDIO
from verifiers.session import StopRollout

PIXEL = base64.b64encode(b"png").decode()


def fail(reason: str) -> str:
    """Break.

    Args:
        reason: why.
    """
    raise ValueError(reason)


def lose() -> str:
    """Lose the box."""
    raise SandboxLostError("the box is gone")


def look() -> list:
    """An image."""
    url = {"url": f"data:image/png;base64,{PIXEL}"}
    return [{"type": "text", "text": "here"}, {"type": "image_url", "image_url": url}]


@asynccontextmanager
async def over_http(served):
    headers = {"Authorization": f"Bearer {served.door.secret}"}
    async with httpx2.AsyncClient(headers=headers) as http:
        transport = streamable_http_client(f"{served.door.url}/mcp", http_client=http)
        async with transport as (reader, writer, *_), ClientSession(reader, writer) as client:
            yield client


@asynccontextmanager
async def over_stdio(served):
    command = ["-I", "-S", str(MCP_STDIO), str(served.door.socket), served.door.secret]
    parameters = StdioServerParameters(command=sys.executable, args=command)
    async with stdio_client(parameters) as (reader, writer), ClientSession(reader, writer) as client:
        yield client


@pytest.mark.parametrize("transport", [over_http, over_stdio])
async def test_tools_are_listed_and_called_in_the_environment(serve, transport):
    async with serve("r") as served, transport(served) as client:
        hello = await client.initialize()
        assert hello.server_info.name == "environment"
        await client.send_ping()
        [tool] = (await client.list_tools()).tools
        assert (tool.name, tool.description) == ("double", "Twice a number.")
        assert tool.input_schema["properties"]["number"]["type"] == "integer"
        results = await asyncio.gather(*[client.call_tool("double", {"number": n}) for n in range(10)])

        assert [result.content[0].text for result in results] == [str(2 * n) for n in range(10)]
        events = served.session.recorder.events
        assert [(event.name, event.data["tool"], event.data["ok"]) for event in events] == [
            ("tool", "double", True)
        ] * 10
        assert served.roles == []


async def test_the_clients_of_the_newest_revision_find_the_handshake(serve):
    async with serve("r") as served:
        headers = {"Authorization": f"Bearer {served.door.secret}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(f"{served.door.url}/mcp", http_client=http)
            async with Client(transport) as client:
                result = await client.call_tool("double", {"number": 4})
                assert result.content[0].text == "8"


async def test_what_a_tool_says_about_its_failure_is_its_result(serve):
    async with serve("r", tools=[fail]) as served, over_http(served) as client:
        await client.initialize()
        assert (await client.call_tool("fail", {"reason": "bad luck"})).content[0].text == "bad luck"
        assert "number" not in (await client.call_tool("fail", {"x": 1})).content[0].text
        with pytest.raises(MCPError, match="no tool 'nope'"):
            await client.call_tool("nope", {})
        assert served.door.fault is None


async def test_images_come_as_images(serve):
    async with serve("r", tools=[look]) as served, over_http(served) as client:
        await client.initialize()
        text, image = (await client.call_tool("look", {})).content
        assert (text.text, image.data, image.mime_type) == ("here", PIXEL, "image/png")


async def test_a_lost_world_stops_the_rollout_at_once(serve):
    async with serve("r", tools=[lose]) as served, over_http(served) as client:
        await client.initialize()
        result = await client.call_tool("lose", {})
        assert result.is_error
        assert served.door.stopped.is_set()
        assert (served.door.condition, type(served.door.fault)) == ("has_error", SandboxLostError)


async def test_tools_and_their_answers_may_be_the_harnesss_own(serve):
    async def call_tool(name, arguments, call_id):
        if name == "end":
            raise StopRollout("solved")
        return ToolMessage(f"{name} {json.loads(arguments)}", call_id)

    own = [Tool("echo", "", {"properties": {}}), Tool("end")]
    async with serve("r", tools=[lose]) as other, over_http(other):
        async with serve("r", call_tool=call_tool, offered=own) as served, over_http(served) as client:
            await client.initialize()
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo", "end"]
            assert (await client.call_tool("echo", {"a": "é"})).content[0].text == "echo {'a': 'é'}"
            await client.call_tool("end", {})
            assert (served.door.condition, served.door.fault) == ("solved", None)
        assert not other.door.stopped.is_set()


async def start_relay(served):
    return await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", MCP_STDIO, served.door.socket, served.door.secret,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def test_the_stdio_relay_ends_with_the_door(serve):
    async with serve("r") as served:
        process = await start_relay(served)
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        assert json.loads(await process.stdout.readline())["result"] == {}
    assert await asyncio.wait_for(process.wait(), 120) == 1


async def test_whoever_waits_for_a_tool_when_the_door_closes_is_told(serve):
    hangs = asyncio.Event()

    async def hang(name, arguments, call_id):
        hangs.set()
        await asyncio.sleep(600)

    async with serve("r", call_tool=hang) as served:
        process = await start_relay(served)
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "double"}}
        process.stdin.write(json.dumps(call).encode() + b"\n")
        await asyncio.wait_for(hangs.wait(), 120)
    assert await asyncio.wait_for(process.wait(), 120) == 1
    told = json.loads(await process.stdout.read())
    assert (told["id"], told["error"]["code"]) == (2, -32000)


@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"3", 200, -32600),
        (b"[]", 200, -32600),
        (b'{"id": 1, "method": "ping"}', 200, -32600),
        (b'{"jsonrpc": "2.0", "id": 1}', 200, -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', 200, -32601),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "double", "arguments": 3}}',
            200,
            -32602,
        ),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [1]}', 200, -32602),
    ],
)
async def test_messages_that_are_wrong(serve, message, status, code):
    async with serve("r") as served, httpx.AsyncClient() as client:
        answer = await client.post(f"{served.door.url_for(served.door.url)}/mcp", content=message)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_versions_notifications_batches_and_methods(serve):
    async with serve("r") as served, httpx.AsyncClient() as client:
        url = f"{served.door.url_for(served.door.url)}/mcp"
        for wanted, got in [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("1999", "2025-11-25")]:
            hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": wanted}}
            assert (await client.post(url, json=hello)).json()["result"]["protocolVersion"] == got
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await client.post(url, json=note)).status_code == 202
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await client.post(url, json=[note, ping])).json() == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
        newer = await client.post(url, json=ping, headers={"MCP-Protocol-Version": "2099-01-01"})
        assert (newer.status_code, newer.json()["error"]["code"]) == (400, -32022)
        assert (await client.get(url)).status_code == 405
        assert (await client.delete(url)).status_code == 200
