"""Programs of any kind in the rollout's box: their calls are recorded, and however they behave, they come to an end."""

import asyncio
import shlex
import time

import pytest

import verifiers as vf
from verifiers.envs.terminal_env import TerminalEnv
from verifiers.errors import ConfigError
from verifiers.harnesses.loading import load_harness
from verifiers.sandboxes import get_backend
from verifiers.sandboxes.owner import RUN
from verifiers.session import Limits

ASK = """
import json, os, sys, urllib.request
def ask(text, **more):
    body = {"model": os.environ["MODEL"], "messages": [{"role": "user", "content": text}], **more}
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
"""


def make(**options) -> TerminalEnv:
    row = {
        "question": "Write hello to out.txt",
        "checks": [{"run": "cat out.txt", "stdout": "hello"}],
        "files": {"/tmp/lib/ask.py": ASK},
    }
    return TerminalEnv(eval_dataset=[row], **options)


def python(code: str) -> str:
    return "python3 -u -c " + shlex.quote(f"import sys; sys.path.insert(0, '/tmp/lib')\nfrom ask import *\n{code}")


async def run(line: str, replies=("hello",), *, env=None, limits=None, **options):
    harness = load_harness(f"command:{line}", grace_s=1.0, **options)
    began = time.monotonic()
    results = await (env or make()).evaluate(
        vf.ScriptedModel(list(replies)), harness=harness, limits=limits, max_retries=0
    )
    assert time.monotonic() - began < 200
    assert not [box for box in await get_backend("local").ls() if box.run == RUN]
    return results.records[0]


async def test_its_calls_are_the_rollout_and_what_it_wrote_is_graded():
    record = await run(python("open('out.txt', 'w').write(ask(os.environ['PROMPT']))"))

    assert (record.reward, record.error, record.stop_reason) == (1.0, None, "done")
    assert [call.role for call in record.trace.calls] == ["policy"]
    assert record.completion[0]["content"] == "hello"
    assert record.token_usage.completion_tokens == 1
    (event,) = [event for event in record.trace.events if event.name == "program"]
    assert event.data["exit_code"] == 0


async def test_the_box_has_no_network_but_the_model():
    code = """
import socket
try:
    socket.create_connection(("1.1.1.1", 53), 2)
except OSError:
    open("out.txt", "w").write(ask("x"))
"""
    assert (await run(python(code))).reward == 1.0


async def test_the_model_is_reached_past_an_allow_list():
    """Also where the list gives the loopback address a meaning of its own."""
    env = make(sandbox_spec={"network": "allowlist", "allow": ["127.0.0.1:9", "files.example.org"]})

    assert (await run(python("open('out.txt', 'w').write(ask('x'))"), env=env)).reward == 1.0


@pytest.mark.parametrize("line", ["exit 0", "exit 3", "echo lost; sleep 0.1", "no-such-program"])
async def test_ending_without_one_call_is_a_fault_of_the_harness(line):
    record = await run(line)

    assert record.reward is None
    assert str(record.error.kind) == "harness"
    assert "without one model call" in record.error.message or "is not there" in record.error.message


async def test_a_program_that_needs_no_model_is_scored():
    assert (await run("echo hello > out.txt", needs_model=False)).reward == 1.0


async def test_dying_after_a_call_is_scored():
    record = await run(python("open('out.txt', 'w').write(ask('x')); os.abort()"))

    assert (record.reward, record.error) == (1.0, None)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(
            "trap '' TERM INT HUP; " + python("ask('x')") + "; while :; do sleep 1; done", id="ignores the stop"
        ),
        pytest.param(python("ask('x')") + "; while :; do :; done", id="loops"),
        pytest.param(python("ask('x')") + "; b() { b | b & }; b; sleep 60", id="forks"),
        pytest.param(
            python("ask('x')") + "; (setsid sleep 1009 &); setsid sh -c 'while :; do sleep 1; done'", id="hides"
        ),
    ],
)
async def test_programs_that_do_not_end_are_ended(line):
    record = await run(line, limits=Limits(timeout_s=4))

    assert (record.reward, record.error, record.stop_reason) == (0.0, None, "timeout")


async def test_filling_the_memory_of_its_box_is_its_own_doing():
    code = "ask('x')\nfor _ in range(6):\n    os.fork()\nhoard = [bytearray(1 << 20) for _ in range(4096)]"
    env = make(sandbox_spec={"memory_mb": 200})
    record = await run(python(code) + "; sleep 30", env=env, limits=Limits(timeout_s=20))

    assert (record.reward, record.error) == (0.0, None)


