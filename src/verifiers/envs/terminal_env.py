"""TerminalEnv: tasks done in a box by any program, and graded by what it left there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Literal, cast

from verifiers.decorators import metric, reward
from verifiers.envs.environment import Environment
from verifiers.envs.grading import checks_of, graded, verdicts
from verifiers.errors import (
    ConfigError,
    SandboxExecError,
    SandboxLimitError,
    SandboxLostError,
    SandboxPolicyError,
    ScorerError,
)
from verifiers.proxy.history import completion_of
from verifiers.rubrics.reward_file import all_passed, share_passed
from verifiers.sandboxes.artifacts import Artifacts, collect
from verifiers.sandboxes.base import Sandbox, SandboxSpec
from verifiers.sandboxes.registry import stop_box
from verifiers.session import Harness, Prompt, Session
from verifiers.state import State
from verifiers.task import Task

Grader = Literal["separate", "shared"]


class TerminalEnv(Environment):
    """Rows have a `question` (the instruction) and `checks`; they may have `image`, `files`, `setup` (shell lines),
    `solution` (a shell script), `tests` (files for the checks, staged in /tests) and `artifacts` (paths)."""

    default_harness = "bash"

    def __init__(
        self,
        *,
        grader: Grader = "separate",
        artifacts: Sequence[str] | None = None,
        max_artifacts_mb: int = 256,
        max_turns: int | None = None,
        sandbox_spec: SandboxSpec | dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """
        Args:
            grader: `separate` carries the artifacts into a fresh box and checks there; `shared` checks in the box the
                program worked in, after its processes were killed.
            artifacts: what is carried, where a row does not say; None: the box's `workdir`.
            max_artifacts_mb: leaving more is a failed task.
            max_turns: model calls of a rollout, where the run sets no limit.
        """
        if grader not in ("separate", "shared"):
            raise ConfigError(f"grader {grader!r}; choose one of separate, shared")
        super().__init__(sandbox_spec=sandbox_spec or SandboxSpec(memory_mb=1024, disk_mb=512), **options)
        self.grader: Grader = grader
        self.artifacts, self.max_artifacts_mb, self.max_turns = artifacts, max_artifacts_mb, max_turns

    # -- session.World

    def refuse(self, harness: Harness) -> str | None:
        if harness.name == "chat":
            return "its tasks are done in a shell, which 'chat' has not; use 'bash' or a program"
        return super().refuse(harness)

    def sandbox_for(self, task: Task) -> SandboxSpec:
        spec = cast(SandboxSpec, super().sandbox_for(task))
        checks_of(task)
        lines = task.columns.get("setup")
        return replace(spec, setup=[*spec.setup, *lines]) if lines else spec

    async def prepare(self, session: Session) -> None:
        await super().prepare(session)
        if session.sandbox is not None:
            self._refuse_shared_files(session.sandbox, session.task)
        live = cast(Any, session)
        if self.max_turns is not None and session.limits.max_turns is None:
            live.tighten(max_turns=self.max_turns)

    def _refuse_shared_files(self, box: Sandbox, task: Task) -> None:
        """Where boxes have this machine's files, each has its folder elsewhere, and all have the same /tests: right
        work would score 0."""
        if box.spec.workdir != self.sandbox_for(task).workdir:
            raise SandboxPolicyError(
                f"{box.backend!r} has no file system for each box, so the work cannot be carried to another one and "
                "graded there; ask for 'local' or 'docker'"
            )

    async def respond(self, session: Session) -> Prompt | None:
        return None

    async def render_completion(self, state: State) -> None:
        """All that was said after the prompt, in the program's main conversation."""
        state["completion"] = completion_of(state.get("trajectory") or [], main=state.get("trajectory_id"))

    async def finish(self, session: Session) -> None:
        state = session.state
        if "trajectory" in state:
            await self.render_completion(state)
            if session.sandbox is not None and state.fault is None:
                await self._take_artifacts(session, session.sandbox)
        await super().finish(session)

    async def _take_artifacts(self, session: Session, box: Sandbox) -> None:
        """End what runs in the box; from here on nothing in it changes."""
        paths = session.task.columns.get("artifacts") or self.artifacts or [box.spec.workdir]
        try:
            await box.end_processes()
            if self.grader == "shared":
                return
            session.state["artifacts"] = await collect(box, paths, max_mb=self.max_artifacts_mb)
        except SandboxLimitError as error:
            session.state["unusable"] = str(error)  # the program broke its own box, or left what cannot be taken
        except (SandboxPolicyError, SandboxExecError) as error:
            session.state["unusable"] = session.state["no_programs"] = str(error)
        await stop_box(box)

    async def release(self, session: Session) -> None:
        artifacts = session.state.pop("artifacts", None)
        if isinstance(artifacts, Artifacts):
            artifacts.close()
        await super().release(session)

    # -- judging

    @reward
    async def passed(self, state: State) -> float:
        """1.0 if every check passes."""
        await self.grade(state)
        return all_passed(each["passed"] for each in verdicts(state))

    @metric
    def checks_passed(self, state: State) -> float:
        """The share of checks that pass."""
        return share_passed(each["passed"] for each in verdicts(state))

    async def grade(self, state: State) -> None:
        """Set `state["checked"]`: each check, whether it passed, and why not.

        Raises:
            SandboxError: the box to grade in could not be had, or was lost: nothing is known about the program's work.
        """
        session = state.session
        if session is None or state.get("trajectory") is None:
            raise ScorerError("only a rollout that still has its box can be graded")
        task: Task = session.task
        spec = replace(self.sandbox_for(task), timeout_s=None)  # how long grading may take is the stage's matter
        async with AsyncExitStack() as stack:
            if state.get("no_programs"):
                await _see_that_boxes_have_tar(await stack.enter_async_context(session.box(spec)))
            if state.get("unusable"):
                state["checked"] = [_row(check.run, False, state["unusable"]) for check in checks_of(task)]
                return
            if self.grader == "shared":
                box, artifacts = session.sandbox, None
            else:
                artifacts = state.get("artifacts")
                if artifacts is None:
                    raise ScorerError("nothing was collected from the box")
                box = await stack.enter_async_context(session.box(spec))
            if box is None:
                raise SandboxLostError("the box is gone")
            self._refuse_shared_files(box, task)  # a rollout with a fault is judged too
            checked = await graded(box, task, artifacts)
        state["checked"] = [_row(each.check.run, each.passed, each.why) for each in checked]


async def _see_that_boxes_have_tar(box: Sandbox) -> None:
    """In a fresh box, when the program's has none: who took it away?"""
    try:
        await box.exec(["tar", "--help"])
    except SandboxExecError as error:
        raise SandboxPolicyError(f"its boxes need tar to hand files on: {error}") from error


def _row(run: str, passed: bool, why: str) -> dict[str, Any]:
    return {"run": run, "passed": passed, "why": why}
