"""What happened in one rollout, in order: frozen messages, model calls, turns, events, timing, usage.

Written by the engine through `Recorder`, read by rubrics, results and training. The one rule: what was recorded is
never changed afterwards, whatever an environment does to the messages it holds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from verifiers.errors import Cause, Fault, FaultKind
from verifiers.messages import Message, Response, Tokens, Tool, Usage, as_message, as_messages, thaw

SCHEMA_VERSION = 1

Role = Literal["policy", "environment", "judge", "side"]
"""Who asked: the policy under test, the environment (simulated users), a judge, or a helper call of a program's."""

_SAME_STOP = {
    "max_turns_reached": "max_turns",
    "max_total_completion_tokens_reached": "max_tokens",
    "max_tokens_reached": "max_tokens",
    "prompt_too_long": "context",
    "timeout_reached": "timeout",
    "max_cost_reached": "cost",
    "has_error": "error",
    "no_tools_called": "done",
    "has_final_env_response": "done",
    "single_turn_done": "done",
    "generation_truncated": "truncated",
}

STOP_REASONS = ("done", "max_turns", "max_tokens", "context", "timeout", "cost", "truncated", "error")
"""The closed set, next to `condition:<name>` for an environment's own stop conditions."""


def stop_reason(condition: str | None) -> str:
    """The recorded stop reason for the name of a stop condition (`state["stop_condition"]`)."""
    if not condition:
        return "done"
    if condition in STOP_REASONS or condition.startswith("condition:"):
        return condition
    return _SAME_STOP.get(condition, f"condition:{condition}")


class Scored(msgspec.Struct, tag="scored", omit_defaults=True):
    """A rollout with a reward."""

    reward: float
    """The weighted sum of `rewards`."""
    rewards: dict[str, float] = {}
    """Value of each reward function, before its weight."""
    metrics: dict[str, float | None] = {}
    """Values that carry no weight; None: not defined for this rollout."""


class Unscored(msgspec.Struct, tag="unscored", omit_defaults=True):
    """A rollout that cannot have a reward. It is in no mean, and it is never 0."""

    kind: FaultKind
    where: str
    message: str
    cause: Cause = Cause.UNKNOWN
    error_type: str = ""
    trace: str = ""
    partial: dict[str, float] | None = None
    """What reward functions said all the same; shown, never averaged."""
    retryable: bool = False
    """Whether the same rollout may end differently when it is run again."""


Outcome = Scored | Unscored


def unscored(fault: Fault, *, partial: dict[str, float] | None = None) -> Unscored:
    """The outcome of a rollout that ended in `fault`."""
    may_pass = fault.retryable or fault.kind in (FaultKind.TIMEOUT, FaultKind.CANCELLED)
    return Unscored(
        fault.kind, fault.where, fault.message, fault.cause, fault.error_type, fault.trace, partial, may_pass
    )


class Delta(msgspec.Struct, array_like=True):
    """A list of messages as what it adds to an earlier one.

    The list is the first `kept` messages of call `parent`'s prompt and reply, then the messages `added`.
    """

    parent: int | None
    kept: int
    added: list[int]


class CallTokens(msgspec.Struct, omit_defaults=True):
    """Token ids of one call; the prompt's as `kept` ids of the parent call's prompt and reply, then `added`."""

    kept: int
    added: list[int]
    sampled: list[int]
    logprobs: list[float] | None = None


class Call(msgspec.Struct, omit_defaults=True):
    """One answered (or failed) model call."""

    role: Role
    model: str
    prompt: Delta
    reply: int | None = None
    """Index of the reply in the message table; None: the call failed."""
    finish_reason: str | None = None
    usage: Usage | None = None
    start_s: float = 0.0
    """Seconds since the rollout began."""
    duration_s: float = 0.0
    attempts: int = 1
    tools: int | None = None
    """Index into `Trace.tools`; None: none were offered."""
    sampling: dict[str, Any] | None = None
    """Sampling arguments where they differ from the run's."""
    tokens: CallTokens | None = None
    extras: dict[str, Any] = {}
    """Provider fields kept as they came (`system_fingerprint`, reply id, ...)."""
    error: str | None = None


class Turn(msgspec.Struct, omit_defaults=True):
    """One step of the trajectory as the environment left it."""

    call: int | None = None
    """The call behind it; None: the environment made this turn itself."""
    prompt: Delta | None = None
    """Only where it is not the call's."""
    completion: list[int] | None = None
    """Only where it is not the call's reply."""
    agent: str = ""
    trainable: bool = True
    reward: float | None = None
    advantage: float | None = None
    is_truncated: bool = False
    extras: dict[str, Any] = {}


