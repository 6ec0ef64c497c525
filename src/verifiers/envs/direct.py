"""The parts of an environment that trainers and tests call one by one, outside a run of many tasks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from verifiers.decorators import marked
from verifiers.envs.outputs import GenerateOutputs, Output
from verifiers.envs.overrides import call_named
from verifiers.envs.whole import Whole
from verifiers.errors import ConfigError, Fault, FaultKind, boundary
from verifiers.models.config import ClientConfig, resolve
from verifiers.rollout.usage import StateUsageTracker
from verifiers.state import State


class Direct:
    """One group, one rollout, one hook at a time."""

    env_client: Any = None
    """Something that runs rollouts elsewhere: `run_rollout` and `run_group` are handed to it."""

    @property
    def requires_group_rollouts(self) -> bool:
        """Whether rollouts of one example must be judged together."""
        return cast(Whole, self).rubric.scores_groups

    @property
    def provides_advantages(self) -> bool:
        """Whether the rubric sets advantages itself."""
        return False

    async def run_rollout(
        self,
        input: Any,
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        max_retries: int = 0,
        state_columns: Sequence[str] | None = None,
        env_client: Any = None,
    ) -> Output:
        """One rollout, judged."""
        elsewhere = env_client or self.env_client
        if elsewhere is not None:
            config = _config_of(client)
            return await elsewhere.run_rollout(
                input, config, model, dict(sampling_args or {}), max_retries, state_columns
            )
        results = await self._run([input], client, model, sampling_args, max_retries, state_columns)
        return results["outputs"][0]

    async def run_group(
        self,
        group_inputs: Sequence[Any],
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        max_retries: int = 0,
        state_columns: Sequence[str] | None = None,
        env_client: Any = None,
        **_: Any,
    ) -> list[Output]:
        """The rollouts of one example, judged together where the rubric asks for it; in order."""
        elsewhere = env_client or self.env_client
        if elsewhere is not None:
            config = _config_of(client)
            return await elsewhere.run_group(
                list(group_inputs), config, model, dict(sampling_args or {}), max_retries, state_columns
            )
        results = await self._run(list(group_inputs), client, model, sampling_args, max_retries, state_columns)
        return results["outputs"]

    async def _run(
        self, inputs: list[Any], client: Any, model: str, sampling: Any, max_retries: int, columns: Any
    ) -> GenerateOutputs:
        return await cast(Whole, self).generate(
            inputs, client, model, sampling_args=sampling, max_retries=max_retries, state_columns=columns
        )

    # -- hooks, one by one

    async def is_completed(self, state: State, **_: Any) -> bool:
        """Whether a stop condition holds, asked in order of priority; the first names `state["stop_condition"]`."""
        for condition in marked(self, "stop"):
            if await self._render_stop(state, condition):
                return True
        return False

    async def _render_stop(self, state: State, condition: Callable[..., Any], **_: Any) -> bool:
        holds = condition(state)
        if inspect.isawaitable(holds):
            holds = await holds
        if not holds:
            return False
        state["is_completed"] = True
        state["stop_condition"] = condition.__name__
        error = state.get("error")
        if condition.__name__ == "has_error" and isinstance(error, BaseException):
            cause = f" <- {error.__cause__!r}" if error.__cause__ is not None else ""
            cast(Any, self).logger.error(f"rollout ended by {error!r}{cause}")
        return True

    async def cleanup(self, state: State, *_: Any, **__: Any) -> None:
        """Run this environment's `@cleanup` methods for one rollout."""
        await self.run_cleanup(state)

    async def run_cleanup(self, state: State) -> None:
        """Run every handler, whatever one of them raises; then raise what the first raised."""
        faults: list[Fault] = []
        for handler in marked(self, "cleanup"):
            with boundary(f"cleanup:{handler.__name__}", FaultKind.ENVIRONMENT, faults.append):
                await call_named(handler, state=state, env=self)
        if faults and faults[0].error is not None:
            raise faults[0].error

    async def _teardown(self) -> None:
        for handler in marked(self, "teardown"):
            result = handler()
            if inspect.isawaitable(result):
                await result

    @property
    def _stop_conditions(self) -> list[Callable[..., Any]]:
        return marked(self, "stop")

    @property
    def _cleanup_handlers(self) -> list[Callable[..., Any]]:
        return marked(self, "cleanup")

    @property
    def _teardown_handlers(self) -> list[Callable[..., Any]]:
        return marked(self, "teardown")

    # -- usage

    def _get_usage_tracker(self, state: State, create_if_missing: bool = True) -> StateUsageTracker | None:
        tracker = state.get("usage_tracker")
        if tracker is None and create_if_missing:
            tracker = StateUsageTracker()
            state["usage_tracker"], state["usage"] = tracker, tracker.usage
        return tracker

    def increment_state_usage(self, state: State, input_tokens: float = 0, output_tokens: float = 0) -> None:
        """Count tokens that were used outside `get_model_response`."""
        tracker = self._get_usage_tracker(state)
        if tracker is not None:
            tracker.increment(input_tokens, output_tokens)

    def increment_state_usage_from_response(self, state: State, response: object) -> None:
        tracker = self._get_usage_tracker(state)
        if tracker is not None:
            tracker.increment_from_response(response)

    def get_state_usage(self, state: State) -> dict[str, float] | None:
        """Tokens this rollout used so far; None if nothing counts them."""
        tracker = self._get_usage_tracker(state, create_if_missing=False)
        return None if tracker is None else tracker.snapshot()

    def set_concurrency(self, concurrency: int) -> None:
        """How many rollouts run at one time where the caller does not say."""
        cast(Whole, self).max_workers = concurrency

    @staticmethod
    def make_dataset(results: Mapping[str, Any]) -> Any:
        """The outputs of results as a `datasets.Dataset`."""
        from verifiers.envs.datasets import columns_of

        return columns_of([dict(output) for output in results["outputs"]])


def _config_of(client: Any) -> Any:
    if not isinstance(client, ClientConfig):
        raise ConfigError(f"client must be have type ClientConfig to run elsewhere, got {type(client).__name__}")
    return resolve(client)
