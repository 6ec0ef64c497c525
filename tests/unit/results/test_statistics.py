"""Statistics: published values, and None wherever there is no answer."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from verifiers.results import stats
from verifiers.results.stats import Interval, Paired

A = [1.0, 1, 1, 1, 0, 1, 0, 1, 1, 0]
B = [1.0, 0, 1, 0, 0, 1, 0, 1, 0, 0]


def test_mean_leaves_out_what_is_not_there():
    assert stats.mean([0.5, None, math.nan, 0.8, 0.6, 0.7]) == pytest.approx(0.65)
    assert stats.mean([]) is None
    assert stats.mean([None]) is None


def test_one_value_has_no_standard_error():
    assert stats.stderr([1.0]) is None
    assert stats.stderr_binary(1, 1) is None
    assert stats.clustered_stderr([("a", 1.0), ("a", 0.0)]) is None


def test_binary_standard_error_is_that_of_the_values():
    """A published table showed exactly 0.0 here."""
    assert stats.stderr_binary(307, 14) == pytest.approx(0.011926108038528825)
    assert stats.stderr([1.0] * 14 + [0.0] * 293) == pytest.approx(0.011926108038528825)


def test_clusters_of_one_and_equal_clusters():
    values = [0.2, 0.9, 0.4, 0.7]
    assert stats.clustered_stderr(enumerate(values)) == pytest.approx(stats.stderr(values))

    pairs = [(i // 3, random.Random(i).random()) for i in range(30)]
    means = stats.example_means(pairs)
    assert stats.clustered_stderr(pairs) == pytest.approx(stats.stderr(means.values()))


def test_copies_of_a_rollout_add_no_certainty():
    """Repeating each rollout leaves the clustered error as it is; the naive one would shrink."""
    once = [(i, float(i % 3 == 0)) for i in range(20)]
    assert stats.clustered_stderr(once * 5) == pytest.approx(stats.clustered_stderr(once))


def test_t_values():
    """Against the usual tables."""
    for freedom, expected in [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (19, 2.093), (999, 1.962)]:
        assert stats.t_value(freedom) == pytest.approx(expected, rel=4e-3)
    assert stats.t_value(4, 0.99) == pytest.approx(4.604, rel=2e-2)


def test_wilson():
    assert stats.wilson(3, 3) == pytest.approx((0.438503, 1.0), abs=1e-6)
    assert stats.wilson(0, 10) == pytest.approx((0.0, 0.277533), abs=1e-6)
    assert stats.wilson(0, 0) is None


def test_clustered_wilson_is_wilson_for_independent_trials():
    p, n = 14 / 307, 307
    assert stats.wilson_clustered(p, n, n, stats.stderr_binary(n, 14)) == pytest.approx(stats.wilson(14, n))
    assert stats.wilson_clustered(1.0, 12, 3, 0.0) == stats.wilson(3, 3)
    assert stats.wilson_clustered(0.5, 8, 1, None) is None


@pytest.mark.parametrize("examples", [3, 5, 10])
@pytest.mark.parametrize("alike", [0.0, 0.3, 0.7, 1.0])
def test_a_clustered_interval_covers_the_truth_with_few_examples(examples: int, alike: float):
    """Eight rollouts an example, success rates of examples from a beta distribution with intra-class correlation
    `alike`: the share of samples whose 95% interval has the true rate."""
    draw, truth, covered = random.Random(5), 0.5, 0
    for _ in range(400):
        if alike in (0.0, 1.0):
            rates = [truth if alike == 0 else float(draw.random() < truth) for _ in range(examples)]
        else:
            spread = truth * (1 - alike) / alike
            rates = [draw.betavariate(spread, spread) for _ in range(examples)]
        solved = [sum(draw.random() < rate for _ in range(8)) for rate in rates]
        se = stats.stderr_of_sums((8, float(count)) for count in solved)
        interval = stats.wilson_clustered(sum(solved) / (8 * examples), 8 * examples, examples, se)
        assert interval is not None
        covered += interval.low <= truth <= interval.high

    assert covered / 400 >= 0.91


def test_no_spread_is_no_interval():
    assert stats.mean_interval(0.5, 0.0, 10) is None
    assert stats.mean_interval(0.5, 0.1, 11) == pytest.approx((0.5 - 0.2228, 0.5 + 0.2228), abs=1e-3)


def test_bounds():
    assert stats.bounds(1.0, 2, 1, 0.0, 1.0) == Interval(1 / 3, 2 / 3)
    assert stats.bounds(0.0, 0, 2, -1.0, 1.0) == Interval(-1.0, 1.0)
    assert stats.bounds(0.0, 0, 0, 0.0, 1.0) is None


def test_pass_at_k():
    assert stats.pass_at_k(8, 3, 2) == pytest.approx(0.6428571428571428)
    assert stats.pass_at_k(5, 0, 10) is None
    assert stats.pass_pow_k(8, 3, 4) == 0.0
    assert stats.pass_pow_k(8, 4, 2) == pytest.approx(6 / 28)


@pytest.mark.parametrize("estimate", [stats.pass_at_k, stats.pass_pow_k])
@pytest.mark.parametrize("successes", [-1, 6])
def test_no_share_outside_the_samples(estimate, successes):
    with pytest.raises(ValueError, match="cannot be correct"):
        estimate(5, successes, 2)


def test_pass_at_k_is_what_counting_all_draws_gives():
    for n, c, k in itertools.product(range(1, 7), range(7), range(1, 7)):
        if c <= n and k <= n:
            draws = list(itertools.combinations([1] * c + [0] * (n - c), k))
            assert stats.pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))
            assert stats.pass_pow_k(n, c, k) == pytest.approx(sum(map(all, draws)) / len(draws))


def test_paired_difference():
    found = stats.paired_difference(A, B)
    assert found is not None
    assert found == pytest.approx(Paired(0.3, 0.152753, 0.223607, 10), abs=1e-6)
    assert stats.paired_difference([*A, None, 1.0], [*B, 1.0, math.nan]) == found
    assert stats.paired_difference([None], [1.0]) is None
    assert stats.paired_difference([1.0], [0.5]) == Paired(0.5, None, None, 1)


def test_mcnemar():
    assert stats.mcnemar_exact(A, B) == 0.25
    assert stats.mcnemar_exact(A, A) == 1.0
    assert stats.mcnemar_exact([], []) is None


def test_newcombe():
    found = stats.newcombe_difference(92, 100, 82, 100)
    assert found == pytest.approx((-0.1, -0.195, -0.006), abs=1e-3)
    assert stats.newcombe_difference(0, 0, 1, 2) is None


def test_sample_size():
    assert stats.n_for_mde(1 / 9, 0, 0, 1, 1, 0.03) == 969
    assert stats.n_for_mde(1 / 9, 1 / 6, 1 / 6, 10, 10, 0.03) == 1260
    assert stats.n_for_mde(1 / 9, 0, 0, 1, 1, 0) is None
    assert stats.stderr_binary_mean(20, 2, 0.5) == pytest.approx(0.079057, abs=1e-6)


def test_group_mean_has_the_error_of_the_same_mean():
    equal = stats.group_mean([0.5, 0.9], [0.01, 0.05], [1000, 100], weight_by_size=False)
    assert equal == pytest.approx((0.7, 0.025495), abs=1e-6)
    sized = stats.group_mean([0.5, 0.9], [0.01, 0.05], [1000, 100], weight_by_size=True)
    assert sized == pytest.approx((590 / 1100, math.hypot(0.01 * 10 / 11, 0.05 / 11)))
    assert stats.group_mean([0.5, 0.9], [0.01, None], [1, 1], weight_by_size=False) == (0.7, None)
    assert stats.group_mean([], [], [], weight_by_size=True) is None


def test_gate():
    assert stats.gate([0.4], [0.0]) == "insufficient_data"
    assert stats.gate([1.0] * 5, [0.0] * 5) == "insufficient_data"
    assert stats.gate(A, B) == "no_difference"
    assert stats.gate(A * 4, B * 4) == "better"
    assert stats.gate(B * 4, A * 4) == "worse"
