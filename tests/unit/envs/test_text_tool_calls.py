"""Tools that are offered in the prompt and called in the reply's text."""

import json

import pytest

import verifiers as vf
from verifiers.errors import ConfigError, ToolParseError
from verifiers.harnesses.bash import BashHarness
from verifiers.tools.text_tools import TextTools

CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call>'


def add(a: int, b: int) -> int:
    """The sum.

    Args:
        a: one number
        b: another
    """
    return a + b


def right(completion, answer):
    return float(completion[-1]["content"] == answer)


class Asked(vf.ScriptedModel):
    """Keeps what it was asked."""

    def __init__(self, replies):
        self.prompts, self.tools = [], []
        turn = iter(replies)

        def reply(messages, tools, sampling):
            self.prompts.append([dict(message) for message in messages])
            self.tools.append(tools)
            return next(turn)

        super().__init__(reply)


def env(**options):
    rows = [{"question": "2 + 3?", "answer": "5"}]
    options = {"system_prompt": "Be brief.", "text_tool_calls": True, **options}
    return vf.ToolEnv(tools=[add], dataset=rows, rubric=vf.Rubric([right]), **options)


async def record_of(model, **options):
    (record,) = (await env(**options).evaluate(model)).records
    return record


async def test_a_call_in_the_text_is_made_and_its_result_goes_back_as_text():
    model = Asked([f"I add.\n{CALL}", "5"])
    record = await record_of(model)
    first, second = model.prompts

    assert (record.reward, record.metrics["add_calls"], record.stop_reason) == (1.0, 1.0, "done")
    assert model.tools == [None, None]
    assert [message["role"] for message in first] == ["system", "user"]
    assert first[0]["content"].startswith("Be brief.\n\nYou can call tools.")
    assert json.loads(first[0]["content"].split("<tools>\n")[1].split("\n</tools>")[0])["name"] == "add"
    assert second[:2] == first
    assert second[2] == {"role": "assistant", "content": f"I add.\n{CALL}"}, "what the model wrote, to the letter"
    assert second[3] == {"role": "user", "content": "<tool_response>\n5\n</tool_response>"}
    assert len(second) == 4


async def test_the_environment_sees_tool_calls_and_the_trace_what_was_said():
    record = await record_of(Asked([f"I add.\n{CALL}", "5"]))
    assistant, tool, last = record.completion
    trace = record.trace

    assert (assistant["content"], last["content"]) == ("I add.", "5")
    (call,) = assistant["tool_calls"]
    assert (call["name"], json.loads(call["arguments"])) == ("add", {"a": 2, "b": 3})
    assert (tool["role"], tool["content"], tool["tool_call_id"]) == ("tool", "5", call["id"])
    assert [message["role"] for message in record.prompt] == ["system", "user"]
    assert record.prompt[0]["content"] == "Be brief."
    said = [trace.messages[one.reply] for one in trace.calls]
    assert [dict(message) for message in said] == [
        {"role": "assistant", "content": f"I add.\n{CALL}"},
        {"role": "assistant", "content": "5"},
    ]
    assert not trace.tools, "none was offered to the endpoint"


async def test_several_calls_and_their_results_are_one_message():
    model = Asked([f"{CALL}\n{CALL}", "5"])
    record = await record_of(model)

    assert record.metrics["total_tool_calls"] == 2.0
    ids = [message["tool_call_id"] for message in record.completion if message["role"] == "tool"]
    assert len(set(ids)) == 2
    response = "<tool_response>\n5\n</tool_response>"
    assert model.prompts[1][-1] == {"role": "user", "content": f"{response}\n{response}"}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('<tool_call>{"name": "add", "arguments": {"a": 2,}}</tool_call>', "must hold valid JSON"),
        ('<tool_call>{"arguments": {}}</tool_call>', "must say which tool"),
        ('<tool_call>{"name": "add", "arguments": [2, 3]}</tool_call>', "must be a JSON object"),
        ('<tool_call>{"name": "add", "argu', "was not finished"),
        ('<tool_call>{"name": "ad", "arguments": {}}</tool_call>', "there is no tool 'ad'; did you mean 'add'?"),
        ('<tool_call>{"name": "add", "arguments": {"a": "two", "b": 3}}</tool_call>', "two"),
    ],
)
async def test_a_call_that_cannot_be_read_is_answered(written, said):
    model = Asked([written, "5"])
    record = await record_of(model)

    assert record.reward == 1.0
    assert said in record.completion[1]["content"]
    assert said in model.prompts[1][-1]["content"]
    assert model.prompts[1][-2]["content"] == written
    (event,) = [event for event in record.trace.events if event.name == "tool"]
    assert event.data["ok"] is False