class Event(msgspec.Struct, omit_defaults=True):
    """Something worth knowing that is not a model call: a tool call, a retry, a limit."""

    name: str
    at_s: float = 0.0
    data: dict[str, Any] = {}


class Trace(msgspec.Struct, omit_defaults=True):
    """One rollout. In the message table the prompt comes first, then the completion, then all else."""

    messages: list[dict[str, Any]] = []
    prompt: int = 0
    """How many messages of the table are the task's prompt."""
    completion: int = 0
    """How many messages after those are the completion."""
    calls: list[Call] = []
    turns: list[Turn] = []
    events: list[Event] = []
    tools: list[list[dict[str, Any]]] = []

    def sequence(self, call: int) -> list[int]:
        """Message indexes of a call's whole prompt."""
        return _sequence(self.calls, call)

    def usage(self, *roles: Role) -> Usage:
        """Sum over the calls of these roles; over all calls when none is named."""
        total = Usage()
        for call in self.calls:
            if call.usage is not None and (not roles or call.role in roles):
                total = total + call.usage
        return total


def _sequence(calls: Sequence[Call], call: int) -> list[int]:
    chain: list[Call] = []
    at: int | None = call
    while at is not None:
        chain.append(calls[at])
        at = calls[at].prompt.parent
    sequence: list[int] = []
    for index in range(len(chain) - 1, -1, -1):
        delta = chain[index].prompt
        if index < len(chain) - 1:
            reply = chain[index + 1].reply
            if reply is not None:
                sequence.append(reply)
        del sequence[delta.kept :]
        sequence += delta.added
    return sequence


