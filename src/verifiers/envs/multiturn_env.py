"""MultiTurnEnv: the environment answers each reply of the model until a stop condition holds."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any, cast

from verifiers.decorators import cleanup, stop
from verifiers.envs.environment import Environment
from verifiers.envs.overrides import ask_model, call_named
from verifiers.errors import Cause, Fault, FaultKind, boundary
from verifiers.messages import AssistantMessage, Messages, Response, as_message, as_messages
from verifiers.proxy.history import completion_of
from verifiers.rollout.timing import timed
from verifiers.rubrics.monitor import MultiTurnMonitorRubric
from verifiers.session import Harness, Prompt, Session
from verifiers.state import State, Step


class MultiTurnEnv(Environment):
    """Subclass and override `env_response`; end a rollout with `@stop` methods or `state["final_env_response"]`."""

    converses = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "env_response" in cls.__dict__ and "converses" not in cls.__dict__:
            cls.converses = True

    def __init__(self, max_turns: int = -1, timeout_seconds: float | None = None, **options: Any) -> None:
        """
        Args:
            max_turns: model turns after which the rollout ends; -1 (or None): no such limit.
            timeout_seconds: of the whole exchange; reaching it ends the rollout, which is scored as it stands.
        """
        super().__init__(**options)
        self.max_turns = -1 if max_turns is None else max_turns
        self.timeout_seconds = timeout_seconds
        self.max_total_completion_tokens = -1
        self.add_rubric(MultiTurnMonitorRubric(parser=self.rubric.parser))

    def set_max_total_completion_tokens(self, max_total_completion_tokens: int) -> None:
        """End a rollout after so many sampled tokens; -1: no such limit."""
        self.max_total_completion_tokens = max_total_completion_tokens

    # -- hooks, overridable

    @abstractmethod
    async def env_response(self, messages: Messages, state: State, **keywords: Any) -> Messages:
        """What the environment says after the model's last message; `messages` is the conversation so far."""
        raise NotImplementedError(f"{type(self).__name__} must override env_response")

    @stop(priority=100)
    async def has_error(self, state: State) -> bool:
        return state.get("error") is not None

    @stop(priority=100)
    async def timeout_reached(self, state: State) -> bool:
        return bool(state.get("timed_out", False))

    @stop
    async def prompt_too_long(self, state: State) -> bool:
        return bool(state.get("prompt_too_long", False))

    @stop
    async def max_turns_reached(self, state: State) -> bool:
        return 0 < self.max_turns <= len(state["trajectory"])

    @stop
    async def max_total_completion_tokens_reached(self, state: State) -> bool:
        used = self.get_state_usage(state) or {}
        return 0 < self.max_total_completion_tokens <= used.get("output_tokens", 0)

    def mark_timed_out(self, state: State) -> None:
        """End the rollout as if its time were over."""
        state["timed_out"] = True

    @cleanup(priority=100)
    async def render_state(self, state: State) -> None:
        """Before all other cleanup: these may read the completion."""
        await self.render_completion(state)

    @stop
    async def has_final_env_response(self, state: State) -> bool:
        return state.get("final_env_response") is not None

    async def get_prompt_messages(self, state: State) -> Messages:
        """The prompt of the next turn: the task's, or the last turn with the environment's answer after it."""
        trajectory = state["trajectory"]
        if not trajectory:
            return state["prompt"]
        last = trajectory[-1]
        so_far = joined(last["prompt"], last["completion"])
        with timed(state, "env"):
            answer = await call_named(self.env_response, messages=so_far, state=state)
        if isinstance(answer, tuple):
            answer, changed = cast(tuple[Any, Any], answer)
            cast(Any, state).session.adopt(changed)
        return joined(so_far, answer)

    async def add_model_response(self, state: State, prompt_messages: Prompt, response: Response) -> None:
        """Append the turn to the trajectory."""
        text = self.message_type == "completion"
        step = Step(
            prompt=prompt_messages,
            completion=response.message.text if text else [response.message],
            response=response,
            tokens=response.tokens,
            is_truncated=response.is_truncated,
            trajectory_id=state.get("trajectory_id"),
        )
        if response.is_truncated:
            state["is_truncated"] = True
        await self.add_trajectory_step(state, step)

    async def add_trajectory_step(self, state: State, trajectory_step: Any) -> None:
        state["trajectory"].append(trajectory_step)

    async def render_completion(self, state: State) -> None:
        """Set `state["completion"]`: everything after the task's prompt, the environment's last word included."""
        final = state.get("final_env_response")
        if not state["trajectory"]:
            state["completion"] = []
            return
        if getattr(state.session, "has_own_conversation", False):
            state["completion"] = completion_of(state["trajectory"], main=state.get("trajectory_id"))
            return
        last = state["trajectory"][-1]
        whole = joined(last["prompt"], last["completion"])
        if final:
            whole = joined(whole, final)
        rest = whole[len(state["prompt"]) :]
        # what text endpoints continue is text; what reward functions and parsers read is always messages
        state["completion"] = as_messages([AssistantMessage(rest)]) if isinstance(rest, str) else rest

    # -- the loop

    async def respond(self, session: Session) -> Prompt | None:
        while not await self._completed(session):
            state = session.state
            messages = await call_named(self.get_prompt_messages, state=state)
            if session.state.get("final_env_response") is None:
                return messages if isinstance(messages, str) else _ready(messages)
        return None

    async def _completed(self, session: Session) -> bool:
        state = session.state
        trajectory = state["trajectory"]
        so_far: Any = joined(trajectory[-1]["prompt"], trajectory[-1]["completion"]) if trajectory else state["prompt"]
        if not await call_named(self.is_completed, state=state, messages=so_far):
            return False
        condition = session.state.get("stop_condition") or "is_completed"
        cast(Any, session).stop(condition)
        if condition == "max_turns_reached" and trajectory:
            await self._take_last_move(session, so_far)
        return True

    async def _take_last_move(self, session: Session, so_far: Any) -> None:
        """Let the world see the last turn its limit allows, so that the state which is scored is the state reached.

        What it answers goes nowhere; that it cannot answer is noted, and a fault only where infrastructure broke.
        """
        if self.max_turns <= 1 or type(self).env_response is MultiTurnEnv.env_response:
            return
        live = cast(Any, session)
        faults: list[Fault] = []
        with boundary("last move", FaultKind.ENVIRONMENT, faults.append):
            answer = await call_named(self.env_response, messages=so_far, state=session.state)
            if isinstance(answer, tuple):
                live.adopt(cast(tuple[Any, Any], answer)[1])
        for fault in faults:
            if fault.cause is Cause.INFRASTRUCTURE:
                live.report(fault)
            else:
                live.recorder.event("fault", kind=str(fault.kind), where=fault.where, message=fault.message)

    async def take_turn(self, session: Session, messages: Prompt) -> None:
        state = session.state
        with timed(state, "model"):
            response = await ask_model(self, state, self._sent(state, messages))
        await self.add_model_response(state, messages, self._received(state, response))

    def _sent(self, state: State, messages: Prompt) -> Prompt:
        """The conversation as the endpoint is sent it."""
        return messages

    def _received(self, state: State, response: Response) -> Response:
        """A reply as the environment sees it."""
        return response

    async def prepare(self, session: Session) -> None:
        timer = asyncio.timeout(self.timeout_seconds)
        try:
            async with timer:
                await super().prepare(session)
        except TimeoutError:
            if not timer.expired():
                raise
            self.mark_timed_out(session.state)

    async def drive(self, session: Session, harness: Harness) -> None:
        timer = asyncio.timeout(self.timeout_seconds)
        try:
            async with timer:
                await super().drive(session, harness)
        except TimeoutError:
            if not timer.expired():
                raise
            self.mark_timed_out(session.state)
            cast(Any, session).stop("timeout_reached")


def joined(left: Any, right: Any) -> Any:
    """Two stretches of a conversation as one: texts as text, else messages in a fresh list."""
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if right is None:
        return left
    return [*_ready(left), *_ready(right)]


def _ready(messages: Any) -> Messages:
    if isinstance(messages, str):
        return as_messages(messages)
    if isinstance(messages, dict):
        return [as_message(messages)]
    return [as_message(message) for message in messages]
