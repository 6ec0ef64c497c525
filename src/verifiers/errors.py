"""The error tree, and `boundary()`: the one place below a command's `main()` that catches broadly.

A failing rollout is data, not a crash: `boundary()` turns whatever a stage raises into a `Fault`, which the
engine records as the reason a rollout is unscored. No code here or above turns an exception into a reward.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple


class FaultKind(StrEnum):
    """What broke. A closed set: tables, `--json` and comparisons count unscored rollouts by it."""

    PROVIDER = "provider"  # the model endpoint: transport, status, malformed reply
    PROVISIONING = "provisioning"  # a sandbox, image or service could not be started
    SANDBOX = "sandbox"  # a running sandbox was lost or broke
    TOOL = "tool"  # a tool broke in a way the model cannot answer for
    ENVIRONMENT = "environment"  # the environment's own code raised
    HARNESS = "harness"  # the agent program did not run
    JUDGE = "judge"  # a judge gave no verdict
    SCORER = "scorer"  # a reward function or the rubric raised
    GOLD = "gold"  # the reference answer cannot be used
    TIMEOUT = "timeout"  # an outer limit of a stage that is not the policy's doing
    CANCELLED = "cancelled"
    INTERNAL = "internal"  # a bug in this library


class Cause(StrEnum):
    """Who is to blame for a fault, as far as is known."""

    POLICY = "policy"
    INFRASTRUCTURE = "infrastructure"
    UNKNOWN = "unknown"


class VerifiersError(Exception):
    """Root of every error this library raises on purpose."""

    kind: ClassVar[FaultKind | None] = None
    """The fault a rollout gets when this error ends one of its stages; None: the stage decides."""
    cause: Cause = Cause.UNKNOWN
    retryable: bool = False
    """Whether the same rollout may be started again with a chance of a different end."""


Error = VerifiersError


class ConfigError(VerifiersError, ValueError):
    """Wrong input of the user's: a name, value, file or combination. Commands print it as one line and exit 2."""


class MissingExtraError(ConfigError):
    """An optional dependency is needed and not installed."""

    def __init__(self, feature: str, *, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency; install it with: pip install 'verifiers[{extra}]'")


class ModelError(VerifiersError):
    """The model endpoint failed in a way retries did not cure."""

    kind = FaultKind.PROVIDER
    cause = Cause.INFRASTRUCTURE
    retryable = True
    status: int | None = None
    """The endpoint's HTTP status, where it answered with one."""


class EmptyModelResponseError(ModelError):
    """The endpoint answered without any choice."""


class InvalidModelResponseError(ModelError):
    """The endpoint answered something that is not a reply of its dialect."""


class OverlongPromptError(VerifiersError):
    """The prompt no longer fits the model's context. Not a fault: it ends a rollout with stop reason `context`."""

    kind = FaultKind.PROVIDER
    cause = Cause.POLICY


class ToolError(VerifiersError):
    kind = FaultKind.TOOL


class ToolParseError(ToolError):
    """A tool call of the model's cannot be read; the model is told."""

    cause = Cause.POLICY


class ToolCallError(ToolError):
    """A tool raised while it ran."""


class InfraError(VerifiersError):
    """Infrastructure failed: never the policy's doing."""

    kind = FaultKind.PROVISIONING
    cause = Cause.INFRASTRUCTURE
    retryable = True


class TunnelError(InfraError):
    pass


class SandboxError(InfraError):
    """A sandbox failed."""

    kind = FaultKind.SANDBOX


class SandboxStartError(SandboxError):
    """A sandbox could not be started."""

    kind = FaultKind.PROVISIONING


class SandboxImageError(SandboxStartError):
    """What a box was to be made of is not there: an image, a folder, a Dockerfile. Asking again finds no more."""

    retryable = False


class SandboxExecError(SandboxError):
    """A command could not be run in a sandbox (not: it ran and failed)."""


class SandboxLostError(SandboxError):
    """A sandbox that ran is gone."""


class SandboxLimitError(SandboxError):
    """A sandbox hit one of its own limits (memory, disk, processes)."""

    cause = Cause.POLICY
    retryable = False


class SandboxExpiredError(SandboxLimitError, SandboxLostError):
    """A sandbox is gone because the life it was given is over: a limit of its own, like the others."""


class SandboxPolicyError(SandboxError):
    """A sandbox was asked for something its policy forbids."""

    retryable = False


class HarnessError(VerifiersError):
    kind = FaultKind.HARNESS


class JudgeError(VerifiersError):
    """A judge gave no usable verdict after bounded re-asks."""

    kind = FaultKind.JUDGE
    retryable = True


class ScorerError(VerifiersError):
    """A reward function cannot give a value: a broken scorer is not a wrong answer."""

    kind = FaultKind.SCORER


class GoldError(ScorerError):
    """The reference answer of a task cannot be used, so no answer to it can be scored."""

    kind = FaultKind.GOLD


class StageTimeoutError(VerifiersError):
    """An outer limit of a stage ran out."""

    kind = FaultKind.TIMEOUT


class HungFunctionError(VerifiersError):
    """Functions of the user's hang in so many threads that a run cannot go on."""


@dataclass(frozen=True)
class Fault:
    """One failure of one stage, as it is recorded."""

    kind: FaultKind
    where: str
    """The stage or the function that broke, e.g. `setup` or `score:exact_match`."""
    message: str
    cause: Cause = Cause.UNKNOWN
    error_type: str = ""
    retryable: bool = False
    trace: str = ""
    """The last frames of the traceback as text."""
    error: BaseException | None = field(default=None, compare=False, repr=False)


def fault_of(error: BaseException, *, where: str, kind: FaultKind) -> Fault:
    """The `Fault` that `error` is when it leaves stage `where`; `kind` is used unless the error names its own."""
    own = error if isinstance(error, VerifiersError) else None
    return Fault(
        kind=(own.kind if own and own.kind else kind),
        where=where,
        message=f"{type(error).__name__}: {error}" if str(error) else type(error).__name__,
        cause=own.cause if own else Cause.UNKNOWN,
        error_type=type(error).__name__,
        retryable=own.retryable if own else False,
        trace="".join(traceback.format_exception(error, limit=-4))[-4000:],
        error=error,
    )


@contextmanager
def boundary(where: str, kind: FaultKind, report: Callable[[Fault], None]) -> Generator[None]:
    """Run one stage; an exception it raises goes to `report` as a `Fault` and no further.

    So does `sys.exit()`, which code that is judged may call, and a `CancelledError` that is no cancellation of this
    task: it would end a worker without a word. Cancellation, Ctrl-C and the end of a rollout pass through.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception | SystemExit) and not _is_stray_cancellation(error):
            raise
        report(fault_of(error, where=where, kind=kind))


def _is_stray_cancellation(error: BaseException) -> bool:
    """Whether a `CancelledError` came from something that was awaited, not from whoever runs this task."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        return True
    return task is None or not task.cancelling()


class Captured(NamedTuple):
    """What a call gave: a value, or what it raised."""

    value: Any
    error: BaseException | None


def captured(call: Callable[[], Any]) -> Captured:
    """Run `call` and hand on whatever it raises: for carrying an exception to another thread, not for dropping it."""
    try:
        return Captured(call(), None)
    except BaseException as error:  # noqa: BLE001
        return Captured(None, error)


def nearest(name: str, choices: Sequence[str]) -> str:
    """A tail for an error message: the likely meant choice, else all of them; '' without choices."""
    if not choices:
        return ""
    close = get_close_matches(name, choices, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; choose one of {', '.join(sorted(choices))}"
