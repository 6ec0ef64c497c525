"""Calling hooks whose signature changed over the years, and answering calls in each of those signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

from verifiers.envs.whole import Whole
from verifiers.errors import ConfigError
from verifiers.messages import Message, Response, as_messages, as_tool
from verifiers.models.base import Model
from verifiers.models.clients import model_of
from verifiers.session import current
from verifiers.state import State


class _Signature(NamedTuple):
    names: tuple[str, ...]
    positional: tuple[str, ...]
    takes_all: bool


@lru_cache(maxsize=512)
def _signature(function: Any) -> _Signature:
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    names = [p.name for p in named if p.name != "self"]
    return _Signature(
        tuple(names),
        tuple(p.name for p in named if p.name != "self" and p.kind is not p.KEYWORD_ONLY),
        any(p.kind is p.VAR_KEYWORD for p in parameters),
    )


async def call_named(method: Callable[..., Any], **values: Any) -> Any:
    """`method` called with those of `values` it has parameters for, by name; unnamed first parameters in order."""
    signature = _signature(getattr(method, "__func__", method))
    given = {name: values[name] for name in signature.names if name in values}
    missing = [name for name in signature.positional if name not in given][: len(values) - len(given)]
    rest = [value for name, value in values.items() if name not in given]
    given.update(zip(missing, rest, strict=False))
    result = method(**given)
    return await result if inspect.isawaitable(result) else result


async def ask_model(env: Whole, state: Any, prompt: Any) -> Response:
    """`env.get_model_response`, in whichever signature the environment overrides it."""
    method = env.get_model_response
    names = _signature(method.__func__).names
    if not names or "state" in names:
        return await method(state, prompt)
    values = {
        "client": state.get("client"),
        "model": state.get("model"),
        "prompt": prompt,
        "oai_tools": state.get("oai_tools") or env.oai_tools,
        "tool_defs": state.get("tool_defs"),
        "sampling_args": state.get("sampling_args"),
        "message_type": env.message_type,
    }
    return await method(**{name: value for name, value in values.items() if name in names})


async def model_response(env: Whole, args: Sequence[Any], keywords: Mapping[str, Any]) -> Response:
    """The default `get_model_response`: one recorded call, of the policy or of another model.

    A `client` or `model` other than the rollout's own makes it a call of the environment's (a simulated user, say),
    which counts against no limit of the policy.
    """
    values = _bound(args, keywords)
    state = values.get("state")
    session = getattr(state, "session", None) or current.get()
    prompt = values.get("prompt")
    if prompt is None:
        raise ConfigError("get_model_response needs a prompt")
    sampling = values.get("sampling_args")
    other = _other_model(session, values)
    if session is None:
        response = await _call_outside(state, other, prompt, values, sampling)
        if isinstance(state, State):
            env.increment_state_usage_from_response(state, response)
        return response
    if sampling is None:
        sampling = session.state.get("sampling_args") if other is None else {}
    if isinstance(prompt, str) and (values.get("message_type") or env.message_type) == "completion":
        response = await session.complete(prompt, sampling=sampling)
        env.increment_state_usage_from_response(session.state, response)
        return response
    offered = values.get("tool_defs") or values.get("oai_tools")
    if offered is None and other is None:
        offered = session.state.get("tool_defs") or session.tools
    tools = session.tools if offered is session.state.get("tool_defs") else _tools(offered)
    messages = prompt if _is_ready(prompt) else as_messages(prompt)
    role = "policy" if other is None else "environment"
    response = await session.generate(messages, tools, sampling=sampling, role=role, model=other)
    if other is None:
        env.increment_state_usage_from_response(session.state, response)
    return response


def _is_ready(prompt: Any) -> bool:
    return isinstance(prompt, list) and all(isinstance(message, Message) for message in cast(list[Any], prompt))


def _tools(offered: Any) -> Any:
    return [as_tool(tool) for tool in offered] if offered else None


def _bound(args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Positional arguments by name: `(state, prompt, ...)`, else `(client, model, prompt, ...)`."""
    is_state_form = "state" in keywords or (bool(args) and isinstance(args[0], Mapping))
    if is_state_form:
        names = ["state", "prompt", "client", "model", "tool_defs", "sampling_args", "message_type"]
    else:
        names = ["client", "model", "prompt", "oai_tools", "sampling_args", "message_type"]
    names = [name for name in names if name not in keywords]
    return {**dict(zip(names, args, strict=False)), **keywords}


def _other_model(session: Any, values: Mapping[str, Any]) -> Model | None:
    client, name = values.get("client"), values.get("model")
    if session is not None:
        same_client = client is None or client is session.client or client is session.given_client
        if same_client and (name is None or name == session.model.name):
            return None
        if same_client:
            client = session.given_client
    return None if client is None else model_of(client, name)


async def _call_outside(
    state: Any, model: Model | None, prompt: Any, values: Mapping[str, Any], sampling: Any
) -> Response:
    """A call outside a run: of the given client, else of the state's."""
    own = state if state is not None else {}
    if model is None:
        if own.get("client") is None:
            raise ConfigError("get_model_response needs a client outside a rollout")
        model = model_of(own["client"], values.get("model") or own.get("model"))
    tools = values.get("tool_defs") or values.get("oai_tools") or own.get("tool_defs")
    sampling = sampling if sampling is not None else own.get("sampling_args")
    return await _plain_call(model, prompt, {**values, "tool_defs": tools}, sampling)


async def _plain_call(model: Model, prompt: Any, values: Mapping[str, Any], sampling: Any) -> Response:
    tools = _tools(values.get("tool_defs") or values.get("oai_tools"))
    if isinstance(prompt, str) and values.get("message_type") == "completion":
        return await model.complete(prompt, sampling=sampling)
    return await model.generate(as_messages(prompt), tools=tools, sampling=sampling)
