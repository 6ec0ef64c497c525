"""The waist: what a harness sees of one rollout, and what the engine asks of an environment. Protocols only.

Every model call of every harness goes through `Session.generate`, so limits, recording, retries and faults exist
once. Harness and environment never see each other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from verifiers.messages import Message, Messages, Response, Tool
from verifiers.state import State
from verifiers.task import Task
from verifiers.trace import Role

if TYPE_CHECKING:
    from verifiers.sandboxes.base import Sandbox, SandboxSpec

Prompt: TypeAlias = "Messages | str"
"""Messages, or plain text for completion endpoints."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one rollout may use up. None: no limit. Reaching one is a stop reason; the state reached is scored."""

    max_turns: int | None = None
    max_tokens: int | None = None
    """Sampled tokens of the policy over the whole rollout."""
    timeout_s: float | None = None
    """Of the drive stage: the policy and its world, not queues and not scoring."""
    max_cost_usd: float | None = None


class StopRollout(BaseException):
    """Ends the drive stage from inside a call. `condition` is the name of what stopped it.

    Not an `Exception`: environment code that swallows its own errors must not swallow the end of the rollout.
    """

    def __init__(self, condition: str) -> None:
        super().__init__(condition)
        self.condition = condition


class Session(Protocol):
    """One rollout as a harness drives it."""

    task: Task
    state: State
    tools: list[Tool] | None
    """What the environment offers the policy; None: nothing."""
    limits: Limits
    sandbox: Sandbox | None
    """The box of this rollout; None: it has none."""

    async def respond(self) -> Prompt | None:
        """The whole prompt of the next turn, the environment's answer included; None: the rollout is over."""
        ...

    async def take_turn(self, messages: Prompt) -> None:
        """One policy turn through the environment's own hooks."""
        ...

    async def generate(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] | None = None,
        *,
        sampling: Mapping[str, Any] | None = None,
        role: Role = "policy",
        model: Any = None,
    ) -> Response:
        """One recorded model call.

        Args:
            sampling: of the policy, differences from the run's sampling arguments; of other models, all there is.
            role: only `policy` calls count against the limits.
            model: another `models.Model` (a judge's, a simulated user's); None: the model under test.

        Raises:
            StopRollout: a limit is reached, or the prompt no longer fits the context.
            ModelError: the endpoint failed for good.
        """
        ...


class Harness(Protocol):
    """The program the model runs in. Subclasses of this protocol inherit what is said here."""

    name: str
    version: str = ""
    """Of the program, pinned; part of what makes two runs the same run."""
    needs_model: bool = True
    """False: a rollout without one model call is no fault."""
    needs_sandbox: bool = False
    """Whether it works in a box; it then gets one, also where the environment asks for none."""

    shapes_sandbox: bool = False
    """Whether it works only in boxes that went through `fit`."""

    def refuse(self, world: World) -> str | None:
        """Why it makes no sense in this environment, as a sentence; None: it does."""
        return None

    async def prepare(self) -> None:
        """What a run needs once, before its first rollout: a program is installed, say."""

    def fit(self, spec: SandboxSpec) -> SandboxSpec:
        """The box it works in, from the one the environment asks for."""
        return spec

    def describe(self) -> dict[str, Any]:
        """What a run's record says about it: name, version, and every option that changes what it does."""
        return {"name": self.name, "version": self.version}

    async def run(self, session: Session) -> None:
        """Drive the rollout until the environment, a limit or the program itself ends it."""
        ...


class World(Protocol):
    """What the engine asks of an environment, in this order."""

    def refuse(self, harness: Harness) -> str | None:
        """Why its tasks cannot be done in this harness, as a sentence; None: they can."""
        ...

    def check_rubric(self, columns: Collection[str] | None, harness: Harness) -> None:
        """See that what judges can have what it asks for.

        Args:
            columns: of the tasks; None: not known.

        Raises:
            ConfigError: it certainly cannot.
        """
        ...

    def makes_sandbox(self, task: Task) -> bool:
        """Whether it starts the box of this task itself, in its setup, and puts it into `session.sandbox`."""
        ...

    def sandbox_for(self, task: Task) -> SandboxSpec | None:
        """The box a rollout of this task is given before its setup; None: none."""
        ...

    async def setup(self, session: Session) -> None: ...
    async def respond(self, session: Session) -> Prompt | None: ...
    async def take_turn(self, session: Session, messages: Prompt) -> None: ...
    async def drive(self, session: Session, harness: Harness) -> None:
        """Let the harness run; environments that replace the whole loop do it here."""
        ...

    async def finish(self, session: Session) -> None:
        """Collect: the environment's cleanup handlers, then the completion."""
        ...

    async def release(self, session: Session) -> None:
        """Give back what the rollout held, after scoring; idempotent."""
        ...

    def stop_reason(self, condition: str | None) -> str:
        """The recorded stop reason of a stop condition of this environment."""
        ...


current: ContextVar[Any] = ContextVar("verifiers_session", default=None)
"""The session whose stage is running here; how code without a state (judges, facades) finds its recorder."""
