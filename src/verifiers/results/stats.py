"""Statistics of evaluations as pure functions, each with its formula and source.

For summaries, comparisons and reports. The one rule: what is undefined is None - never nan, never 0.0 - and an unscored
value (None or nan) is in no mean.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import Literal, NamedTuple

_NORMAL = NormalDist()


class Interval(NamedTuple):
    low: float
    high: float


class Difference(NamedTuple):
    """B minus A, or A minus B, as the function says; the interval is at 95% unless asked otherwise."""

    delta: float
    low: float
    high: float


class Paired(NamedTuple):
    """A minus B over the same examples."""

    delta: float
    se_paired: float | None
    """Of the mean of the per-example differences; None with fewer than two examples."""
    se_unpaired: float | None
    """What it would be for two independent samples."""
    n: int
    """Examples that both have scored."""


class GroupMean(NamedTuple):
    mean: float
    se: float | None
    """None: the standard error of a group is not known."""


def defined(values: Iterable[float | None]) -> list[float]:
    """The values that are there: without None and nan."""
    return [value for value in values if value is not None and not math.isnan(value)]


def mean(values: Iterable[float | None]) -> float | None:
    """Arithmetic mean of the defined values; None if there are none."""
    there = defined(values)
    return math.fsum(there) / len(there) if there else None


def stderr(values: Iterable[float | None]) -> float | None:
    """Standard error of the mean of independent values: sqrt(sum (x - mean)^2 / (n (n - 1))).

    None for fewer than two. Miller 2024 (arXiv:2411.00640), with the unbiased variance.
    """
    return clustered_stderr(enumerate(values))


def clustered_stderr(samples: Iterable[tuple[Hashable, float | None]]) -> float | None:
    """Standard error of the mean of `(cluster, value)` pairs whose values depend on each other within a cluster.

    sqrt(C / (C - 1) * sum over clusters of (sum in the cluster of (x - mean))^2) / n, C clusters of n values in all.
    Rollouts of one example are a cluster. This is the clustered error of Miller 2024 (arXiv:2411.00640)
    with the usual small-sample factor C / (C - 1), so that clusters of one value give `stderr` exactly and equal
    clusters give the standard error of the cluster means. None for fewer than two clusters.
    """
    clusters: defaultdict[Hashable, list[float]] = defaultdict(list)
    for cluster, value in samples:
        clusters[cluster].extend(defined([value]))
    return stderr_of_sums((len(values), math.fsum(values)) for values in clusters.values() if values)


def stderr_of_sums(clusters: Iterable[tuple[int, float]]) -> float | None:
    """`clustered_stderr` from `(how many values, their sum)` of each cluster."""
    parts = list(clusters)
    n = sum(count for count, _ in parts)
    if len(parts) < 2:
        return None
    middle = math.fsum(total for _, total in parts) / n
    squares = math.fsum((total - count * middle) ** 2 for count, total in parts)
    return math.sqrt(len(parts) / (len(parts) - 1) * squares) / n


def stderr_binary(n: int, k: int) -> float | None:
    """Standard error of the share of `k` successes in `n` independent trials: sqrt(p (1 - p) / (n - 1)).

    Equal to `stderr` of the 0/1 values. None for fewer than two trials.
    """
    return None if n < 2 else math.sqrt(k / n * (1 - k / n) / (n - 1))


def stderr_binary_mean(tasks: int, samples: int, p: float) -> float | None:
    """Planning value: the standard error that `tasks * samples` independent trials with success rate `p` will have."""
    trials = tasks * samples
    return None if trials < 1 else math.sqrt(p * (1 - p) / trials)


def z_value(level: float = 0.95) -> float:
    """Two-sided normal quantile: 1.96 for 0.95."""
    return _NORMAL.inv_cdf((1 + level) / 2)


def t_value(freedom: int, level: float = 0.95) -> float:
    """Two-sided quantile of Student's t.

    Exact for 1 and 2 degrees of freedom, else the expansion of Abramowitz and Stegun 26.7.5 (relative error at the 0.95
    level: 0.12% at 3 degrees, below 0.002% from 8 on).
    """
    p = (1 + level) / 2
    if freedom == 1:
        return math.tan(math.pi * (p - 0.5))
    if freedom == 2:
        return (2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p)))
    z = _NORMAL.inv_cdf(p)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / freedom**power for power, term in enumerate(terms))


def mean_interval(middle: float, se: float | None, clusters: int, level: float = 0.95) -> Interval | None:
    """`middle` +- t * `se` with `clusters - 1` degrees of freedom.

    None without a standard error, and where it is 0: no spread seen is no evidence of none.
    """
    if not se or clusters < 2:
        return None
    half = t_value(clusters - 1, level) * se
    return Interval(middle - half, middle + half)


def wilson(k: float, n: float, level: float = 0.95) -> Interval | None:
    """Score interval for the share of `k` successes in `n` trials; fractions are fine. None for n = 0.

    Wilson 1927; stays inside 0..1 and has a width at 0 and n successes too.
    """
    if n <= 0:
        return None
    z, p = z_value(level), k / n
    scale = 1 + z * z / n
    middle = (p + z * z / (2 * n)) / scale
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / scale
    return Interval(0.0 if k <= 0 else max(0.0, middle - half), 1.0 if k >= n else min(1.0, middle + half))


def wilson_clustered(p: float, n: int, clusters: int, se: float | None, level: float = 0.95) -> Interval | None:
    """`wilson` for a share over dependent trials, with their effective number: (p (1 - p) / se^2 + 1) (t_n / t_C)^2, at
    most `n`; t_n and t_C are Student's t of n - 1 and of clusters - 1 degrees of freedom.

    `se` is the clustered standard error. Where it is 0, all trials of a cluster count as one. None for fewer than two
    clusters. Effective sample sizes in score intervals: Franco et al. 2019, J. Surv. Stat. Methodol. 7(3); the factor,
    because few clusters tell little of their own spread: Korn and Graubard 1998, Survey Methodology 24(2).
    """
    if clusters < 2 or se is None:
        return None
    effective = float(clusters)
    if se > 0:
        known = (t_value(n - 1, level) / t_value(clusters - 1, level)) ** 2
        effective = min(float(n), (p * (1 - p) / (se * se) + 1) * known)
    return wilson(p * effective, effective, level)


def bounds(total: float, n_scored: int, n_unscored: int, lowest: float, highest: float) -> Interval | None:
    """The mean, had every unscored rollout got the `lowest` and the `highest` reward. `total` sums the scored ones.

    Worst-case bounds of Horowitz and Manski 2000 (JASA 95(449)) for missing outcomes. None without any rollout.
    """
    n = n_scored + n_unscored
    if n == 0:
        return None
    return Interval((total + n_unscored * lowest) / n, (total + n_unscored * highest) / n)


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Chance that at least one of `k` draws, without replacement, from `n` samples with `c` correct is correct.

    1 - C(n - c, k) / C(n, k): unbiased, Chen et al. 2021 (arXiv:2107.03374). None for n < k.
    """
    _check_successes(n, c)
    if k < 1 or n < k:
        return None
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def _check_successes(n: int, c: int) -> None:
    if not 0 <= c <= n:
        raise ValueError(f"{c} of {n} samples cannot be correct")


