"""The embedded model for real: the same seed, the same text; tools; and a child that never outlives its owner."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from verifiers.errors import ConfigError, OverlongPromptError
from verifiers.messages import Message, Tool, ToolMessage, UserMessage
from verifiers.models import LocalModel
from waiting import blocked_until

pytest.importorskip("xllamacpp", reason="the embedded model needs: pip install 'verifiers[local]'")
SOURCE = Path(__file__).resolve().parents[3] / "src"
INTEGERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
TOOLS = [Tool("add", "Adds two integers", INTEGERS), Tool("multiply", "Multiplies two integers", INTEGERS)]


async def talk(model: LocalModel, number: int) -> list[str]:
    messages: list[Message] = [
        UserMessage(f"Say {number} short things about the number {number * 37}. " * (1 + number))
    ]
    for _ in range(2):
        response = await model.generate(messages, sampling={"seed": number, "max_tokens": 12, "temperature": 1.0})
        messages += [response.message, UserMessage("Go on.")]
    return [message.text for message in messages if message.role == "assistant"]


async def test_the_same_seed_gives_the_same_text_at_any_concurrency():
    model = LocalModel()
    numbers = list(range(6))
    alone = [await talk(model, number) for number in numbers]
    random.Random(0).shuffle(numbers)
    together = dict(zip(numbers, await asyncio.gather(*[talk(model, number) for number in numbers]), strict=True))
    await model.close()

    assert [together[number] for number in range(6)] == alone
    assert len({tuple(texts) for texts in alone}) == 6

    fresh = LocalModel()
    assert await talk(fresh, 5) == alone[5]
    await fresh.close()


async def test_a_required_tool_is_called_with_arguments_of_its_schema():
    model = LocalModel()
    for seed in range(3):
        response = await model.generate(
            [UserMessage("What is 3 times 4?")],
            tools=TOOLS,
            sampling={"tool_choice": "required", "seed": seed, "temperature": 1.5, "max_tokens": 200},
        )
        (call,) = response.message.tool_calls
        assert call.name in ("add", "multiply")
        assert {type(value) for value in json.loads(call.arguments).values()} == {int}
        assert (response.finish_reason, bool(call.id)) == ("tool_calls", True)

    named = {"type": "function", "function": {"name": "multiply"}}
    prompt: list[Message] = [UserMessage("What is 3 times 4?")]
    response = await model.generate(prompt, tools=TOOLS, sampling={"tool_choice": named, "seed": 1})
    assert response.message.tool_calls[0].name == "multiply"

    prompt += [response.message, ToolMessage("12", response.message.tool_calls[0].id)]
    final = await model.generate(prompt, tools=TOOLS, sampling={"tool_choice": "none", "seed": 1, "max_tokens": 20})
    assert final.message.tool_calls is None
    assert final.message.text
    await model.close()


async def test_replies_come_with_counts_limits_and_token_ids():
    model = LocalModel()
    response = await model.generate([UserMessage("Hello")], sampling={"seed": 1, "max_tokens": 5, "logprobs": True})
    assert (response.usage.completion_tokens, response.is_truncated) == (5, True)
    assert len(response.tokens.completion_ids) == len(response.tokens.completion_logprobs) == 5
    assert (await model.complete("Once upon a", sampling={"seed": 1, "max_tokens": 3})).message.text
    with pytest.raises(OverlongPromptError):
        await model.generate([UserMessage("long " * 5000)])
    await model.close()
    assert model.describe()["weights_sha256"].startswith("b179c952")


async def test_a_file_that_is_no_model_says_so(tmp_path: Path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF of another kind")
    with pytest.raises(ConfigError, match=r"bad\.gguf cannot be served"):
        await LocalModel(tmp_path / "bad.gguf").probe()


OWNER = """
import asyncio, sys
from verifiers.models import LocalModel
async def main():
    model = LocalModel()
    await model.probe()
    print(model._server.process.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_child_dies_with_its_owner(how: signal.Signals):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as owner:
        child = int(owner.stdout.readline())
        assert running(child)
        owner.send_signal(how)
        owner.wait(timeout=120)
    assert blocked_until(lambda: not running(child))


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_child_that_was_killed_is_started_again():
    model = LocalModel()
    await model.probe()
    os.kill(model._server.process.pid, signal.SIGKILL)
    model._server.process.wait()
    assert (await model.generate([UserMessage("Hello")], sampling={"max_tokens": 2})).message is not None
    await model.close()
