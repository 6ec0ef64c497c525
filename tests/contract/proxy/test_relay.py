"""The relay: a program in a box without a network reaches its door on 127.0.0.1."""

import asyncio
import gc
import sys

import httpx
import pytest

from verifiers.proxy.gateway import MCP_STDIO, RELAY
from verifiers.sandboxes import SandboxSpec, start_sandbox

PROGRAM = """
import json, sys, urllib.request
url, secret, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
messages = []
for turn in range(n):
    messages.append({"role": "user", "content": "x" * 200_000 + str(turn)})
    body = json.dumps({"model": "m", "messages": messages}).encode()
    headers = {"Authorization": "Bearer " + secret, "Content-Type": "application/json"}
    request = urllib.request.Request(url + "/v1/chat/completions", body, headers)
    messages.append(json.load(urllib.request.urlopen(request))["choices"][0]["message"])
print(messages[-1]["content"])
"""


async def relayed(door):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", RELAY, door.socket, "0", stdout=asyncio.subprocess.PIPE
    )
    word, port = (await process.stdout.readline()).split()
    assert word == b"ready"
    return process, int(port)


async def test_connections_are_carried_both_ways(serve):
    async with serve("r" * 3_000_000) as served:
        process, port = await relayed(served.door)
        try:
            headers = {"Authorization": f"Bearer {served.door.secret}"}
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=240) as client:

                async def ask(number):
                    messages = [{"role": "user", "content": f"{number}" + "x" * 2_000_000}]
                    answer = await client.post("/v1/chat/completions", json={"model": "m", "messages": messages})
                    return answer.json()["choices"][0]["message"]["content"]

                answers = await asyncio.gather(*map(ask, range(8)))
            assert set(answers) == {"r" * 3_000_000}
            assert served.door.calls == 8
        finally:
            process.kill()
            await process.wait()


async def test_a_door_that_is_gone_closes_connections_and_the_relay_lives(serve):
    async with serve("r") as served:
        process, port = await relayed(served.door)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 200 " in await reader.readline()
            await served.door.close()
        except BaseException:
            process.kill()
            raise
    async with asyncio.timeout(120):
        while await reader.read(4096):
            pass
    writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await reader.read() == b""
    writer.close()
    assert process.returncode is None
    process.kill()
    await process.wait()


@pytest.mark.parametrize("backend", ["local", "unsafe-local"])
async def test_a_program_in_a_box_without_a_network(serve, backend):
    async with serve(["a", "b", "c"]) as served:
        async with start_sandbox(backend, SandboxSpec(memory_mb=512, disk_mb=256, pids=64)) as box:
            where = "door.sock"
            await box.bind_socket(served.door.socket, where)
            await box.write("relay.py", RELAY.read_bytes())
            await box.write("program.py", PROGRAM)
            await box.write("tools.py", MCP_STDIO.read_bytes())
            relay = await box.spawn(["python3", "-I", "-S", "relay.py", where, "0"])
            port = (await relay.stdout.readline()).split()[1].decode()
            url = f"http://127.0.0.1:{port}"
            ran = await box.exec(["python3", "program.py", url, served.door.secret, "3"], timeout_s=200)
            assert (ran.stdout, ran.stderr, ran.exit_code) == ("c\n", "", 0)
            ping = '{"jsonrpc": "2.0", "id": 7, "method": "tools/list"}\n'
            tools = await box.exec(
                ["python3", "-I", "-S", "tools.py", where, served.door.secret], stdin=ping, timeout_s=200
            )
            assert '"double"' in tools.stdout
            await relay.kill()
        assert served.door.calls == 3
        assert len(served.session.recorder._table) == 7  # the task, three prompts, three replies


async def test_a_box_that_ends_with_its_program_connected(serve):
    unhandled = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(context))
    holding = "import socket, time; s = socket.socket(1); s.connect('door'); print('on', flush=True); time.sleep(999)"
    async with serve("r") as served:
        async with start_sandbox("local", SandboxSpec(memory_mb=128, disk_mb=64, pids=32)) as box:
            await box.bind_socket(served.door.socket, "door")
            program = await box.spawn(["python3", "-c", holding])
            assert await program.stdout.readline() == b"on\n"
        await asyncio.sleep(0.05)
        gc.collect()
    assert unhandled == []
