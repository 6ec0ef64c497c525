"""Tools offered in the prompt and called in the reply's text, for endpoints that know no tool calls.

The environment sees tool calls and tool messages as always; the endpoint is sent text only, and of the model's own
turns exactly what it wrote.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from verifiers.messages import AssistantMessage, Message, SystemMessage, Tool, ToolCall, UserMessage, as_message
from verifiers.tools.text_calls import parse_tool_calls

INSTRUCTION = """\
You can call tools. Their signatures, one JSON object a line:
<tools>
{tools}
</tools>
To call one, write a JSON object with its name and its arguments between tags, for several calls one after the other:
<tool_call>
{{"name": "TOOL", "arguments": {{"PARAMETER": "VALUE"}}}}
</tool_call>
Each result comes back between <tool_response> tags. When you need no tool, reply without a call."""
"""What the system message ends with. The tags are those of the Hermes function calling format."""


class _Written(NamedTuple):
    """A turn of the model's with calls."""

    raw: str
    content: str | None
    """What the environment was shown of it."""


class TextTools:
    """The tools of one rollout."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = list(tools)
        self._written: dict[str, _Written] = {}
        self._complaints: dict[str, str] = {}

    def sent(self, messages: Sequence[Message]) -> list[Message]:
        """The conversation as the endpoint is sent it."""
        sent: list[Message] = []
        results: list[Any] = []
        for message in messages:
            if message.role == "tool":
                results.append(message.get("content"))
                continue
            if results:
                sent.append(UserMessage(_responses(results)))
                results = []
            sent.append(self._as_written(message) if message.get("tool_calls") else message)
        if results:
            sent.append(UserMessage(_responses(results)))
        if not self.tools:
            return sent
        lines = "\n".join(json.dumps(dict(tool), ensure_ascii=False) for tool in self.tools)
        system = INSTRUCTION.format(tools=lines)
        if sent and sent[0].role == "system":
            return [SystemMessage(f"{sent[0].text}\n\n{system}"), *sent[1:]]
        return [SystemMessage(system), *sent]

    def received(self, message: AssistantMessage, turn: int) -> AssistantMessage:
        """The reply with the calls in its text as tool calls; itself where there are none.

        Args:
            turn: its number, for ids that are unique in the rollout.
        """
        found = parse_tool_calls(message.text, [tool["name"] for tool in self.tools])
        if message.get("tool_calls") or not found.calls:
            return message
        calls: list[ToolCall] = []
        for number, call in enumerate(found.calls):
            own = call.to_tool_call(f"text_{turn}_{number}")
            if call.error is not None:
                own = ToolCall(id=own["id"], name=call.name, arguments=call.text)
                self._complaints[own["id"]] = call.complaint
            calls.append(own)
        content = found.content or None
        self._written[calls[0]["id"]] = _Written(message.text, content)
        return AssistantMessage(**{**message, "content": content, "tool_calls": calls})

    def complaint(self, call_id: str) -> str | None:
        """What is wrong with a call that could not be read; None: nothing."""
        return self._complaints.get(call_id)

    def _as_written(self, message: Message) -> Message:
        calls = cast(list[ToolCall], message["tool_calls"])
        fields = {key: value for key, value in message.items() if key != "tool_calls"}
        written = self._written.get(calls[0]["id"])
        if written is not None and written.content == message.get("content"):
            return as_message({**fields, "content": written.raw})
        texts = [message.text] if message.text else []
        texts += [f"<tool_call>\n{_as_json(call)}\n</tool_call>" for call in calls]
        return as_message({**fields, "content": "\n".join(texts)})


def _as_json(call: ToolCall) -> str:
    """A call as one would write it; its arguments as they are."""
    return f'{{"name": {json.dumps(call["name"], ensure_ascii=False)}, "arguments": {call["arguments"] or "{}"}}}'


def _responses(contents: Sequence[Any]) -> Any:
    """Results of tools as the content of one message: text, or parts where one of them has parts."""
    if all(not isinstance(content, list) for content in contents):
        return "\n".join(f"<tool_response>\n{content or ''}\n</tool_response>" for content in contents)
    parts: list[Any] = []
    for content in contents:
        inner = cast(list[Any], content) if isinstance(content, list) else [_text(content or "")]
        parts += [_text("<tool_response>"), *inner, _text("</tool_response>")]
    return parts


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