def pass_pow_k(n: int, c: int, k: int) -> float | None:
    """Chance that all `k` draws are correct: C(c, k) / C(n, k).

    pass^k of Yao et al. 2024 (tau-bench, arXiv:2406.12045). None for n < k.
    """
    _check_successes(n, c)
    if k < 1 or n < k:
        return None
    return math.comb(c, k) / math.comb(n, k)


def paired_difference(a: Sequence[float | None], b: Sequence[float | None]) -> Paired | None:
    """Mean of A minus B over examples that both have; give the mean over the rollouts of each example.

    The paired standard error is that of the differences, Miller 2024 (arXiv:2411.00640), section 4.2. None if no
    example has both values.
    """
    both = [(x, y) for x, y in zip(a, b, strict=True) if defined([x]) and defined([y])]
    pairs = [(float(x), float(y)) for x, y in both if x is not None and y is not None]
    delta = mean([x - y for x, y in pairs])
    if delta is None:
        return None
    errors = [stderr([x for x, _ in pairs]), stderr([y for _, y in pairs])]
    there = defined(errors)
    unpaired = math.hypot(*there) if len(there) == 2 else None
    return Paired(delta, stderr([x - y for x, y in pairs]), unpaired, len(pairs))


def mcnemar_exact(a: Sequence[float | None], b: Sequence[float | None]) -> float | None:
    """Two-sided p-value that A and B solve the same examples equally often, for 0/1 values in pairs.

    Twice the binomial(m, 1/2) tail of the rarer of the m discordant kinds, at most 1. McNemar 1947, exact form. 1.0
    without discordant pairs, None without pairs.
    """
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if defined([x]) and defined([y])]
    if not pairs:
        return None
    only_a = sum(1 for x, y in pairs if x and not y)
    only_b = sum(1 for x, y in pairs if y and not x)
    discordant = only_a + only_b
    tail = sum(math.comb(discordant, i) for i in range(min(only_a, only_b) + 1))
    return min(1.0, 2 * tail / 2**discordant)


