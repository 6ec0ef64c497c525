"""The agent programs themselves, at their pinned versions, in boxes without a network: a scripted model plays."""

import json
from typing import Any

import pytest

import needs
import verifiers as vf
from verifiers.envs.terminal_env import TerminalEnv
from verifiers.harnesses.agents import PROGRAMS
from verifiers.sandboxes import get_backend
from verifiers.sandboxes.owner import RUN

COMMAND = "echo hello > out.txt; echo written"
SHELLS: dict[str, dict[str, Any]] = {
    "Bash": {"command": COMMAND, "description": "write"},
    "bash": {"command": COMMAND, "description": "write"},
    "exec_command": {"cmd": COMMAND},
}


def play(messages: Any, tools: Any, _: Any) -> Any:
    """One shell command, then the end; a request without tools gets a title."""
    shell = next((name for name in SHELLS if any(tool["name"] == name for tool in tools or ())), None)
    if shell is None:
        return "Write hello"
    told = [message for message in messages if message["role"] == "tool"]
    arguments = SHELLS[shell]
    if told and "COMPLETE_TASK" in str(messages[0]["content"]) + str(messages[1]["content"]):
        arguments = {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}
    elif told:
        return "All done."
    call = {"id": f"call_{len(told)}", "name": shell, "arguments": json.dumps(arguments)}
    return vf.AssistantMessage(content="I will write it.", tool_calls=[call])


def double(number: int) -> int:
    """Twice a number.

    Args:
        number: what is doubled.
    """
    return 2 * number


def call_double(messages: Any, tools: Any, _: Any) -> Any:
    """One call of the environment's tool, by whatever name the program gives it; then the end."""
    name = next((tool["name"] for tool in tools or () if "double" in tool["name"]), None)
    if name is None or any(message["role"] == "tool" for message in messages):
        return "done"
    call = {"id": "call_0", "name": name, "arguments": json.dumps({"number": 21})}
    return vf.AssistantMessage(content="", tool_calls=[call])


def told(completion: vf.Messages) -> float:
    return float(any("42" in str(message["content"]) for message in completion if message["role"] == "tool"))


@needs.NPM
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [name for name, program in PROGRAMS.items() if program.tools is not None])
async def test_a_program_calls_the_tools_of_the_environment(name: str):
    env = vf.ToolEnv(tools=[double], eval_dataset=[{"question": "Double 21"}], rubric=vf.Rubric([told]))
    model, limits = vf.ScriptedModel(call_double), vf.Limits(timeout_s=700)
    (record,) = (await env.evaluate(model, harness=name, limits=limits, max_retries=0)).records

    assert (record.reward, record.error) == (1.0, None)
    assert [call.role for call in record.trace.calls if call.role != "side"] == ["policy", "policy"]


@needs.NPM
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_solves_a_task_of_two_steps(name: str):
    env = TerminalEnv(
        eval_dataset=[{"question": "Write hello to out.txt", "checks": [{"run": "cat out.txt", "stdout": "hello"}]}],
        sandbox_spec={"memory_mb": 3072, "disk_mb": 1024},
    )
    model = vf.ScriptedModel(play)
    (record,) = (await env.evaluate(model, harness=name, limits=vf.Limits(timeout_s=700), max_retries=0)).records

    program = [event.data for event in record.trace.events if event.name == "program"]
    assert (record.reward, record.error, record.stop_reason) == (1.0, None, "done"), program
    policy = [call for call in record.trace.calls if call.role == "policy"]
    assert len(policy) == len(record.trace.turns) == 2
    assert {call.role for call in record.trace.calls} <= {"policy", "side"}
    assert len(record.trace.calls) == model.calls
    tool = [message for message in record.completion if message["role"] == "tool"]
    assert len(tool) == 1
    assert "written" in str(tool[0]["content"])
    assert tool[0]["tool_call_id"] == record.completion[0]["tool_calls"][0]["id"]
    assert record.token_usage.prompt_tokens == sum(call.usage.prompt_tokens for call in policy)
    assert program[0]["exit_code"] == 0
    assert not [box for box in await get_backend("local").ls() if box.run == RUN]