async def test_endless_output_ends_it():
    record = await run(python("open('out.txt', 'w').write(ask('x'))") + "; yes spam")

    assert (record.reward, record.error) == (1.0, None)
    assert record.stop_reason == "condition:program_output"


async def test_its_own_limit_ends_it_where_the_run_has_none():
    record = await run(python("ask('x')") + "; sleep 600", max_time_s=8)

    assert (record.reward, record.stop_reason) == (0.0, "timeout")


async def test_a_thousand_calls_end_at_the_limit():
    code = """
open("out.txt", "w").write("hello")
for number in range(1000):
    try:
        ask(str(number))
    except Exception:
        pass
"""
    record = await run(python(code), limits=Limits(max_turns=10))

    assert (record.reward, record.error, record.stop_reason) == (1.0, None, "max_turns")
    assert len(record.trace.calls) == 10


async def test_half_a_request_harms_nobody():
    code = """
import socket
port = int(os.environ["OPENAI_BASE_URL"].split(":")[2].split("/")[0])
half = socket.create_connection(("127.0.0.1", port))
half.send(b"POST /v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 100\\r\\n\\r\\n{")
open("out.txt", "w").write(ask("x"))
"""
    assert (await run(python(code))).reward == 1.0


async def test_a_broken_endpoint_is_no_zero():
    record = await run(python("ask('x')"), [vf.ModelError("down")])

    assert record.reward is None
    assert str(record.error.kind) == "provider"


async def test_cancelling_leaves_nothing():
    env, harness = make(), load_harness("command:" + python("ask('x')") + "; sleep 600")
    task = asyncio.ensure_future(env.evaluate(vf.ScriptedModel(["hello"]), harness=harness))
    await asyncio.sleep(3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not [box for box in await get_backend("local").ls() if box.run == RUN]


def double(number: int) -> int:
    """Twice a number.

    Args:
        number: what is doubled.
    """
    return 2 * number


async def test_tools_of_the_environment_are_there_over_mcp():
    talk = """
import subprocess
server = ["python3", "-I", "-S", "/tmp/.verifiers/mcp.py", "/tmp/.verifiers/model.sock", os.environ["OPENAI_API_KEY"]]
pipe = subprocess.Popen(server, stdin=-1, stdout=-1, text=True)
def call(number, method, **params):
    pipe.stdin.write(json.dumps(dict(jsonrpc="2.0", id=number, method=method, params=params)) + "\\n")
    pipe.stdin.flush()
    return json.loads(pipe.stdout.readline())["result"]
call(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=dict(name="t", version="1"))
name = call(2, "tools/list")["tools"][0]["name"]
ask(name + " " + call(3, "tools/call", name=name, arguments=dict(number=21))["content"][0]["text"])
"""
    env = vf.ToolEnv(
        tools=[double],
        eval_dataset=[{"question": "?", "answer": "double 42"}],
        rubric=vf.Rubric([lambda state: float("double 42" in str(state["trajectory"][0]["prompt"]))]),
    )
    line = f"mkdir -p /tmp/lib; cat > /tmp/lib/ask.py <<'END'\n{ASK}\nEND\n{python(talk)}"
    record = await run(line, env=env)

    assert (record.reward, record.error) == (1.0, None)


async def test_programs_that_take_no_tools_are_refused_tools():
    env = vf.ToolEnv(tools=[double], eval_dataset=[{"question": "?", "answer": "4"}])
    with pytest.raises(ConfigError, match="pi cannot be given"):
        await env.evaluate(vf.ScriptedModel(["x"]), harness="pi")


async def test_boxes_an_environment_makes_itself_take_shells_but_no_installed_program():
    env = vf.SandboxEnv(
        eval_dataset=[{"question": "?", "answer": ""}],
        rubric=vf.Rubric([lambda state: float(len(state["trajectory"]) == 1)]),
        memory_gb=0.25,
        disk_size_gb=0.05,
    )
    with pytest.raises(ConfigError, match="not installed"):
        await env.evaluate(vf.ScriptedModel(["x"]), harness="codex")
    line = f"mkdir -p /tmp/lib; cat > /tmp/lib/ask.py <<'END'\n{ASK}\nEND\n{python('ask(str(1))')}"
    record = await run(line, env=env)

    assert (record.reward, record.error) == (1.0, None)