async def test_a_call_that_cannot_be_read_can_end_the_rollout():
    record = await record_of(Asked(["<tool_call>{</tool_call>"]), stop_errors=[ToolParseError])

    assert (record.reward, record.error.kind) == (None, "tool")


async def test_a_reply_without_a_call_ends_it_and_reasoning_holds_none():
    record = await record_of(Asked([f"<think>{CALL}</think>5"]))

    assert (record.metrics["num_turns"], record.metrics["total_tool_calls"]) == (1.0, 0.0)


async def test_without_the_option_text_is_text():
    model = Asked([CALL])
    record = await record_of(model, text_tool_calls=False)

    assert (record.metrics["num_turns"], record.metrics["total_tool_calls"]) == (1.0, 0.0)
    assert model.tools[0][0]["name"] == "add"
    assert "tools" not in model.prompts[0][0]["content"]


def test_calls_of_a_prompt_and_changed_turns_are_written_out():
    tools = TextTools([vf.Tool("add", "", {})])
    call = {"id": "c", "name": "add", "arguments": '{"a": 1}'}
    picture = [{"type": "image_url", "image_url": {"url": "data:x"}}]
    messages = vf.normalize_messages(
        [
            {"role": "assistant", "content": "So:", "tool_calls": [call]},
            {"role": "tool", "content": "1", "tool_call_id": "c"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": picture, "tool_call_id": "c"},
        ]
    )
    _, first, second, third, fourth = tools.sent(messages)
    written = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'

    assert (first["content"], third["content"]) == (f"So:\n{written}", written)
    assert second["content"] == "<tool_response>\n1\n</tool_response>"
    assert fourth["content"][1:-1] == picture
    reply = tools.received(vf.AssistantMessage(f"Well. {CALL}"), 0)
    assert reply["content"] == "Well."
    reply["content"] = "Changed."
    assert tools.sent([reply])[-1]["content"].startswith("Changed.\n<tool_call>")


def test_it_is_refused_where_it_cannot_work():
    with pytest.raises(ConfigError, match="needs messages"):
        env(message_type="completion")
    assert "chat" in env().refuse(BashHarness())
    assert env(text_tool_calls=False).refuse(BashHarness()) is None


@pytest.mark.parametrize("named", [True, False])
def test_every_environment_with_tools_takes_it_as_an_argument(tmp_path, named):
    file = tmp_path / "mine.py"
    keyword = "text_tool_calls=False" if named else ""
    passed = "text_tool_calls=text_tool_calls" if named else ""
    file.write_text(
        "import verifiers as vf\n"
        "def add(a: int, b: int) -> int:\n    return a + b\n"
        f"def load_environment({keyword}):\n"
        f"    return vf.ToolEnv(tools=[add], dataset=[{{'question': 'q'}}], {passed})\n"
    )
    loaded = vf.load_environment(str(file), text_tool_calls=True)
    assert (loaded.text_tool_calls, loaded.env_args) == (True, {"text_tool_calls": True})
    assert not vf.load_environment(str(file)).text_tool_calls
    with pytest.raises(ConfigError, match="is true or false; got 'yes'"):
        vf.load_environment(str(file), text_tool_calls="yes")


def test_an_environment_without_tools_says_so():
    with pytest.raises(ConfigError, match="'arithmetic' has no tools"):
        vf.load_environment("arithmetic", text_tool_calls=True)
