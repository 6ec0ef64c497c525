"""Running an environment from Python: `evaluate` over its tasks, `generate` over given rows, sync and async."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from verifiers.envs.callbacks import Callbacks, OnProgress, OnStart
from verifiers.envs.inputs import Given, given_inputs
from verifiers.envs.keywords import check_keywords
from verifiers.envs.outputs import GenerateOutputs, Output, output_of, results_of
from verifiers.envs.whole import Whole
from verifiers.harnesses.loading import load_harness
from verifiers.models.clients import model_of
from verifiers.models.config import turn_of
from verifiers.results.record import Record
from verifiers.rollout.live import LiveSession
from verifiers.rollout.patience import Patience
from verifiers.rollout.run import Work, run
from verifiers.session import Harness, Limits
from verifiers.task import Task

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from verifiers.models.base import Model
    from verifiers.models.config import ClientConfig


_KEYWORDS = [
    "sampling_args",
    "num_examples",
    "rollouts_per_example",
    "max_concurrent",
    "shuffle",
    "seed",
    "harness",
    "sandbox",
    "limits",
    "state_columns",
    "on_record",
    "on_start",
    "on_progress",
    "on_log",
    "save_results",
    "results_path",
    "max_retries",
    "keep_tokens",
]


class Evaluation:
    """The part of an environment that runs it."""

    async def evaluate(
        self,
        client: Model | AsyncOpenAI | ClientConfig,
        model: str | None = None,
        sampling_args: Mapping[str, Any] | None = None,
        num_examples: int = -1,
        rollouts_per_example: int = 1,
        max_concurrent: int = -1,
        *,
        shuffle: bool = False,
        seed: int | None = None,
        harness: Harness | str | None = None,
        sandbox: Any = None,
        limits: Limits | None = None,
        state_columns: Sequence[str] | None = None,
        on_record: Callable[[Record], None] | None = None,
        on_start: OnStart | None = None,
        on_progress: OnProgress | Sequence[OnProgress] | None = None,
        on_log: Callable[[str], Any] | None = None,
        save_results: bool = False,
        results_path: str | Path | None = None,
        max_retries: int = 2,
        keep_tokens: bool = False,
        **options: Any,
    ) -> GenerateOutputs:
        """Run the evaluation tasks and judge them.

        Args:
            client: a verifiers model, an OpenAI client object, or a client config.
            model: its name; not needed with a verifiers model.
            num_examples: -1 for all.
            max_concurrent: rollouts at one time; -1: the environment's `max_workers`.
            shuffle: draw the examples instead of taking the first ones.
            seed: of the draw and of sampling; each rollout sends its own seed derived from it. None: none is sent.
            harness: the program the model runs in, or its name; None: the environment's default.
            sandbox: backend of the boxes of rollouts that need one, or its name; None: `local`.
            on_record: called with each finished record.
            on_start: called once, with a row for each rollout and the rows of those still to be run, by example.
            on_progress: called, one or several, with all outputs so far, the new ones, and the metadata over all.
            on_log: called with lines about where the run is kept.
            save_results: keep the run on disk, continuing an unfinished one of the same plan.
            results_path: folder of the run; None: under `outputs/evals`.
            max_retries: how often a rollout is started again after an infrastructure fault.
            keep_tokens: record the token ids of models that give them.

        Raises:
            EndpointGivenUpError: no call was answered, and rollout after rollout says so.
        """
        env = cast(Whole, self)
        check_keywords(options, ("evaluate", *_KEYWORDS))
        callbacks = Callbacks(on_start, on_progress, on_log, on_record)
        tasks = env.tasks("eval").select(num_examples, shuffle=shuffle, seed=seed)
        columns = state_columns or options.pop("state_columns", None) or ()
        work = self._work(client, model, sampling_args, rollouts_per_example, max_concurrent, harness, limits, sandbox)
        work = _with(work, seed=seed, state_columns=tuple(columns), max_retries=max_retries, keep_tokens=keep_tokens)
        work = _with(work, patience=Patience(work.concurrency))
        work = _with(work, model=await env.spread(client, model) or work.model)
        if save_results or results_path is not None:
            from verifiers.envs.saving import evaluate_saved

            return await _closed(work, evaluate_saved(env, work, tasks, results_path, callbacks, shuffle))
        return await _closed(work, self._collect(work, tasks, callbacks))

    async def generate(
        self,
        inputs: Any,
        client: Model | AsyncOpenAI | ClientConfig,
        model: str | None = None,
        sampling_args: Mapping[str, Any] | None = None,
        max_concurrent: int = -1,
        rollouts_per_example: int = 1,
        *,
        harness: Harness | str | None = None,
        sandbox: Any = None,
        limits: Limits | None = None,
        seed: int | None = None,
        state_columns: Sequence[str] | None = None,
        on_record: Callable[[Record], None] | None = None,
        on_start: OnStart | None = None,
        on_progress: OnProgress | Sequence[OnProgress] | None = None,
        on_log: Callable[[str], Any] | None = None,
        max_retries: int = 0,
        save_results: bool = False,
        results_path: str | Path | None = None,
        **options: Any,
    ) -> GenerateOutputs:
        """Run given rows (a dataset, or dicts with the columns of one) and judge them; order is kept.

        A row that is given several times is so many rollouts of one example, judged together where the rubric asks.
        """
        env = cast(Whole, self)
        check_keywords(options, ("generate", *_KEYWORDS))
        callbacks = Callbacks(on_start, on_progress, on_log, on_record)
        given = given_inputs(env, inputs)
        rollouts = rollouts_per_example * given.repeats
        work = self._work(client, model, sampling_args, rollouts, max_concurrent, harness, limits, sandbox)
        work = _with(work, seed=seed, state_columns=tuple(state_columns or ()), max_retries=max_retries)
        if env.env_client is not None:
            return await self._elsewhere(work, given, client, model or "", state_columns, callbacks)
        work = _with(work, model=await env.spread(client, model) or work.model)
        if save_results or results_path is not None:
            from verifiers.envs.saving import evaluate_saved

            return await _closed(work, evaluate_saved(env, work, given.tasks, results_path, callbacks))
        results = await _closed(work, self._collect(work, given.tasks, callbacks))
        return given.in_order(results, rollouts_per_example)

    async def _elsewhere(
        self,
        work: Work,
        given: Given,
        client: Any,
        model: str,
        columns: Sequence[str] | None,
        callbacks: Callbacks,
    ) -> GenerateOutputs:
        """Each group by `env_client`; the addresses of a config take turns."""
        env = cast(Whole, self)
        groups: dict[Any, list[Any]] = {}
        for row, (place, _) in zip(given.rows, given.places, strict=True):
            groups.setdefault(place, []).append(row)
        metadata = {"env_id": env.env_id, "model": model}

        async def run_one(number: int, rows: list[Any]) -> list[Output]:
            config = turn_of(client, number)
            outputs = await env.run_group(rows, config, model, work.sampling, work.max_retries, columns)
            new = [Output(output) for output in outputs]
            callbacks.progressed(new, lambda _: metadata)
            return new

        callbacks.started(work, given.tasks)
        done = await asyncio.gather(*(run_one(number, rows) for number, rows in enumerate(groups.values())))
        return GenerateOutputs([output for outputs in done for output in outputs], metadata)

    def evaluate_sync(self, client: Any, model: str | None = None, **options: Any) -> GenerateOutputs:
        """`evaluate`, from code without an event loop (or beside a running one)."""
        return run_sync(lambda: self.evaluate(client, model, **options))

    def generate_sync(self, inputs: Any, client: Any, model: str | None = None, **options: Any) -> GenerateOutputs:
        """`generate`, from code without an event loop (or beside a running one)."""
        return run_sync(lambda: self.generate(inputs, client, model, **options))

    def _work(
        self,
        client: Any,
        model: str | None,
        sampling_args: Mapping[str, Any] | None,
        rollouts: int,
        concurrency: int,
        harness: Harness | str | None,
        limits: Limits | None,
        sandbox: Any = None,
    ) -> Work:
        env = cast(Whole, self)
        return Work(
            world=env,
            rubric_of=env.rubric_for,
            model=model_of(client, model),
            harness=load_harness(harness or env.default_harness),
            sandbox=sandbox or "local",
            rollouts_per_example=rollouts,
            concurrency=concurrency if concurrency and concurrency > 0 else env.max_workers,
            sampling={**env.sampling_args, **(sampling_args or {})},
            limits=limits or Limits(),
            timeout_fails=env.verifier_timeout == "fail",
            client=client,
        )

    async def _collect(self, work: Work, tasks: Iterable[Task], callbacks: Callbacks) -> GenerateOutputs:
        order, started = list(tasks), time.perf_counter()
        place = {task.example_id: index for index, task in enumerate(order)}
        found: dict[tuple[int, int], Output] = {}
        states: dict[tuple[int, int], Any] = {}

        def keep(session: LiveSession) -> None:
            states[place[session.task.example_id], session.rollout_id] = session.state

        def emit(records: list[Record]) -> None:
            for record in records:
                found[place[record.example_id], record.rollout_id] = output_of(record)
            callbacks.finished(work, records)

        callbacks.started(work, order)
        await run(_with(work, on_state=keep), order, emit)
        keys, time_s = sorted(found), time.perf_counter() - started
        return results_of([found[key] for key in keys], [states[key] for key in keys], work, time_s=time_s)


async def _closed(work: Work, running: Awaitable[GenerateOutputs]) -> GenerateOutputs:
    """The results of a run, after which a model that was made from a config is closed: nobody else has it."""
    try:
        return await running
    finally:
        if hasattr(work.client, "api_base_url"):
            await work.model.close()


def _with(work: Work, **changes: Any) -> Work:
    from dataclasses import replace

    return replace(work, **changes)


def run_sync(call: Callable[[], Any]) -> Any:
    """The result of an async call, from any thread; in a thread of its own where a loop is running already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(call())
    with ThreadPoolExecutor(1, "verifiers-sync") as thread:
        return thread.submit(lambda: asyncio.run(call())).result()
