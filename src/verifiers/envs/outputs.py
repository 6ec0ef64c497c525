"""What `evaluate` and `generate` return: one dict for each rollout, and the widely used columns over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from verifiers import __version__
from verifiers.messages import as_messages
from verifiers.results.record import Record
from verifiers.results.stats import mean, pass_at_k, pass_pow_k
from verifiers.rollout.run import Work
from verifiers.trace import Unscored

_COLUMNS = frozenset(
    {
        "prompt",
        "completion",
        "answer",
        "task",
        "info",
        "reward",
        "example_id",
        "error",
        "is_truncated",
        "stop_condition",
    }
)


class _Open(dict[str, Any]):
    """A dict whose keys read as attributes, those too that `__missing__` makes of others."""

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Output(_Open):
    """One rollout as a flat dict. `record` is the whole record, trace included.

    A metric is also read by its name, where no column has that name.
    """

    record: Record

    def __missing__(self, key: str) -> Any:
        metrics = dict.get(self, "metrics") or {}
        if key in metrics:
            return metrics[key]
        raise KeyError(key)


def output_of(record: Record) -> Output:
    """The flat view of a record."""
    error = record.error
    usage = record.token_usage
    output = Output(record.columns)
    output.update(
        example_id=record.example_id,
        rollout_id=record.rollout_id,
        prompt=record.prompt if isinstance(record.prompt, str) else as_messages(record.prompt),
        completion=record.completion if isinstance(record.completion, str) else as_messages(record.completion),
        answer=record.answer,
        info=record.info,
        task=record.task,
        reward=record.reward,
        metrics=record.metrics,
        error=None if error is None else _error(error),
        stop_condition=record.stop_condition,
        is_completed=True,
        is_truncated=record.is_truncated,
        timing={**record.timing, **_milliseconds(record.timing)},
        token_usage={
            **msgspec.to_builtins(usage),
            "input_tokens": float(usage.prompt_tokens),
            "output_tokens": float(usage.completion_tokens),
        },
        tool_defs=record.trace.tools[-1] if record.trace.tools else [],
    )
    output.record = record
    return output


def _milliseconds(timing: Mapping[str, Any]) -> dict[str, float]:
    drive, score = timing.get("drive_s") or 0.0, timing.get("score_s") or 0.0
    total = timing.get("total_s") or 0.0
    return {"generation_ms": drive * 1000, "scoring_ms": score * 1000, "total_ms": total * 1000}


def _error(error: Unscored) -> dict[str, Any]:
    return {
        "kind": str(error.kind),
        "where": error.where,
        "message": error.message,
        "cause": str(error.cause),
        "error": error.error_type,
        "error_chain_repr": error.message,
        "error_chain_str": error.error_type,
    }


def results_of(outputs: Sequence[Output], states: Sequence[Any], work: Work, *, time_s: float = 0.0) -> GenerateOutputs:
    """The results of a run, with the metadata that sums them up."""
    return GenerateOutputs(outputs, metadata_of(outputs, work, time_s), states)


def metadata_of(outputs: Sequence[Output], work: Work, time_s: float = 0.0) -> dict[str, Any]:
    """What the outputs of a run come to, in the widely used form."""
    described = work.model.describe()
    scored = [output["reward"] for output in outputs if output["reward"] is not None]
    threshold = getattr(work.world, "pass_threshold", 0.5)
    passes = _passes(outputs, work.rollouts_per_example, threshold)
    return {
        "env_id": getattr(work.world, "env_id", ""),
        "env_args": getattr(work.world, "env_args", {}),
        "model": work.model.name,
        "base_url": str(described.get("url") or ""),
        "num_examples": len({output["example_id"] for output in outputs}),
        "rollouts_per_example": work.rollouts_per_example,
        "sampling_args": dict(work.sampling),
        "date": datetime.now().isoformat(timespec="seconds"),
        "time": time_s,
        "time_ms": time_s * 1000,
        "n_scored": len(scored),
        "n_unscored": len(outputs) - len(scored),
        "avg_reward": sum(scored) / len(scored) if scored else None,
        "avg_metrics": _means(outputs),
        "avg_error": sum(output["error"] is not None for output in outputs) / len(outputs) if outputs else 0.0,
        "pass_at_k": {str(k): value for k, (value, _) in passes.items()},
        "pass_all_k": {str(k): value for k, (_, value) in passes.items()},
        "pass_threshold": threshold,
        "usage": _usage(outputs),
        "version_info": {
            "vf_version": __version__,
            "vf_commit": None,
            "env_version": getattr(getattr(work.world, "loaded", None), "version", None),
            "env_commit": None,
        },
        "state_columns": list(work.state_columns),
        "path_to_save": None,
        "tools": getattr(work.world, "tool_defs", None),
    }


def _means(outputs: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    values: dict[str, list[float]] = {}
    for output in outputs:
        for name, value in output["metrics"].items():
            values.setdefault(name, [])
            if value is not None:
                values[name].append(value)
    return {name: sum(given) / len(given) if given else None for name, given in values.items()}


def _usage(outputs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Mean tokens of a rollout."""
    names = ("input_tokens", "output_tokens")
    return {name: sum(output["token_usage"][name] for output in outputs) / max(1, len(outputs)) for name in names}


def _passes(outputs: Sequence[Mapping[str, Any]], rollouts: int, threshold: float) -> dict[int, tuple[float, float]]:
    """pass@k and pass^k over the scored rollouts, for the powers of two up to `rollouts`; nothing for one rollout."""
    groups: dict[Any, list[float]] = {}
    for output in outputs:
        if output["reward"] is not None:
            groups.setdefault(output["example_id"], []).append(output["reward"])
    counts = [(len(rewards), sum(reward >= threshold for reward in rewards)) for rewards in groups.values()]
    found: dict[int, tuple[float, float]] = {}
    for k in (2**power for power in range(rollouts.bit_length()) if rollouts > 1):
        at, every = mean(pass_at_k(n, c, k) for n, c in counts), mean(pass_pow_k(n, c, k) for n, c in counts)
        if at is not None and every is not None:
            found[k] = (at, every)
    return found


class GenerateOutputs(_Open):
    """`outputs` (a dict for each rollout, in order) and `metadata`; also each column as a list.

    `reward` holds None for unscored rollouts; `metrics` is a dict of lists.
    """

    def __init__(
        self,
        outputs: Sequence[Output | dict[str, Any]] = (),
        metadata: Mapping[str, Any] | None = None,
        states: Sequence[Any] = (),
    ) -> None:
        super().__init__(outputs=list(outputs), metadata=dict(metadata or {}))
        self._states = list(states)

    @property
    def records(self) -> list[Record]:
        """The whole records, traces included."""
        return [output.record for output in self["outputs"]]

    def __missing__(self, key: str) -> Any:
        outputs = self["outputs"]
        if key in _COLUMNS:
            return [output[key] for output in outputs]
        if key in ("state", "states"):
            return self._states
        if key == "stop_conditions":
            return [output["stop_condition"] for output in outputs]
        if key == "metrics":
            names = dict.fromkeys(name for output in outputs for name in output["metrics"])
            return {name: [output["metrics"].get(name) for output in outputs] for name in names}
        raise KeyError(key)


Results = GenerateOutputs
