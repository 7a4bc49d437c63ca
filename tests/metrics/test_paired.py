"""Two runs: differences, intervals that cover, p-values that are right, and nothing made of nothing."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from evenhand.metrics import icat, preference
from evenhand.metrics.intervals import Measure, Resampling, averaged, ratio
from evenhand.metrics.paired import difference, holm, permuted
from evenhand.records import Metric

NATS = Metric(name="x", unit="nats", neutral=0, text="")
QUICK = Resampling(draws=999)


def over(values, names=None):
    """The mean of one value per cluster."""
    return averaged(NATS, values, names or [f"c{i:03}" for i in range(len(values))])


def test_a_difference_by_hand():
    found = difference(over([1, 2, 3, 4]), over([2, 2, 5, 9]), QUICK)
    assert (found.first, found.second, found.value) == (2.5, 4.5, 2.0)
    assert (found.clusters, found.left_out, found.reason) == (4, 0, None)
    assert found.interval.low < 2 < found.interval.high
    # Of 16 swaps, those with 1, 2, 5 on one side are as large; the cluster without a change goes either way: 4 of 16.
    assert found.p == 4 / 16
    assert found.test == "exact sign-flip permutation"


def test_clusters_that_only_one_run_has_are_left_out_and_counted():
    first = over([1.0, 2.0, 30.0, math.nan], list("abcd"))
    second = over([2.0, 4.0, 50.0], list("abe"))
    found = difference(first, second, QUICK)
    assert (found.first, found.second, found.value) == (1.5, 3.0, 1.5)
    assert (found.clusters, found.left_out) == (2, 2)


def test_the_clusters_are_matched_by_name_not_by_place():
    first = over([1, 2, 3, 4, 5], list("abcde"))
    second = over([5, 4, 3, 2, 1], list("edcba"))
    assert difference(first, second, QUICK).value == 0
    assert difference(first, second, QUICK).p == 1


@pytest.mark.parametrize("n", [1, 2, 40])
def test_a_run_against_itself_is_no_difference(n):
    values = np.random.default_rng(n).normal(size=n)
    found = difference(over(values), over(values), QUICK)
    assert (found.value, found.p) == (0, 1)
    assert found.interval[:3] == (None, None, None)
    assert "equal" in found.interval.reason


def test_a_constant_shift_has_no_interval_and_says_why():
    found = difference(over([1.0, 2.0, 3.0]), over([1.5, 2.5, 3.5]), QUICK)
    assert found.value == 0.5
    assert found.interval.low is None
    assert "same value" in found.interval.reason


def test_one_cluster_is_no_test():
    found = difference(over([1.0]), over([2.0]), QUICK)
    assert (found.value, found.p) == (1, None)
    assert "one cluster" in found.test
    assert "one cluster" in found.interval.reason


@pytest.mark.parametrize("second", [over([]), over([math.nan] * 3), over([1.0, 2.0], ["x", "y"])])
def test_nothing_shared_is_null_with_a_reason(second):
    found = difference(over([1.0, 2.0, 3.0]), second, QUICK)
    assert (found.value, found.p, found.interval.low) == (None, None, None)
    assert found.reason


def test_a_statistic_that_is_not_defined_is_null_and_the_other_value_is_told():
    def undefined_below(column, axis=-1):
        total = column.sum(axis=axis)
        return np.where(total < 0, np.nan, total)

    names = list("abc")
    first, second = (
        Measure(metric=NATS, statistic=undefined_below, clusters=names, columns=[np.array(v, dtype=float)], n=3)
        for v in ([1, 2, 3], [-9, 1, 2])
    )
    found = difference(first, second, QUICK)
    assert (found.first, found.second, found.value, found.p) == (6, None, None, None)
    assert found.reason


def test_no_draws_no_interval_and_no_random_test():
    rng = np.random.default_rng(1)
    found = difference(over(rng.normal(size=30)), over(rng.normal(size=30)), Resampling(draws=0))
    assert (found.p, found.interval.low) == (None, None)
    assert "turned off" in found.test
    few = difference(over(rng.normal(size=5)), over(rng.normal(size=5)), Resampling(draws=0))
    assert few.p is not None


def test_the_sign_flips_with_the_order_of_the_runs():
    rng = np.random.default_rng(2)
    one, two = over(rng.normal(size=40)), over(rng.normal(0.5, size=40))
    there, back = difference(one, two, QUICK), difference(two, one, QUICK)
    assert there.value == -back.value
    assert there.p == back.p
    assert (there.interval.low, there.interval.high) == pytest.approx((-back.interval.high, -back.interval.low))


def test_exchanging_the_groups_flips_every_sign():
    rng = np.random.default_rng(3)
    logs = [rng.normal(-4, 1, size=(50, 4)) for _ in range(2)]
    female, male = [0, 1], [2, 3]

    def of(rows, ours, theirs):
        return over(preference.likelihood_diff(rows[:, ours], rows[:, theirs]))

    plain = difference(of(logs[0], female, male), of(logs[1], female, male), QUICK)
    swapped = difference(of(logs[0], male, female), of(logs[1], male, female), QUICK)
    assert (swapped.first, swapped.second) == pytest.approx((-plain.first, -plain.second))
    assert swapped.value == pytest.approx(-plain.value)
    assert swapped.p == plain.p


@pytest.mark.parametrize("n", [2, 5, 8, 11])
def test_an_exact_p_is_scipys(n):
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=n), rng.normal(0.7, size=n)

    def statistic(x, y, axis):
        return y.mean(axis=axis) - x.mean(axis=axis)

    expected = stats.permutation_test(
        (a, b), statistic, permutation_type="samples", n_resamples=np.inf, vectorized=True
    )
    found = difference(over(a), over(b), QUICK)
    assert found.p == pytest.approx(expected.pvalue)


def test_a_random_p_is_near_the_exact_one(monkeypatch):
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=12), rng.normal(0.6, size=12)
    exact = difference(over(a), over(b), QUICK).p
    monkeypatch.setattr("evenhand.metrics.paired.EXACT_CLUSTERS", 2)
    found = difference(over(a), over(b), Resampling(draws=9999))
    assert found.test == "sign-flip permutation"
    assert found.p == pytest.approx(exact, abs=0.015)


def test_a_random_p_is_never_zero_and_the_seed_is_kept():
    one, two = over(np.zeros(50)), over(np.arange(50) + 5.0)
    assert difference(one, two, Resampling(draws=99)).p == 1 / 100
    rng = np.random.default_rng(5)
    one, two = over(rng.normal(size=50)), over(rng.normal(0.2, size=50))
    assert difference(one, two, QUICK) == difference(one, two, QUICK)
    assert difference(one, two, QUICK).p != difference(one, two, Resampling(draws=999, seed=1)).p


def test_clusters_of_several_rows_are_swapped_whole():
    first = averaged(NATS, [1, 1, 1, 2], list("aaab"))
    second = averaged(NATS, [3, 3, 3, 4], list("aaab"))
    # Four arrangements: +-(9 - 3) +- (4 - 2), over 4 rows; two of them are as large as what was seen.
    assert difference(first, second, QUICK).p == 0.5


def test_a_ratio_of_means_over_terms_is_swapped_term_by_term():
    rng = np.random.default_rng(6)
    targets = [f"t{i % 7}" for i in range(35)]
    one, two = (icat.columns(rng.normal(size=(35, 3)), targets) for _ in range(2))
    found, _ = permuted(icat.icat, one, two, QUICK)
    seen = float(icat.icat(*two) - icat.icat(*one))
    as_large = 0
    for swaps in itertools.product([False, True], repeat=7):
        swap = np.array(swaps)
        a = [np.where(swap, y, x) for x, y in zip(one, two, strict=True)]
        b = [np.where(swap, x, y) for x, y in zip(one, two, strict=True)]
        as_large += abs(icat.icat(*b) - icat.icat(*a)) >= abs(seen) - 1e-9
    assert found == as_large / 2**7


def test_a_95_percent_interval_of_the_difference_covers_about_95_times_in_100():
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(200):
        common = rng.normal(size=60)
        one, two = common + rng.normal(0, 0.5, size=60), common + 0.3 + rng.normal(0, 0.5, size=60)
        found = difference(over(one), over(two), QUICK).interval
        hits += found.low <= 0.3 <= found.high
    assert 181 <= hits <= 198


def test_p_is_below_5_percent_about_5_times_in_100_where_nothing_differs():
    rng = np.random.default_rng(8)
    hits = 0
    for _ in range(300):
        common = rng.normal(size=40)
        one, two = (common + rng.normal(size=40) for _ in range(2))
        hits += difference(over(one), over(two), Resampling(draws=199)).p < 0.05
    assert 5 <= hits <= 27


def test_paired_runs_are_told_apart_where_separate_intervals_overlap():
    rng = np.random.default_rng(9)
    common = rng.normal(0, 3, size=100)
    one, two = over(common), over(common + 0.3 + rng.normal(0, 0.2, size=100))
    found = difference(one, two, QUICK)
    assert found.p < 0.01
    assert 0 < found.interval.low < 0.3 < found.interval.high


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([None, 0.03, None, 0.02]) == pytest.approx([None, 0.04, None, 0.04])
    assert holm([]) == []
    assert holm([0.2]) == [0.2]


def test_holm_never_turns_the_order_around_and_never_lowers():
    rng = np.random.default_rng(10)
    raw = rng.random(50).tolist()
    found = holm(raw)
    order = np.argsort(raw)
    assert (np.diff(np.array(found)[order]) >= 0).all()
    assert all(a >= b for a, b in zip(found, raw, strict=True))
    assert min(found) == pytest.approx(min(1, 50 * min(raw)))


def test_a_measure_over_rows_without_a_value():
    found = averaged(NATS, [1.0, math.nan, 3.0], ["a", "b", "a"])
    assert (found.clusters, found.n, found.n_undefined) == (["a"], 2, 1)
    assert found.statistic is ratio
