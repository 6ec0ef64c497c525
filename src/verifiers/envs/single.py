"""One rollout outside a run, and the re-entry of environments that wrap the whole loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verifiers.envs.whole import Whole
from verifiers.harnesses.loading import load_harness
from verifiers.models.clients import model_of
from verifiers.rollout.live import LiveSession
from verifiers.rollout.stages import StageLimits, generate, release
from verifiers.session import current
from verifiers.state import State
from verifiers.task import Task


async def rollout(env: Whole, input: Any, client: Any, model: str, sampling_args: Mapping[str, Any] | None) -> State:
    """The state after one rollout, not yet scored; inside a run, the run's own rollout is driven instead."""
    session = current.get()
    if session is not None and session.world is env and not session.is_driven:
        session.is_driven = True
        await env.prepare(session)
        await (session.harness or load_harness(env.default_harness)).run(session)
        return session.state
    task = input if isinstance(input, Task) else env.task_of(input)
    fresh = LiveSession(env, task, model_of(client, model), sampling=sampling_args, client=client)
    try:
        await generate(fresh, load_harness(env.default_harness), StageLimits())
    finally:
        await release(fresh, env.rubric_for(task), StageLimits())
    return fresh.state
