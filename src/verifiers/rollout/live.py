"""The live session of one rollout: the only way to a model, where limits and recording exist once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

from verifiers.errors import ConfigError, Fault, ModelError, OverlongPromptError, VerifiersError
from verifiers.messages import Message, Response, Tool, UserMessage
from verifiers.models.base import Model
from verifiers.rollout.budget import Budget
from verifiers.rollout.client import session_client
from verifiers.rollout.patience import Patience, Target
from verifiers.rollout.provision import FRESH, Boxes, box_of
from verifiers.sandboxes.base import Backend, Sandbox, SandboxSpec
from verifiers.session import Limits, Prompt, StopRollout, World
from verifiers.state import State
from verifiers.task import Task
from verifiers.trace import Recorder, Role


class LiveSession:
    """One attempt at one task."""

    def __init__(
        self,
        world: World,
        task: Task,
        model: Model,
        *,
        rollout_id: int = 0,
        sampling: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        keep_tokens: bool = False,
        attempt: int = 1,
        client: Any = None,
        budget: Budget | None = None,
        patience: Patience | None = None,
        boxes: Boxes | None = None,
    ) -> None:
        """
        Args:
            boxes: where further boxes of this rollout come from; None: fresh ones of the `local` backend.
            client: what the caller gave for a model; environments that use clients of their own compare with it.
        """
        self.world, self.task, self.model = world, task, model
        self.rollout_id, self.attempt = rollout_id, attempt
        self.sampling: dict[str, Any] = dict(sampling or {})
        self.limits = limits or Limits()
        self.recorder = Recorder(keep_tokens=keep_tokens)
        self.state = State.for_task(task)
        self.state.session = self
        self.tools: list[Tool] | None = None
        self.sandbox: Sandbox | None = None
        """The box this rollout works in: the engine's, or one the environment made."""
        self.own_box: Sandbox | None = None
        """The box the engine started, and stops."""
        self.boxes: Boxes = boxes or FRESH
        self.given_client = client
        self.budget, self.patience = budget, patience
        self.unanswered: dict[Target, VerifiersError] = {}
        """Of each model whose last call failed, how."""
        self.harness: Any = None
        self.has_own_conversation = False
        """Whether the harness held a conversation of its own, which need not begin with the task's prompt."""
        self.is_driven = False
        """Whether an environment that wraps the loop has entered it."""
        self.driven_since: float | None = None
        """When the drive stage began."""
        self.stage = ""
        """The stage that is running."""
        self.stop_condition: str | None = None
        self.is_clean = False
        """Whether the environment's cleanup handlers have run."""
        self.stage_s: dict[str, float] = {}
        self._client: Any = None
        self._policy_calls = 0
        self._policy_tokens = 0

    # -- what harnesses use

    async def respond(self) -> Prompt | None:
        return await self.world.respond(self)

    async def take_turn(self, messages: Prompt) -> None:
        await self.world.take_turn(self, messages)

    async def generate(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] | None = None,
        *,
        sampling: Mapping[str, Any] | None = None,
        role: Role = "policy",
        model: Any = None,
    ) -> Response:
        if self.budget is not None:
            self.budget.check()
        target: Model = model or self.model
        merged: Mapping[str, Any] = sampling or {}
        if role == "policy":
            merged = {**self.sampling, **merged} if merged else self.sampling
            self._check_limits()
            self._policy_calls += 1
        recorder = self.recorder
        prompt, start_s = recorder.freeze(messages), recorder.elapsed_s()
        try:
            response = await target.generate(messages, tools=tools, sampling=merged)
        except BaseException as error:
            self._record(role, target, prompt, None, start_s, tools, sampling, error)
            if role == "policy":
                self._policy_calls -= 1  # a call without a reply is no turn; programs make it again
            if isinstance(error, OverlongPromptError) and role == "policy":
                raise StopRollout("prompt_too_long") from error
            raise
        self._record(role, target, prompt, response, start_s, tools, sampling)
        return response

    async def complete(self, prompt: str, *, sampling: Mapping[str, Any] | None = None) -> Response:
        """One recorded completion of plain text by the model under test."""
        if self.budget is not None:
            self.budget.check()
        self._check_limits()
        self._policy_calls += 1
        recorder = self.recorder
        frozen, start_s = recorder.freeze([UserMessage(prompt, role="text")]), recorder.elapsed_s()
        merged = {**self.sampling, **(sampling or {})}
        try:
            response = await self.model.complete(prompt, sampling=merged)
        except BaseException as error:
            self._record("policy", self.model, frozen, None, start_s, None, sampling, error)
            if isinstance(error, OverlongPromptError):
                raise StopRollout("prompt_too_long") from error
            raise
        self._record("policy", self.model, frozen, response, start_s, None, sampling)
        return response

    def _record(
        self,
        role: Role,
        model: Model,
        prompt: list[int],
        response: Response | None,
        start_s: float,
        tools: Sequence[Tool] | None,
        sampling: Mapping[str, Any] | None,
        error: BaseException | None = None,
    ) -> None:
        own = {key: value for key, value in (sampling or {}).items() if self.sampling.get(key) != value}
        self.recorder.record(
            role, model.name, prompt, response, start_s=start_s, tools=tools, sampling=own, error=error
        )
        self._note_answer((role, model.name), error)
        if response is not None and self.budget is not None:
            self.budget.spend(response.usage.cost_usd if response.usage is not None else None)
        if role == "policy" and response is not None and response.usage is not None:
            self._policy_tokens += response.usage.completion_tokens

    def _note_answer(self, target: Target, error: BaseException | None) -> None:
        if isinstance(error, ModelError | ConfigError):
            self.unanswered[target] = error
        elif error is None or isinstance(error, OverlongPromptError):
            self.unanswered.pop(target, None)
            if self.patience is not None:
                self.patience.answered(target)

    def _check_limits(self) -> None:
        limits = self.limits
        driven_s = 0.0 if self.driven_since is None else time.perf_counter() - self.driven_since
        if limits.timeout_s is not None and driven_s >= limits.timeout_s:
            raise StopRollout("timeout_reached")  # its world swallowed the cancellation
        if limits.max_turns is not None and 0 <= limits.max_turns <= self._policy_calls:
            raise StopRollout("max_turns_reached")
        if limits.max_tokens is not None and self._policy_tokens >= limits.max_tokens:
            raise StopRollout("max_total_completion_tokens_reached")
        cost = self.recorder.usage.cost_usd
        if limits.max_cost_usd is not None and cost is not None and cost >= limits.max_cost_usd:
            raise StopRollout("max_cost_reached")

    # -- what environments use

    def box(self, spec: SandboxSpec, backend: str | Backend | None = None) -> AbstractAsyncContextManager[Sandbox]:
        """One more box, for the length of a block: never the one the policy worked in.

        Args:
            backend: a backend or its name; None: the run's.
        """
        return box_of(self.boxes, spec, backend)

    @property
    def client(self) -> Any:
        """An OpenAI-shaped client whose calls are calls of this rollout."""
        if self._client is None:
            self._client = session_client(self)
        return self._client

    def tighten(self, **limits: Any) -> None:
        """Replace limits by the environment's own."""
        self.limits = replace(self.limits, **limits)

    # -- what the engine uses

    def adopt(self, state: Any) -> None:
        """Make `state` the rollout's state: environments may return another dict than they were given."""
        if state is None or state is self.state:
            return
        if not isinstance(state, State):
            state = State(state)
        state.session, state.fault, state.row = self, self.state.fault, self.state.row
        self.state = state

    def report(self, fault: Fault) -> None:
        """Note a failure; the first one is the rollout's."""
        if self.state.fault is None:
            self.state.fault = fault
            self.state["error"] = self.state.get("error") or fault.error
        else:
            self.recorder.event("fault", kind=str(fault.kind), where=fault.where, message=fault.message)

    def stop(self, condition: str) -> None:
        """Note what ended the drive stage; the first word stands."""
        if self.stop_condition is None:
            self.stop_condition = condition
        if self.state.get("stop_condition") is None:
            self.state["stop_condition"] = condition
        if condition == "prompt_too_long":
            self.state["prompt_too_long"] = True
            self.state["is_truncated"] = True
