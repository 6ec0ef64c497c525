"""One run: many rollouts under one global bound, finished ones handed on as records and forgotten.

`concurrency` workers take rollouts from one lazy queue, the members of a group one after the other. Whoever finishes a
group's last member also judges the group, in the slot it holds: so one worker is enough for any group size, and at
most `concurrency + group size - 1` rollouts are alive.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verifiers.errors import Fault, FaultKind, VerifiersError, boundary
from verifiers.models.base import Model
from verifiers.results.record import Record
from verifiers.rollout.budget import Budget, BudgetReachedError
from verifiers.rollout.live import LiveSession
from verifiers.rollout.patience import Patience
from verifiers.rollout.provision import RunBoxes, check_pair
from verifiers.rollout.recording import bare_record, record_of
from verifiers.rollout.stages import StageLimits, generate, release, score
from verifiers.rubrics.rubric import Rubric
from verifiers.rubrics.threads import check_abandoned
from verifiers.session import Harness, Limits, World
from verifiers.task import Task

RETRIED_KINDS = frozenset({FaultKind.PROVISIONING, FaultKind.SANDBOX, FaultKind.HARNESS})
"""Faults a whole rollout is started again for; model calls are retried inside the model client."""


@dataclass(frozen=True)
class Work:
    """What to run, and how."""

    world: World
    rubric_of: Callable[[Task], Rubric]
    model: Model
    harness: Harness
    rollouts_per_example: int = 1
    concurrency: int = 64
    """Rollouts in a stage at one time, over generation and scoring."""
    sampling: Mapping[str, Any] = field(default_factory=dict[str, Any])
    limits: Limits = field(default_factory=Limits)
    stage_limits: StageLimits = field(default_factory=StageLimits)
    seed: int | None = None
    """Base seed; each rollout sends its own, derived from this, its example and its number. None: none is sent."""
    max_retries: int = 2
    """How often a rollout is started again after an infrastructure fault."""
    budget: Budget | None = None
    """Money for the whole run; None: no cap."""
    patience: Patience | None = None
    """How long the run goes on while no call is answered; None: to its end."""
    timeout_fails: bool = False
    sandbox: Any = "local"
    """Backend of the boxes of those rollouts that need one: a name, or a backend."""
    state_columns: Sequence[str] = ()
    keep_tokens: bool = False
    client: Any = None
    """What the caller gave for a model; None: the model itself."""
    on_state: Callable[[LiveSession], None] | None = None
    """Called with each session after its record was made, while its state is still there."""


def seed_of(base: int, example_id: int | str, rollout_id: int) -> int:
    """31 bits that depend on nothing but these three."""
    packed = hashlib.blake2b(f"{base}/{example_id}/{rollout_id}".encode(), digest_size=4).digest()
    return int.from_bytes(packed, "big") & 0x7FFFFFFF


class CancelledByTaskError(VerifiersError):
    """A rollout cancelled the worker it ran in."""


Done = Callable[[Task, int], bool]
"""Whether a rollout (task, number) needs no running because it is finished already."""
Emit = Callable[[list[Record]], Awaitable[None] | None]


class _Group:
    __slots__ = ("members", "open", "rubric", "task")

    def __init__(self, task: Task, rubric: Rubric, size: int) -> None:
        self.task, self.rubric, self.open = task, rubric, size
        self.members: list[LiveSession] = []


async def run(work: Work, tasks: Iterable[Task], emit: Emit, *, done: Done | None = None) -> None:
    """Run every rollout that is not `done`; records go to `emit` as they finish, a group's together.

    Raises:
        ConfigError: the harness makes no sense in this environment, or a reward function asks for what it cannot have.
        BudgetReachedError: the run's money is spent; rollouts under way are given up, finished ones were emitted.
        EndpointGivenUpError: no call was ever answered; the rollouts that ended were emitted, others were given up.
        HungFunctionError: functions of the user's hang in too many threads.
    """
    check_pair(work.world, work.harness)
    work.world.check_rubric(_columns(tasks), work.harness)
    prepare = getattr(work.harness, "prepare", None)
    if prepare is not None:
        await prepare()
    queue, boxes, waiting = _queue(work, tasks, done), RunBoxes(work.sandbox), set[_Group]()
    workers = max(1, work.concurrency)
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(_work_off(work, boxes, queue, waiting, emit)) for _ in range(workers)]
    except BaseExceptionGroup as errors:
        error = _first(errors)
        if work.budget is not None and Budget.is_end(error):
            raise BudgetReachedError(work.budget) from None
        raise error from None
    finally:
        for begun in waiting:  # the run ended early: nobody judges their members any more
            for session in begun.members:
                await release(session, begun.rubric, work.stage_limits)
        await boxes.close()
    if any(worker.cancelled() for worker in running):  # a task group passes over those
        raise CancelledByTaskError(
            "code of the environment or rubric cancelled the task its rollout ran in, so rollouts are missing;"
            " use asyncio.timeout() to bound a wait"
        )


def _columns(tasks: Iterable[Task]) -> frozenset[str] | None:
    """Of tasks that can be looked at without using them up; None: not known."""
    return frozenset(name for task in tasks for name in task.columns) if isinstance(tasks, Collection) else None


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return error  # pyright: ignore[reportUnknownVariableType]


def _queue(work: Work, tasks: Iterable[Task], done: Done | None) -> Iterator[tuple[_Group, int]]:
    for task in tasks:
        rubric = work.rubric_of(task)
        numbers = range(work.rollouts_per_example)
        open_ones = [n for n in numbers if done is None or not done(task, n)]
        if rubric.scores_groups:
            if not open_ones:
                continue
            open_ones = list(numbers)  # a group is judged, and therefore redone, as a whole
            group = _Group(task, rubric, len(open_ones))
            for number in open_ones:
                yield group, number
        else:
            for number in open_ones:
                yield _Group(task, rubric, 1), number


async def _work_off(
    work: Work, boxes: RunBoxes, queue: Iterator[tuple[_Group, int]], waiting: set[_Group], emit: Emit
) -> None:
    for group, number in queue:
        check_abandoned()
        session = await _generate(work, boxes, group.task, number, group.rubric)
        group.members.append(session)
        group.open -= 1
        if group.open:
            waiting.add(group)
        else:
            waiting.discard(group)
            await _judge(work, group, emit)
            if work.patience is not None:
                for member in group.members:
                    work.patience.ended(member.unanswered, scored=member.state.fault is None)


async def _generate(work: Work, boxes: RunBoxes, task: Task, number: int, rubric: Rubric) -> LiveSession:
    attempt = 1
    while True:
        sampling = dict(work.sampling)
        if work.seed is not None:
            sampling.setdefault("seed", seed_of(work.seed, task.example_id, number))
        session = LiveSession(
            work.world,
            task,
            work.model,
            rollout_id=number,
            sampling=sampling,
            limits=work.limits,
            keep_tokens=work.keep_tokens,
            attempt=attempt,
            client=work.client,
            budget=work.budget,
            patience=work.patience,
            boxes=boxes,
        )
        try:
            await generate(session, work.harness, work.stage_limits)
        except BaseException:
            await release(session, rubric, work.stage_limits)
            raise
        fault = session.state.fault
        if fault is None or not _worth_retrying(fault) or attempt > work.max_retries:
            return session
        await release(session, rubric, work.stage_limits)
        attempt += 1


def _worth_retrying(fault: Fault) -> bool:
    return fault.retryable and fault.kind in RETRIED_KINDS


async def _judge(work: Work, group: _Group, emit: Emit) -> None:
    members = sorted(group.members, key=lambda session: session.rollout_id)
    try:
        await score(members, group.rubric, work.stage_limits, timeout_fails=work.timeout_fails)
    finally:
        for session in members:
            await release(session, group.rubric, work.stage_limits)
    records: list[Record] = []
    for session in members:
        records.append(_recorded(session, work.state_columns))
        if work.on_state is not None:
            work.on_state(session)
        session.state.session = None
    result = emit(records)
    if result is not None:
        await result


def _recorded(session: LiveSession, state_columns: Sequence[str]) -> Record:
    """The record; one that says so if the environment left a state that cannot be read."""
    faults: list[Fault] = []
    with boundary("record", FaultKind.ENVIRONMENT, faults.append):
        return record_of(session, state_columns=state_columns, seed=session.sampling.get("seed"))
    return bare_record(session, faults[0])
