"""One evaluation from the command line: load, check, run, report."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import logging
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from verifiers.cli import logs
from verifiers.cli.defaults import with_defaults
from verifiers.cli.ending import Say
from verifiers.cli.models import Chosen, choose_model, no_model
from verifiers.cli.progress import Progress
from verifiers.cli.settings import EvalSettings, as_toml
from verifiers.cli.table import print_table, what_helps
from verifiers.envs.environment import Environment
from verifiers.envs.loading import load_environment
from verifiers.envs.plan import plan_of
from verifiers.envs.rescoring import rescore
from verifiers.envs.saving import SavedRun, run_saved
from verifiers.errors import ConfigError, Fault, FaultKind, VerifiersError, boundary, nearest
from verifiers.harnesses.loading import load_harness
from verifiers.messages import as_messages
from verifiers.results.metadata import pinned, read_metadata
from verifiers.results.secrets import redacted
from verifiers.rollout.budget import Budget
from verifiers.rollout.patience import Patience
from verifiers.rollout.provision import box_for, check_pair
from verifiers.rollout.run import Work
from verifiers.sandboxes.registry import BACKENDS, backend_names, get_backend, usable_backend
from verifiers.session import Harness, Limits
from verifiers.task import Task

EXIT_UNSCORED = 3
T = TypeVar("T")


@dataclass
class _Run:
    """One evaluation, ready to start, and where it is written once it has started."""

    asked: EvalSettings
    command: Sequence[str]
    env: Environment
    work: Work
    first: Task
    tasks: Iterable[Task]
    """All of them, the first too; to be read once."""
    total: int | None
    """How many rollouts the whole run has; None: not known."""
    folder: Path | None = None


def measure(asked: EvalSettings, command: Sequence[str], say: Say, saved_runs: list[SavedRun] | None = None) -> int:
    """The exit status of the evaluation.

    Args:
        command: the command line, for the record.
        say: takes the result.
        saved_runs: the finished run is appended.

    Raises:
        ConfigError: something asked for does not exist or cannot work.
    """
    logs.to_screen(verbose=asked.verbose)
    env = load_asked(asked)
    loaded = getattr(env, "loaded", None)
    if asked.rescore is not None:
        print(f"environment: {loaded or asked.env}", flush=True)
        return _rescore(asked, env, asked.rescore, say)
    wanted = asked.num_examples if "num_examples" in asked.model_fields_set else -1
    asked = with_defaults(asked, loaded)
    harness = checked_harness(asked, env)
    chosen = choose_model(asked) if asked.model or getattr(harness, "needs_model", True) else no_model()
    print(f"model: {chosen.text}")
    print(f"environment: {loaded or asked.env}", flush=True)
    run = _prepared(asked, command, env, harness, chosen)
    if run.total is not None and run.total < wanted * asked.rollouts_per_example:
        there = run.total // asked.rollouts_per_example
        print(f"tasks: all {there} of the split {asked.split!r}; {wanted} were asked for", flush=True)
    if asked.dry_run:
        asyncio.run(_check(run, chosen))
        _print_plan(run)
        return 0
    try:
        saved = asyncio.run(_run(run, chosen))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise KeyboardInterrupt(_how_to_continue(run)) from None
    except OSError as error:
        if error.filename is None and error.errno == errno.ENOSPC:
            error.filename = str(run.folder or asked.output_dir)
        raise
    if saved_runs is not None:
        saved_runs.append(saved)
    return _report(run, saved, say)


def load_asked(asked: EvalSettings) -> Environment:
    """The environment; `ConfigError` for whatever its code raises."""
    return _from_outside(
        f"environment {asked.env!r} failed to load", lambda: load_environment(asked.env, **asked.env_args)
    )


def _from_outside(failed: str, call: Callable[[], T]) -> T:
    """What `call` into the code of an environment or harness returns.

    Raises:
        ConfigError: one line for whatever it raised.
    """
    faults: list[Fault] = []
    with boundary("load", FaultKind.ENVIRONMENT, faults.append):
        return call()
    error = faults[0].error
    if isinstance(error, VerifiersError):
        raise error
    raise ConfigError(f"{failed}: {faults[0].message}") from error


def _prepared(asked: EvalSettings, command: Sequence[str], env: Environment, harness: Harness, chosen: Chosen) -> _Run:
    source = _from_outside(f"environment {asked.env!r} has no tasks", lambda: env.tasks(asked.split))
    is_sized = _from_outside(f"environment {asked.env!r} could not make its tasks", lambda: source.is_sized)
    size = len(source) if is_sized else None
    env.check_rubric(None, harness)
    number = size if asked.num_examples < 0 else min(asked.num_examples, size or asked.num_examples)
    seed = asked.base_seed(local=chosen.is_local)
    tasks = source.select(asked.num_examples, shuffle=asked.shuffle, seed=seed)
    first = _from_outside(f"environment {asked.env!r} could not make its tasks", lambda: next(tasks, None))
    if first is None:
        raise ConfigError(f"environment {asked.env!r} has no tasks in its split {asked.split!r}")
    limits = Limits(
        max_turns=asked.max_turns,
        max_tokens=asked.max_total_tokens,
        timeout_s=asked.timeout,
        max_cost_usd=asked.max_cost,
    )
    concurrency = asked.concurrency(local=chosen.is_local)
    work = Work(
        world=env,
        rubric_of=env.rubric_for,
        model=chosen.model,
        harness=harness,
        sandbox=asked.sandbox,
        rollouts_per_example=asked.rollouts_per_example,
        concurrency=concurrency,
        sampling={**env.sampling_args, **asked.sampling(local=chosen.is_local)},
        limits=limits,
        seed=seed,
        timeout_fails=env.verifier_timeout == "fail",
        keep_tokens=asked.keep_tokens,
        budget=None if asked.max_run_cost is None else Budget(asked.max_run_cost),
        patience=Patience(concurrency),
    )
    total = None if number is None else number * asked.rollouts_per_example
    return _Run(asked, command, env, work, first, chain([first], tasks), total)


def checked_harness(asked: EvalSettings, env: Environment) -> Harness:
    """
    Raises:
        ConfigError: there is no such harness or sandbox, it cannot be loaded, or makes no sense in this environment.
    """
    if asked.sandbox not in backend_names():
        raise ConfigError(f"unknown sandbox {asked.sandbox!r}{nearest(asked.sandbox, backend_names())}")
    if asked.sandbox not in BACKENDS:
        get_backend(asked.sandbox)  # a package's: whether it can be loaded
    name = asked.one_harness or env.default_harness
    harness = _from_outside(f"harness {name!r} failed to load", lambda: load_harness(name, **asked.harness_args))
    check_pair(env, harness)
    return harness


async def _check(run: _Run, chosen: Chosen) -> None:
    try:
        await chosen.probe()
        await _check_boxes(run)
    finally:
        await chosen.model.close()


async def _check_boxes(run: _Run) -> None:
    """
    Raises:
        SandboxStartError: the first task needs a box, and there can be none here.
    """
    backend = None
    with boundary("sandbox_for", FaultKind.ENVIRONMENT, lambda _: None):  # its rollout says what is wrong
        if box_for(run.env, run.work.harness, run.first) is not None:
            backend = run.asked.sandbox
        elif run.env.makes_sandbox(run.first):
            backend = run.env.backend_for(run.first) or run.asked.sandbox
    if isinstance(backend, str):
        await usable_backend(backend)


async def _run(run: _Run, chosen: Chosen) -> SavedRun:
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    asked, progress = run.asked, Progress(run.total)

    def started(folder: Path, finished: Mapping[Any, Any]) -> None:
        run.folder = folder
        logs.to_run(folder)
        kept = sum(1 for row in finished.values() if row.scored)
        if kept:
            progress.skip(kept)
            print(f"continuing {folder}: {kept} finished rollouts are kept (--fresh starts anew)", flush=True)
        gc.collect()
        gc.freeze()  # what is loaded now stays; the collector need not walk it again for every thousand messages
        gc.set_threshold(20_000, 20, 20)  # finished rollouts leave few cycles: looking for them can wait

    try:
        await chosen.probe()
        await _check_boxes(run)
        with progress:
            return await run_saved(
                run.env,
                run.work,
                run.tasks,
                plan=plan_of(run.env, run.work, split=asked.split, shuffle=asked.shuffle),
                root=Path(asked.output_dir),
                fresh=asked.fresh,
                max_unscored=asked.max_unscored,
                extra_metadata={"command": redacted(run.command)},
                config_toml=as_toml(asked),
                on_start=started,
                on_records=progress.add,
            )
    finally:
        with boundary("teardown", FaultKind.ENVIRONMENT, _warn):  # the numbers are there already
            await run.env.teardown()
        await chosen.model.close()


def _warn(fault: Fault) -> None:
    logging.getLogger("verifiers.cli").warning("%s failed: %s\n%s", fault.where, fault.message, fault.trace)


def _print_plan(run: _Run) -> None:
    asked, work = run.asked, run.work
    total = "an unknown number of" if run.total is None else str(run.total)
    print(f"would run: {total} rollouts, {asked.rollouts_per_example} of each task, {work.concurrency} at one time")
    print(f"harness: {work.harness.name}, sandbox: {asked.sandbox}")
    print(f"sampling: {json.dumps(work.sampling)}, seed {work.seed}")
    first = run.first
    print(f"first task ({first.example_id!r}), answer {first.answer!r}:")
    for message in as_messages(first.prompt):
        print(f"  {message.role}: {message.text}")
    for tool in run.env.tool_defs or []:
        print(f"  tool {tool.name}: {tool.description}")
    print("dry run: no rollout was made, nothing was written")


def _report(run: _Run, saved: SavedRun, say: Say) -> int:
    harness = run.work.harness.name
    named = "" if harness == run.env.default_harness else harness
    print_table(saved.summary, max_unscored=run.asked.max_unscored, harness=named)
    if saved.summary.is_unjudged:
        print("vf-eval: warning: the rubric has no reward function, so every reward is 0", file=sys.stderr)
    is_capped = run.asked.max_cost is not None or run.asked.max_run_cost is not None
    if is_capped and saved.summary.n_scored and saved.summary.usage.cost_usd is None:
        print("vf-eval: warning: the endpoint tells no cost, so no limit on money was kept", file=sys.stderr)
    if saved.stopped is not None:
        print(f"vf-eval: {saved.stopped}", file=sys.stderr)
    elif not saved.is_complete:
        print(
            f"vf-eval: {saved.summary.n_unscored} of {saved.summary.n} rollouts are unscored, more than "
            f"{run.asked.max_unscored:.0%}; {what_helps(saved.summary)}",
            file=sys.stderr,
        )
    say({**saved.summary.to_json(), **pinned(read_metadata(saved.run_dir)), "stopped": saved.stopped})
    return 0 if saved.is_complete else EXIT_UNSCORED


def _rescore(asked: EvalSettings, env: Environment, run_dir: str, say: Say) -> int:
    rescored = asyncio.run(rescore(env, run_dir, concurrency=asked.concurrency(local=False)))
    before, after = rescored.before, rescored.after
    print_table(after, max_unscored=asked.max_unscored)
    print(f"before: reward {before.reward}, {before.n_unscored} unscored; now {after.reward}, {after.n_unscored}")
    print(f"new verdicts: {rescored.path} (the run's own rows are unchanged)")
    found = {**after.to_json(), **pinned(read_metadata(Path(run_dir)))}
    say({**found, "rubric_digest": rescored.digest, "path": str(rescored.path)})
    enough = after.n_scored > 0 and after.n_unscored <= asked.max_unscored * after.n
    return 0 if enough else EXIT_UNSCORED


def _how_to_continue(run: _Run) -> str:
    if run.folder is None:
        return "interrupted before the first rollout"
    return f"interrupted; finished rollouts are in {run.folder}\nrepeat the command to continue"