def newcombe_difference(k1: int, n1: int, k2: int, n2: int, level: float = 0.95) -> Difference | None:
    """Share 2 minus share 1 of two independent samples, with Newcombe's hybrid score interval.

    Newcombe 1998 (Stat. Med. 17:873-890), method 10. None if a sample is empty.
    """
    one, two = wilson(k1, n1, level), wilson(k2, n2, level)
    if one is None or two is None:
        return None
    p1, p2 = k1 / n1, k2 / n2
    delta = p2 - p1
    low = delta - math.hypot(p2 - two.low, one.high - p1)
    high = delta + math.hypot(two.high - p2, p1 - one.low)
    return Difference(delta, low, high)


def n_for_mde(
    omega2: float,
    sigma2_a: float,
    sigma2_b: float,
    k_a: int,
    k_b: int,
    delta: float,
    alpha: float = 0.05,
    power: float = 0.8,
) -> int | None:
    """Examples needed to see a true difference of `delta` in a paired comparison.

    (z_(alpha/2) + z_(1-power))^2 (omega2 + sigma2_a / k_a + sigma2_b / k_b) / delta^2, rounded up. Miller 2024
    (arXiv:2411.00640), section 5: `omega2` is the variance over examples of the difference of expected scores, `sigma2`
    the mean variance within an example, `k` the rollouts of each. None for delta = 0.
    """
    if delta == 0:
        return None
    z = _NORMAL.inv_cdf(1 - alpha / 2) + _NORMAL.inv_cdf(power)
    return math.ceil(z * z * (omega2 + sigma2_a / k_a + sigma2_b / k_b) / (delta * delta))


def group_mean(
    means: Sequence[float], ses: Sequence[float | None], sizes: Sequence[int], *, weight_by_size: bool
) -> GroupMean | None:
    """Mean over groups and the standard error of that same mean: sum w m, sqrt(sum w^2 se^2).

    Weights are equal, or in proportion to the sizes. None without groups.
    """
    total = sum(sizes) if weight_by_size else len(means)
    if not total:
        return None
    weights = [size / total for size in sizes] if weight_by_size else [1 / total] * len(means)
    middle = math.fsum(w * m for w, m in zip(weights, means, strict=True))
    known = defined(ses)
    if len(known) != len(means):
        return GroupMean(middle, None)
    return GroupMean(middle, math.sqrt(math.fsum((w * se) ** 2 for w, se in zip(weights, known, strict=True))))


Verdict = Literal["better", "worse", "no_difference", "insufficient_data"]


def gate(a: Sequence[float | None], b: Sequence[float | None], level: float = 0.95) -> Verdict:
    """Whether A is better than B on the same examples: the interval of the paired difference leaves out 0.

    `insufficient_data` for fewer than two shared examples, and when the differences show no spread to judge by.
    """
    paired = paired_difference(a, b)
    if paired is None or not paired.se_paired:
        return "insufficient_data"
    interval = mean_interval(paired.delta, paired.se_paired, paired.n, level)
    if interval is None:
        return "insufficient_data"
    if interval.low > 0:
        return "better"
    return "worse" if interval.high < 0 else "no_difference"


def example_means(samples: Iterable[tuple[Hashable, float | None]]) -> Mapping[Hashable, float | None]:
    """Mean over the scored rollouts of each example; None where none is scored."""
    examples: defaultdict[Hashable, list[float]] = defaultdict(list)
    for example, value in samples:
        examples[example].extend(defined([value]))
    return {example: mean(values) for example, values in examples.items()}
