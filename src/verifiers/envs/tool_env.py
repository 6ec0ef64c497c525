"""ToolEnv: the model works with tools; a reply without a tool call ends the rollout."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from verifiers.decorators import stop
from verifiers.envs.multiturn_env import MultiTurnEnv
from verifiers.errors import (
    ConfigError,
    Fault,
    FaultKind,
    InfraError,
    ToolCallError,
    ToolError,
    ToolParseError,
    boundary,
    nearest,
)
from verifiers.messages import Message, Messages, Response, Tool, ToolMessage, as_tool_call
from verifiers.rubrics.main_thread import run_sync_function
from verifiers.rubrics.monitor import ToolMonitorRubric
from verifiers.session import Harness, Prompt, Session
from verifiers.state import State
from verifiers.tools.arguments import parse_arguments
from verifiers.tools.schema import convert_func_to_tool_def, tool_name
from verifiers.tools.text_tools import TextTools


def _plain_error(error: Exception) -> str:
    return f"{error}"


class ToolEnv(MultiTurnEnv):
    """Tools are functions with type hints and docstrings; their schemas come from these."""

    converses = False

    def __init__(
        self,
        tools: Sequence[Callable[..., Any]] | None = None,
        max_turns: int = 10,
        error_formatter: Callable[[Exception], str] = _plain_error,
        stop_errors: Sequence[type[Exception]] | None = None,
        text_tool_calls: bool = False,
        **options: Any,
    ) -> None:
        """
        Args:
            error_formatter: what the model reads when a tool raised, or its arguments cannot be read.
            stop_errors: errors of tools that end the rollout unscored, next to infrastructure errors, which always do.
            text_tool_calls: offer the tools in the system message and read calls out of the reply's text, for
                endpoints that know no tool calls. The trace holds the text that was sent and written.

        Raises:
            ConfigError: `text_tool_calls` without messages.
        """
        super().__init__(max_turns=max_turns, **options)
        self.text_tool_calls = False
        self.set_text_tool_calls(text_tool_calls)
        self.error_formatter = error_formatter
        self.stop_errors: list[type[Exception]] = list(stop_errors or [])
        self.tools: list[Callable[..., Any]] = []
        self.tool_map: dict[str, Callable[..., Any]] = {}
        self.tool_monitor_rubric = ToolMonitorRubric(parser=self.rubric.parser)
        self.add_rubric(self.tool_monitor_rubric)
        for tool in tools or []:
            self.add_tool(tool)

    def set_text_tool_calls(self, text_tool_calls: bool) -> None:
        """Whether tools are offered and called as text.

        Raises:
            ConfigError: this environment has no messages to do that in.
        """
        if text_tool_calls and self.message_type == "completion":
            raise ConfigError("text_tool_calls needs messages: with message_type 'completion' there are none")
        self.text_tool_calls = text_tool_calls

    def refuse(self, harness: Harness) -> str | None:
        if self.text_tool_calls and getattr(harness, "needs_sandbox", False):
            return "text_tool_calls is read by the chat loop only; use 'chat', or leave it out"
        return super().refuse(harness)

    async def prepare(self, session: Session) -> None:
        await super().prepare(session)
        if self.text_tool_calls:
            session.state["text_tools"] = TextTools(session.tools or [])
            session.state["tool_defs"], session.tools = [], None  # the endpoint is offered none

    def _sent(self, state: State, messages: Prompt) -> Prompt:
        text_tools = state.get("text_tools")
        return messages if text_tools is None or isinstance(messages, str) else text_tools.sent(messages)

    def _received(self, state: State, response: Response) -> Response:
        text_tools = state.get("text_tools")
        if text_tools is not None:
            response.message = text_tools.received(response.message, len(state["trajectory"]))
        return response

    def add_tool(self, tool: Callable[..., Any]) -> None:
        """Offer one more tool."""
        self._add(tool, convert_func_to_tool_def(tool))

    def _add(self, tool: Callable[..., Any], definition: Tool) -> None:
        name = definition["name"]
        if name in self.tool_map:
            self.remove_tool(self.tool_map[name])
        self.tools.append(tool)
        self.tool_map[name] = tool
        self.tool_defs = [*(self.tool_defs or []), definition]
        self.tool_monitor_rubric.add_tool_metric(name)

    def remove_tool(self, tool: Callable[..., Any]) -> None:
        """Offer a tool no longer.

        Raises:
            ValueError: it is not offered.
        """
        name = tool_name(tool)
        if name not in self.tool_map:
            raise ValueError(f"no tool {name!r} to remove{nearest(name, list(self.tool_map))}")
        self.tools.remove(self.tool_map.pop(name))
        self.tool_defs = [definition for definition in self.tool_defs or [] if definition["name"] != name]
        self.tool_monitor_rubric.remove_tool_metric(name)

    @stop
    async def no_tools_called(self, state: State) -> bool:
        trajectory = state["trajectory"]
        if not trajectory or not trajectory[-1]["completion"]:
            return False
        last = trajectory[-1]["completion"][-1]
        return last.get("role") == "assistant" and not last.get("tool_calls")

    async def env_response(self, messages: Messages, state: State, **keywords: Any) -> Messages:
        """One tool message for each tool call of the last message, in order."""
        answers: Messages = []
        for value in messages[-1].get("tool_calls") or []:
            call = as_tool_call(value)
            answers.append(await self._answer(call["name"], call["arguments"], call["id"], messages, state, keywords))
        return answers

    async def _answer(
        self, name: str, arguments: Any, call_id: str, messages: Messages, state: State, keywords: Mapping[str, Any]
    ) -> Message:
        faults: list[Fault] = []
        answer: Any = None
        started = time.perf_counter()
        with boundary(f"tool:{name}", FaultKind.TOOL, faults.append):
            text_tools = state.get("text_tools")
            complaint = None if text_tools is None else text_tools.complaint(call_id)
            if complaint is not None:
                raise ToolParseError(complaint)
            args = self._parsed(name, arguments)
            args = await self.prepare_tool_args(name, args, messages, state, keywords)
            answer = await self.call_tool(name, args, call_id)
        if state.session is not None:
            state.session.recorder.event("tool", tool=name, ok=not faults, s=round(time.perf_counter() - started, 6))
        if not faults:
            return cast(Message, answer)
        error = cast(Exception, faults[0].error)
        if isinstance(error, InfraError):
            raise error
        if any(isinstance(link, tuple(self.stop_errors)) for link in _causes(error)):
            raise error if isinstance(error, ToolError) else ToolCallError(f"{name}: {error}") from error
        return ToolMessage(content=self.error_formatter(error), tool_call_id=call_id)

    def _parsed(self, name: str, arguments: Any) -> dict[str, Any]:
        definition = next((tool for tool in self.tool_defs or [] if tool["name"] == name), None)
        if definition is None:
            args = parse_arguments(arguments)
            if name not in self.tool_map and type(self).call_tool is ToolEnv.call_tool:
                raise ToolParseError(f"there is no tool {name!r}{nearest(name, list(self.tool_map))}")
            return args
        return parse_arguments(arguments, self._schema_of(definition))

    def _schema_of(self, definition: Tool) -> dict[str, Any]:
        """What the model's arguments are read by."""
        return definition["parameters"]

    async def prepare_tool_args(
        self, name: str, args: dict[str, Any], messages: Messages, state: State, keywords: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The arguments a tool is called with, from those the model wrote."""
        return args

    async def call_tool(self, tool_name: str, tool_args: dict[str, Any], tool_call_id: str, **_: Any) -> Message:
        """Call one tool; its result as a message."""
        tool = self.tool_map[tool_name]
        if inspect.iscoroutinefunction(tool):
            result = await tool(**tool_args)
        else:
            result = await run_sync_function(lambda: tool(**tool_args), of=[tool], name=tool_name)
            result = await result if inspect.isawaitable(result) else result
        if isinstance(result, Message):
            return result
        return ToolMessage(content=result if _is_parts(result) else str(result), tool_call_id=tool_call_id)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what caused it: arguments that are no JSON are found under the decoder's error too."""
    while error is not None:
        yield error
        error = error.__cause__


def _is_parts(result: Any) -> bool:
    """Whether a tool returned message content parts (text, images) instead of a value."""
    return (
        isinstance(result, list)
        and bool(result)
        and all(
            isinstance(part, dict)
            and cast(dict[str, Any], part).get("type") in ("text", "image_url", "input_audio", "file")
            for part in cast(list[Any], result)
        )
    )
