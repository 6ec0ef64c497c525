"""What a run comes to: counts, the mean reward with its error, metrics, tokens. Streaming, so also live.

The one rule: means are over scored rollouts, and the unscored are shown next to them, by kind.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, cast

from verifiers.messages import Usage
from verifiers.results.record import Record
from verifiers.results.stats import (
    Interval,
    bounds,
    mean_interval,
    pass_at_k,
    pass_pow_k,
    stderr_of_sums,
    wilson_clustered,
)

_ONE = 1 << 60  # sums are whole multiples of 2^-60: exact for rewards, and the same in any order of the rows


class _Total:
    """Count and exact sum of the finite numbers it was given."""

    __slots__ = ("n", "ones", "sum")

    def __init__(self) -> None:
        self.n = self.sum = self.ones = 0

    def add(self, value: float) -> None:
        self.n += 1
        self.sum += int(value * _ONE)
        self.ones += value == 1

    @property
    def mean(self) -> float | None:
        return self.sum / (self.n * _ONE) if self.n else None


class Summary:
    """Running totals over the records given to `add`. Every property can be read at any time.

    Args:
        reward_range: lowest and highest possible reward; None: what the weights give for functions within 0..1,
            widened by what was seen.
        score_errors: count an unscored rollout whose reward functions all gave a value all the same, with that value.
    """

    def __init__(
        self,
        *,
        run_dir: str = "",
        env: str = "",
        model: str = "",
        wall_s: float | None = None,
        reward_range: tuple[float, float] | None = None,
        score_errors: bool = False,
    ) -> None:
        self.run_dir, self.env, self.model = run_dir, env, model
        self.n = 0
        self.unscored_by_kind: Counter[str] = Counter()
        self.first_messages: dict[str, str] = {}
        """For each kind of fault, what the first one said."""
        self.n_lasting = 0
        """Unscored rollouts that end in the same way however often they are run."""
        self.first_lasting = ""
        """What the first of those said."""
        self.stop_reasons: Counter[str] = Counter()
        self.usage = Usage()
        """Of the policy."""
        self.truncated = 0
        self._wall_s = wall_s
        self._span: tuple[float, float] | None = None
        self._range = reward_range
        self._score_errors = score_errors
        self._seen_range = (math.inf, -math.inf)
        self._weights: dict[str, float] | None = None
        self._reward = _Total()
        self._metrics: dict[str, _Total] = {}
        self._examples: dict[int | str, _Total] = {}
        self._binary = True

    def add(self, record: Record) -> None:
        self.n += 1
        self.stop_reasons[record.stop_reason] += 1
        self.truncated += record.is_truncated
        self.usage = self.usage + record.token_usage
        self._note_time(record.timing)
        reward = record.reward
        written = _written_reward(record) if self._score_errors else None
        if written is not None:
            self._score(record, written)
        elif record.error is not None:
            self._count(str(record.error.kind), record.error.message, lasting=not record.error.retryable)
        elif reward is None or not math.isfinite(reward):
            self._count("internal", f"the row has no error and the reward {reward!r}")
        else:
            self._score(record, float(reward))

    def _count(self, kind: str, message: str, *, lasting: bool = True) -> None:
        self.unscored_by_kind[kind] += 1
        self.first_messages.setdefault(kind, message)
        if lasting:
            self.n_lasting += 1
            self.first_lasting = self.first_lasting or message

    def _score(self, record: Record, reward: float) -> None:
        self._reward.add(reward)
        self._binary = self._binary and reward in (0.0, 1.0)
        self._seen_range = (min(self._seen_range[0], reward), max(self._seen_range[1], reward))
        if record.weights and record.weights != self._weights:
            self._weights = {**(self._weights or {}), **record.weights}
        example = self._examples.get(record.example_id)
        if example is None:
            example = self._examples[record.example_id] = _Total()
        example.add(reward)
        for name, value in record.metrics.items():
            total = self._metrics.get(name)
            if total is None:
                total = self._metrics[name] = _Total()
            if value is not None and math.isfinite(value):
                total.add(value)

    def _note_time(self, timing: Mapping[str, Any]) -> None:
        start = timing.get("start_time")
        if not isinstance(start, int | float):
            return
        stages = (v for k, v in timing.items() if k not in ("start_time", "total", "total_s"))
        spent = timing.get("total_s", timing.get("total"))
        if not isinstance(spent, int | float):
            spent = sum(value for value in stages if isinstance(value, int | float))
        first, last = self._span or (start, start)
        self._span = (min(first, start), max(last, start + spent))

    @property
    def n_scored(self) -> int:
        return self._reward.n

    @property
    def n_unscored(self) -> int:
        return self.n - self._reward.n

    @property
    def is_unjudged(self) -> bool:
        """Whether all rewards are 0 because no function with a weight gave one."""
        return self.n_scored > 0 and not self._weights and not self._reward.sum

    @property
    def n_examples(self) -> int:
        """Examples with a scored rollout."""
        return len(self._examples)

    @property
    def reward(self) -> float | None:
        """Mean over the scored rollouts; None: nothing is scored."""
        return self._reward.mean

    @property
    def reward_se(self) -> float | None:
        """Standard error, clustered by example; None for fewer than two scored examples."""
        return stderr_of_sums((example.n, example.sum / _ONE) for example in self._examples.values())

    @property
    def is_binary(self) -> bool:
        """Whether every reward so far is 0 or 1 (and there is one)."""
        return self._binary and self.n_scored > 0

    @property
    def reward_ci95(self) -> Interval | None:
        """For 0/1 rewards a clustered Wilson interval, else mean +- t * SE; None for fewer than two examples."""
        middle, se = self.reward, self.reward_se
        if middle is None:
            return None
        if self._binary:
            return wilson_clustered(middle, self.n_scored, self.n_examples, se)
        return mean_interval(middle, se, self.n_examples)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Lowest and highest possible reward, as far as is known."""
        if self._range is not None:
            return self._range
        weights = list((self._weights or {"": 1.0}).values())
        low, high = sum(w for w in weights if w < 0), sum(w for w in weights if w > 0)
        return min(float(low), self._seen_range[0]), max(float(high), self._seen_range[1])

    @property
    def reward_bounds(self) -> Interval | None:
        """The mean with every unscored rollout at the lowest and at the highest possible reward."""
        return bounds(self._reward.sum / _ONE, self.n_scored, self.n_unscored, *self.reward_range)

    @property
    def metrics(self) -> dict[str, float | None]:
        """Mean of each function over the scored rollouts where it is defined."""
        return {name: total.mean for name, total in self._metrics.items()}

    def pass_at(self, k: int) -> float | None:
        """pass@k, averaged over examples with at least `k` scored rollouts; None unless rewards are 0/1."""
        return self._over_examples(pass_at_k, k)

    def pass_pow(self, k: int) -> float | None:
        """pass^k, averaged in the same way."""
        return self._over_examples(pass_pow_k, k)

    def _over_examples(self, estimate: Any, k: int) -> float | None:
        if not self.is_binary:
            return None
        values = [estimate(example.n, example.ones, k) for example in self._examples.values() if example.n >= k]
        return math.fsum(values) / len(values) if values else None

    @property
    def k_values(self) -> list[int]:
        """1, 2, 4, ... and the number of rollouts itself, as far as examples have that many scored."""
        most = max((example.n for example in self._examples.values()), default=0)
        powers = [1 << i for i in range(most.bit_length())]
        return sorted({*powers, most} - {0})

    @property
    def wall_s(self) -> float | None:
        """Given by the run, else from the first start to the last end of a rollout; None: not known."""
        if self._wall_s is not None or self._span is None:
            return self._wall_s
        return self._span[1] - self._span[0]

    @wall_s.setter
    def wall_s(self, seconds: float | None) -> None:
        self._wall_s = seconds

    @property
    def truncated_share(self) -> float | None:
        return self.truncated / self.n if self.n else None

    def to_json(self) -> dict[str, Any]:
        """The object that `vf-eval --json` prints."""
        usage, interval = self.usage, self.reward_ci95
        return {
            "run_dir": self.run_dir,
            "env": self.env,
            "model": self.model,
            "n": self.n,
            "n_scored": self.n_scored,
            "n_unscored": self.n_unscored,
            "unscored_by_kind": dict(sorted(self.unscored_by_kind.items())),
            "reward": self.reward,
            "reward_se": self.reward_se,
            "reward_ci95": None if interval is None else list(interval),
            "metrics": self.metrics,
            "tokens": {
                "prompt": usage.prompt_tokens,
                "completion": usage.completion_tokens,
                "total": usage.total_tokens,
            },
            "wall_s": self.wall_s,
        }

    def totals(self) -> dict[str, Any]:
        """Everything, for the run's metadata and for reports."""
        limits = self.reward_bounds
        shown = {key: value for key, value in self.to_json().items() if key not in ("run_dir", "env", "model")}
        return {
            **shown,
            "n_examples": self.n_examples,
            "reward_bounds": None if limits is None else list(limits),
            "pass_at_k": {str(k): self.pass_at(k) for k in self.k_values} if self.is_binary else None,
            "pass_pow_k": {str(k): self.pass_pow(k) for k in self.k_values} if self.is_binary else None,
            "first_messages": dict(sorted(self.first_messages.items())),
            "stop_reasons": dict(sorted(self.stop_reasons.items())),
            "truncated_share": self.truncated_share,
            "cost_usd": self.usage.cost_usd,
        }


def summarise(records: Iterable[Record], metadata: Mapping[str, Any] | None = None, *, run_dir: str = "") -> Summary:
    """The summary of these records; names, wall time and the reward's range are taken from the run's metadata."""
    known = metadata or {}
    totals = known.get("totals")
    wall_s = cast(Mapping[str, Any], totals).get("wall_s") if isinstance(totals, Mapping) else None
    limits = known.get("reward_range")
    summary = Summary(
        run_dir=run_dir,
        env=str(known.get("env") or ""),
        model=str(known.get("model") or ""),
        wall_s=wall_s if isinstance(wall_s, int | float) else None,
        reward_range=(float(limits[0]), float(limits[1])) if isinstance(limits, list | tuple) else None,
    )
    for record in records:
        summary.add(record)
    return summary


def _written_reward(record: Record) -> float | None:
    """The reward that the functions gave a rollout which broke elsewhere; None: one of them is missing."""
    partial = record.error.partial if record.error is not None else None
    if not partial or not record.weights or any(name not in partial for name in record.weights):
        return None
    return math.fsum(weight * partial[name] for name, weight in record.weights.items())