class Recorder:
    """Builds a rollout's `Trace` while it runs. Append-only: nobody above can change what it holds."""

    _LEAVES = 16  # branches that can be continued cheaply; older ones start again from their whole prompt

    def __init__(self, *, keep_tokens: bool = False) -> None:
        self.calls: list[Call] = []
        self.events: list[Event] = []
        self.tools: list[list[dict[str, Any]]] = []
        self.started = time.perf_counter()
        self.usage = Usage()
        """Of all calls so far, whoever made them."""
        self._table: list[dict[str, Any]] = []
        self._by_key: dict[Any, int] = {}
        self._live: dict[int, tuple[Message, int]] = {}
        self._responses: dict[int, tuple[Response, int]] = {}
        self._leaves: list[tuple[int, list[int]]] = []
        self._token_leaves: dict[int, list[int]] = {}
        self._tools_seen: dict[int, tuple[Any, int]] = {}
        self._keep_tokens = keep_tokens

    def elapsed_s(self) -> float:
        return time.perf_counter() - self.started

    def event(self, name: str, **data: Any) -> None:
        self.events.append(Event(name, round(self.elapsed_s(), 6), data))

    def freeze(self, messages: Sequence[Message]) -> list[int]:
        """Table indexes of messages as they read now; a message changed since it was last seen is a new one."""
        live, table = self._live, self._table
        indexes: list[int] = []
        for message in messages:
            known = live.get(id(message))
            if known is not None and table[known[1]] == message:
                indexes.append(known[1])
                continue
            index = self._intern(message)
            live[id(message)] = (message, index)
            indexes.append(index)
        return indexes

    def _intern(self, message: Mapping[str, Any]) -> int:
        content = message.get("content")
        plain = len(message) == 2 and isinstance(content, str)
        frozen: dict[str, Any] = dict(message) if plain else cast(dict[str, Any], thaw(message))
        key = (message.get("role"), content) if plain else _key(frozen)
        index = self._by_key.get(key)
        if index is None:
            index = self._by_key[key] = len(self._table)
            self._table.append(frozen)
        return index

    def record(
        self,
        role: Role,
        model: str,
        prompt: Sequence[int],
        response: Response | None,
        *,
        start_s: float,
        tools: Sequence[Tool] | None = None,
        sampling: Mapping[str, Any] | None = None,
        error: BaseException | None = None,
        attempts: int = 1,
    ) -> int:
        """Append one call and return its index.

        Args:
            prompt: `freeze()` of the messages, taken when they were sent.
            start_s: `elapsed_s()` when they were sent.
        """
        sequence = list(prompt)
        delta, leaf = self._delta(sequence)
        call = Call(role, model, delta, start_s=round(start_s, 6), duration_s=round(self.elapsed_s() - start_s, 6))
        call.attempts, call.sampling = attempts, dict(sampling) if sampling else None
        call.tools = self._tools_index(tools)
        index = len(self.calls)
        if response is not None:
            self._note_reply(call, index, response, sequence, leaf)
        if error is not None:
            call.error = f"{type(error).__name__}: {error}"
        self.calls.append(call)
        return index

    def _note_reply(self, call: Call, index: int, response: Response, sequence: list[int], leaf: int | None) -> None:
        reply = self.freeze([response.message])[0]
        call.reply, call.finish_reason, call.usage = reply, response.finish_reason, response.usage
        call.attempts, call.extras = response.attempts, dict(response.extras)
        if response.id:
            call.extras["id"] = response.id
        if response.usage is not None:
            self.usage = self.usage + response.usage
        self._responses[id(response)] = (response, index)
        if leaf is not None:
            del self._leaves[leaf]
        sequence.append(reply)
        self._leaves.append((index, sequence))
        del self._leaves[: -self._LEAVES]
        if self._keep_tokens and response.tokens is not None and response.tokens.completion_ids is not None:
            call.tokens = self._token_delta(call.prompt.parent, index, response.tokens)

    def _token_delta(self, parent: int | None, index: int, tokens: Tokens) -> CallTokens:
        prompt, sampled = tokens.prompt_ids or [], tokens.completion_ids or []
        before = self._token_leaves.pop(parent, []) if parent is not None else []
        kept = len(before) if prompt[: len(before)] == before else _common(before, prompt)
        self._token_leaves[index] = [*prompt, *sampled]
        return CallTokens(kept, prompt[kept:], list(sampled), tokens.completion_logprobs)

    def _delta(self, sequence: list[int]) -> tuple[Delta, int | None]:
        best, at = 0, None
        for place in range(len(self._leaves) - 1, -1, -1):
            known = self._leaves[place][1]
            if sequence[: len(known)] == known:
                return Delta(self._leaves[place][0], len(known), sequence[len(known) :]), place
            shared = _common(known, sequence)
            if shared > best:
                best, at = shared, place
        if at is None:
            return Delta(None, 0, list(sequence)), None
        return Delta(self._leaves[at][0], best, sequence[best:]), None

    def delta(self, messages: Sequence[Message]) -> Delta:
        """These messages as what they add to the closest recorded call."""
        return self._delta(self.freeze(messages))[0]

    def _tools_index(self, tools: Sequence[Tool] | None) -> int | None:
        if not tools:
            return None
        known = self._tools_seen.get(id(tools))
        if known is not None:
            return known[1]
        plain = [cast(dict[str, Any], thaw(tool)) for tool in tools]
        index = self.tools.index(plain) if plain in self.tools else len(self.tools)
        if index == len(self.tools):
            self.tools.append(plain)
        self._tools_seen[id(tools)] = (tools, index)
        return index

    def call_of(self, response: Any) -> int | None:
        """Index of the call that gave this very response object; None: none of ours did."""
        known = self._responses.get(id(response))
        return None if known is None else known[1]

    def finish(self, prompt: Any, completion: Any, turns: list[Turn]) -> Trace:
        """The finished trace; `prompt` and `completion` are messages, or text that was never a message."""
        head = self.freeze(_messages(prompt))
        tail = self.freeze(_messages(completion))
        order = head + tail
        place: dict[int, int] = {}
        for position, index in enumerate(order):
            place.setdefault(index, position)
        for index in range(len(self._table)):
            if index not in place:
                place[index] = len(order)
                order.append(index)
        self._renumber(place, turns)
        table = [self._table[index] for index in order]
        return Trace(table, len(head), len(tail), self.calls, turns, self.events, self.tools)

    def _renumber(self, place: Mapping[int, int], turns: list[Turn]) -> None:
        for call in self.calls:
            call.prompt.added = [place[index] for index in call.prompt.added]
            call.reply = None if call.reply is None else place[call.reply]
        for turn in turns:
            if turn.prompt is not None:
                turn.prompt.added = [place[index] for index in turn.prompt.added]
            if turn.completion is not None:
                turn.completion = [place[index] for index in turn.completion]


def _key(frozen: dict[str, Any]) -> bytes:
    try:
        return msgspec.msgpack.encode(frozen, enc_hook=repr)
    except UnicodeEncodeError:  # a lone surrogate, which a model can put into a tool's arguments
        return repr(frozen).encode("utf-8", "surrogatepass")


def _messages(value: Any) -> list[Message]:
    if isinstance(value, str) or not value:
        return []
    return [message if isinstance(message, Message) else as_message(message) for message in as_messages(value)]


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    shared = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        shared += 1
    return shared
