"""A run on disk: begun, continued or refused by its plan; every finished rollout written before it is forgotten."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from verifiers.envs.callbacks import Callbacks
from verifiers.envs.plan import plan_digest, plan_of
from verifiers.envs.whole import Whole
from verifiers.errors import ConfigError
from verifiers.results.metadata import run_folder
from verifiers.results.record import Record
from verifiers.results.store import Finished, RunStore, find_unfinished
from verifiers.results.summary import Summary, summarise
from verifiers.rollout.budget import BudgetReachedError
from verifiers.rollout.live import LiveSession
from verifiers.rollout.patience import EndpointGivenUpError
from verifiers.rollout.run import Work, run
from verifiers.rubrics.digest import rubric_digest
from verifiers.task import Task

ROOT = Path("outputs/evals")


@dataclass(frozen=True)
class SavedRun:
    """A run that came to its end."""

    run_dir: Path
    summary: Summary
    kept: int
    """Rollouts that an earlier session of this run had finished."""
    is_complete: bool
    """False: more rollouts are unscored than allowed, or it was stopped; repeating the command goes on."""
    stopped: str | None = None
    """Why it was stopped before its end (its budget, an endpoint that never answered); None: it was not."""


async def run_saved(
    env: Whole,
    work: Work,
    tasks: Iterable[Task],
    *,
    plan: Mapping[str, Any],
    root: Path = ROOT,
    folder: Path | None = None,
    fresh: bool = False,
    max_unscored: float = 0.1,
    extra_metadata: Mapping[str, Any] | None = None,
    config_toml: str | None = None,
    on_start: Callable[[Path, Mapping[tuple[int | str, int], Finished]], None] | None = None,
    on_records: Callable[[Sequence[Record]], None] | None = None,
) -> SavedRun:
    """Run `tasks`, continuing an unfinished run of the same plan.

    Args:
        root: where `<env>--<model>/<run-id>` is made, and looked for; another harness than the environment's own
            is named as well: `<env>--<model>--<harness>`.
        folder: exactly this run folder instead.
        fresh: begin a new run whatever is there.
        max_unscored: share of rollouts that may stay unscored in a complete run, 0..1.
        on_start: called with the run's folder and what it holds already.
        on_records: called with records that were finished together, once they are on disk.

    Raises:
        ConfigError: the folder holds a run of another plan, or a task changed under an unfinished run.
    """
    digest = plan_digest(plan)
    store = _store(env, work, plan, digest, root, folder, fresh, extra_metadata, config_toml)
    with store:
        finished = store.finished()
        if on_start is not None:
            on_start(store.folder, finished)

        def emit(records: list[Record]) -> None:
            store.append(records)
            if on_records is not None:
                on_records(records)

        started = time.perf_counter() - float(store.metadata.get("wall_s") or 0.0)
        stopped: str | None = None
        try:
            await run(work, tasks, emit, done=done_of(finished, store.folder))
        except BudgetReachedError as end:
            stopped = str(end)
        except EndpointGivenUpError as end:
            stopped = f"{end}; what is finished is kept, put this right and repeat the command to continue"
        finally:
            store.metadata["wall_s"] = time.perf_counter() - started
        summary = summarise(store, store.metadata, run_dir=str(store.folder))
        summary.wall_s = store.metadata["wall_s"]
        share = summary.n_unscored / summary.n if summary.n else 0.0
        complete = stopped is None and share <= max_unscored and summary.n_scored > 0
        store.close("completed" if complete else "interrupted", totals=summary.totals())
    kept = sum(1 for row in finished.values() if row.scored)
    return SavedRun(store.folder, summary, kept, complete, stopped)


def done_of(finished: Mapping[tuple[int | str, int], Finished], folder: Path) -> Callable[[Task, int], bool]:
    """Whether a run holds a score of a rollout already."""

    def done(task: Task, number: int) -> bool:
        row = finished.get((task.example_id, number))
        if row is None:
            return False
        if row.task_digest and row.task_digest != task.digest():
            raise ConfigError(
                f"task {task.example_id!r} is not the one that the unfinished run {str(folder)!r} holds; "
                f"begin a new run (--fresh)"
            )
        return row.scored

    return done


def _store(
    env: Whole,
    work: Work,
    plan: Mapping[str, Any],
    digest: str,
    root: Path,
    folder: Path | None,
    fresh: bool,
    extra: Mapping[str, Any] | None,
    config_toml: str | None,
) -> RunStore:
    found = None if fresh else folder if folder is not None and folder.exists() else find_unfinished(root, digest)
    if found is not None and (found / "metadata.json").exists():
        store = RunStore.open(found)
        if store.metadata.get("plan_digest") != digest:
            store.close("interrupted")
            raise ConfigError(f"metadata mismatch: {str(found)!r} holds a run of another plan; choose another folder")
        store.update(_of_today(store.metadata, work))
        return store
    harness = "" if work.harness.name == env.default_harness else work.harness.name
    folder = folder or run_folder(root, str(plan["env"]), work.model.name, harness=harness)
    return RunStore.create(root, _metadata(env, work, plan, digest, extra), folder=folder, config_toml=config_toml)


def _of_today(before: Mapping[str, Any], work: Work) -> dict[str, Any]:
    """What may change while a run is continued; of versions, each that made a part of it."""
    from verifiers import __version__

    versions = str(before.get("verifiers_version") or __version__).split(", ")
    return {
        "rollouts_per_example": work.rollouts_per_example,
        "concurrency": work.concurrency,
        "verifiers_version": ", ".join(dict.fromkeys([*versions, __version__])),
    }


def _metadata(
    env: Whole, work: Work, plan: Mapping[str, Any], digest: str, extra: Mapping[str, Any] | None
) -> dict[str, Any]:
    from verifiers import __version__

    loaded = getattr(env, "loaded", None)
    return {
        **(extra or {}),
        "env": plan["env"],
        "env_version": getattr(loaded, "version", None),
        "env_origin": getattr(loaded, "origin", None),
        "model": work.model.name,
        "harness": work.harness.name,
        "verifiers_version": __version__,
        "python_version": sys.version.split()[0],
        "plan": dict(plan),
        "plan_digest": digest,
        "rollouts_per_example": work.rollouts_per_example,
        "concurrency": work.concurrency,
        "rubric_digest": rubric_digest(env.rubric),
        "rubric": [
            {"name": name, "weight": weight}
            for name, weight in zip(env.rubric.get_reward_func_names(), env.rubric.get_reward_weights(), strict=False)
        ],
    }


async def evaluate_saved(
    env: Whole,
    work: Work,
    tasks: Iterable[Task],
    folder: str | Path | None,
    callbacks: Callbacks,
    shuffle: bool = False,
) -> Any:
    """`run_saved`, returning what `evaluate` returns: the outputs of the whole run."""
    from verifiers.envs.outputs import output_of, results_of
    from verifiers.results.read import read_records

    states: list[Any] = []
    order = list(tasks)
    if folder is not None and (foreign := _finished_elsewhere(Path(folder), env, work, len(order))):
        return results_of([output_of(record) for record in foreign], states, work)

    def keep(session: LiveSession) -> None:
        states.append(session.state)

    def started(run_dir: Path, finished: Mapping[tuple[int | str, int], Finished]) -> None:
        kept = sum(1 for row in finished.values() if row.scored)
        if kept:
            callbacks.log(f"continuing {run_dir}: {kept} finished rollouts are kept")
            callbacks.kept(iter(read_records(run_dir)))
        callbacks.log(f"finished rollouts go to {run_dir}")
        callbacks.started(work, order, done_of(finished, run_dir))

    saved = await run_saved(
        env,
        replace(work, on_state=keep),
        order,
        plan=plan_of(env, work, shuffle=shuffle),
        folder=None if folder is None else Path(folder),
        on_start=started,
        on_records=lambda records: callbacks.finished(work, records),
    )
    callbacks.log(f"{saved.summary.n} rollouts are in {saved.run_dir}")
    if saved.stopped is not None:
        raise EndpointGivenUpError(f"{saved.stopped} ({saved.run_dir})")
    outputs = [output_of(record) for record in read_records(saved.run_dir)]
    results = results_of(outputs, states, work)
    results["metadata"]["path_to_save"] = str(saved.run_dir)
    return results


def _finished_elsewhere(folder: Path, env: Whole, work: Work, examples: int) -> list[Record]:
    """The rollouts of a complete run that another release of this API left in `folder`; empty if it holds none.

    Raises:
        ConfigError: that run is another one, or is not complete: it cannot be continued here.
    """
    from verifiers.results.read import read_records

    try:
        metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    if "plan_digest" in metadata or "env_id" not in metadata:
        return []
    ours = {
        "env_id": env.env_id,
        "model": work.model.name,
        "num_examples": examples,
        "rollouts_per_example": work.rollouts_per_example,
    }
    for name, value in ours.items():
        if metadata.get(name, value) != value:
            raise ConfigError(
                f"metadata mismatch: {str(folder)!r} holds a run with {name} {metadata[name]!r}, this one has {value!r}"
            )
    records = list(read_records(folder / "results.jsonl"))
    if len(records) < examples * work.rollouts_per_example:
        raise ConfigError(f"{str(folder)!r} holds an unfinished run of another release; choose another folder")
    return records
