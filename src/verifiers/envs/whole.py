"""What the parts of an environment - its plan, runs and calls - ask of the whole, so that none of them imports it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from verifiers.envs.outputs import GenerateOutputs
from verifiers.messages import Response
from verifiers.models.base import Model
from verifiers.rubrics.rubric import Rubric
from verifiers.session import Session, World
from verifiers.state import State
from verifiers.task import Task
from verifiers.tasks.source import TaskSource


class Whole(World, Protocol):
    """An `Environment`, as its parts see it."""

    logger: logging.Logger
    env_id: str
    env_args: dict[str, Any]
    rubric: Rubric
    sampling_args: dict[str, Any]
    max_workers: int
    message_type: Literal["chat", "completion"]
    verifier_timeout: str
    default_harness: str
    env_client: Any

    @property
    def oai_tools(self) -> list[dict[str, Any]] | None: ...

    def tasks(self, split: Literal["train", "eval"] = "eval") -> TaskSource: ...

    def task_of(self, row: Any, index: int = 0) -> Task: ...

    def rubric_for(self, task: Task) -> Rubric: ...

    async def prepare(self, session: Session) -> None: ...

    async def spread(self, client: Any, name: str | None) -> Model | None: ...

    async def generate(
        self,
        inputs: Any,
        client: Any,
        model: str | None = None,
        sampling_args: Mapping[str, Any] | None = None,
        *,
        max_retries: int = 0,
        state_columns: Sequence[str] | None = None,
    ) -> GenerateOutputs: ...

    async def run_group(
        self,
        group_inputs: Sequence[Any],
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        max_retries: int = 0,
        state_columns: Sequence[str] | None = None,
    ) -> list[Any]: ...

    get_model_response: Any
    """Overridden in many signatures."""

    def increment_state_usage_from_response(self, state: State, response: Response) -> None: ...
