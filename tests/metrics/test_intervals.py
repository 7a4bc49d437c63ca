"""Intervals: coverage, clusters, exact ends, and null with a reason where there is nothing to say."""

import math

import numpy as np
import pytest
from scipy import stats

from evenhand.metrics import intervals
from evenhand.metrics.intervals import Measure, Resampling
from evenhand.records import Metric, reading

NATS = Metric(name="x", unit="nats", neutral=0, below="down", above="up", text="")
SHARE = Metric(name="x", unit="share", neutral=0.5, below="down", above="up", text="")
QUICK = Resampling(draws=999)


def drawn(rng, clusters=40, spread=1.0, noise=1.0):
    """Rows of uneven clusters with a common effect each; the true mean is 0."""
    names, values = [], []
    for cluster in range(clusters):
        effect = rng.normal(0, spread)
        for _ in range(rng.integers(1, 6)):
            names.append(f"c{cluster}")
            values.append(effect + rng.normal(0, noise))
    return values, names


def ends(estimate):
    return estimate.ci_low, estimate.ci_high


def test_the_value_is_the_mean_over_rows_not_over_clusters():
    found = intervals.mean(NATS, [1.0, 1.0, 1.0, 5.0], ["a", "a", "a", "b"], QUICK)
    assert found.value == 2.0
    assert (found.n, found.n_undefined) == (4, 0)


def test_sums_per_cluster_by_hand():
    sums, counts = intervals.cluster_sums([1, 2, math.nan, 4, math.nan], ["b", "a", "a", "b", "c"])
    assert sums.tolist() == [2, 5]
    assert counts.tolist() == [1, 2]


def test_a_95_percent_interval_covers_the_truth_about_95_times_in_100():
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(200):
        low, high = ends(intervals.mean(NATS, *drawn(rng), QUICK))
        hits += low <= 0 <= high
    assert 180 <= hits <= 198


def test_many_clusters_agree_with_the_cluster_robust_standard_error():
    values, names = drawn(np.random.default_rng(3), clusters=400)
    found = intervals.mean(NATS, values, names, Resampling(draws=4999))
    mean = sum(values) / len(values)
    residuals = {}
    for value, name in zip(values, names, strict=True):
        residuals[name] = residuals.get(name, 0.0) + value - mean
    error = math.sqrt(sum(r * r for r in residuals.values())) / len(values)
    assert found.interval == "bca cluster bootstrap"
    assert found.ci_low == pytest.approx(mean - 1.96 * error, abs=0.2 * error)
    assert found.ci_high == pytest.approx(mean + 1.96 * error, abs=0.2 * error)


def test_a_wider_level_is_a_wider_interval():
    values, names = drawn(np.random.default_rng(5))
    low, high = ends(intervals.mean(NATS, values, names, Resampling(draws=999, level=0.99)))
    inner_low, inner_high = ends(intervals.mean(NATS, values, names, Resampling(draws=999, level=0.80)))
    assert low < inner_low < inner_high < high


def test_correlated_rows_are_not_independent_rows():
    values, names = drawn(np.random.default_rng(11), spread=3.0, noise=0.1)
    low, high = ends(intervals.mean(NATS, values, names, QUICK))
    naive_low, naive_high = ends(intervals.mean(NATS, values, [str(i) for i in range(len(values))], QUICK))
    assert high - low > 1.4 * (naive_high - naive_low)


def test_rows_said_twice_within_their_cluster_add_nothing():
    values, names = drawn(np.random.default_rng(13))
    once = intervals.mean(NATS, values, names, QUICK)
    twice = intervals.mean(NATS, values * 2, names * 2, QUICK)
    assert ends(twice) == pytest.approx(ends(once))
    assert twice.n == 2 * once.n


def test_same_seed_same_interval_and_order_of_rows_is_nothing():
    values, names = drawn(np.random.default_rng(17))
    first = intervals.mean(NATS, values, names, QUICK)
    assert intervals.mean(NATS, values, names, QUICK) == first
    assert ends(intervals.mean(NATS, values[::-1], names[::-1], QUICK)) == pytest.approx(ends(first))
    other = intervals.mean(NATS, values, names, Resampling(draws=999, seed=1))
    assert other.value == first.value
    assert ends(other) != ends(first)


@pytest.mark.parametrize("n", [1, 2, 30, 351])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_share_of_none_or_all_has_an_exact_interval(n, value):
    names = [str(i) for i in range(n)]
    found = intervals.mean(SHARE, [value] * n, names, QUICK)
    expected = stats.binomtest(int(value) * n, n).proportion_ci(0.95, method="exact")
    by_hand = (0, 1 - 0.025 ** (1 / n)) if value == 0 else (0.025 ** (1 / n), 1)
    assert found.interval == "clopper-pearson"
    assert ends(found) == pytest.approx((expected.low, expected.high))
    assert ends(found) == pytest.approx(by_hand)


def test_an_exact_interval_counts_clusters_not_their_rows():
    found = intervals.mean(SHARE, [1.0] * 10, list("aabbccddee"), QUICK)
    assert found.ci_low == pytest.approx(0.025 ** (1 / 5))
    assert found.n == 10


def test_a_number_that_is_no_share_has_no_exact_interval():
    found = intervals.mean(NATS, [0.0] * 5, list("abcde"), QUICK)
    assert ends(found) == (None, None)


@pytest.mark.parametrize(
    ("values", "names", "reason"),
    [
        ([1.0, 2.0], ["a", "a"], "one cluster"),
        ([0.1] * 7, list("abbbccd"), "same value"),
        ([-1.2033] * 30, [str(i % 7) for i in range(30)], "same value"),
        ([0.0, 1.0, 1.0, 0.0], ["a", "a", "b", "b"], "same value"),
    ],
)
def test_no_interval_has_a_reason(values, names, reason):
    for metric in (NATS, SHARE):
        found = intervals.mean(metric, values, names, QUICK)
        assert found.value == pytest.approx(np.mean(values))
        assert ends(found) == (None, None)
        assert found.interval is None
        assert reason in found.reason


@pytest.mark.parametrize(("values", "undefined"), [([], 0), ([math.nan, math.nan], 2)])
def test_no_rows_no_value_and_never_zero(values, undefined):
    found = intervals.mean(NATS, values, ["a"] * len(values), QUICK)
    assert found.value is None
    assert (found.n, found.n_undefined) == (0, undefined)
    assert found.reason
    assert found.reading == ""


def test_undefined_rows_are_counted_and_left_out():
    names = [str(i) for i in range(20)]
    values = [float(i) for i in range(20)]
    whole = intervals.mean(NATS, values, names, QUICK)
    holed = intervals.mean(NATS, [*values, math.nan], [*names, "other"], QUICK)
    assert (holed.n, holed.n_undefined) == (20, 1)
    assert (holed.value, ends(holed)) == (whole.value, ends(whole))


@pytest.mark.parametrize("metric", [NATS, SHARE])
def test_no_draws_no_interval(metric):
    for values in ([0.0, 1.0, 1.0], [1.0, 1.0, 1.0]):
        found = intervals.mean(metric, values, list("abc"), Resampling(draws=0))
        assert (found.value, *ends(found)) == (pytest.approx(np.mean(values)), None, None)
        assert found.reason == "intervals are turned off"


@pytest.mark.parametrize(
    ("value", "low", "high", "words"),
    [
        (-1, -2, -0.5, "down"), (1, 0.5, 2, "up"), (1, -0.1, 2, "no clear lean"), (0, None, None, "neutral"),
        (-1, None, None, "down"),
    ],
)  # fmt: skip
def test_which_way_a_number_leans(value, low, high, words):
    assert reading(NATS, value, low, high) == words


@pytest.mark.parametrize(
    ("column", "ends_"), [(0.0, (0, 100 * (1 - 0.025 ** (1 / 4)))), (3.0, (100 * 0.025**0.25, 100))]
)
def test_a_proportion_in_percent_of_none_or_all_has_an_exact_interval(column, ends_):
    measure = Measure(
        metric=NATS, statistic=lambda a, n, axis=-1: 100 * (a / n).mean(axis=axis), clusters=list("abcd"),
        columns=[np.full(4, column), np.full(4, 3.0)], n=12, whole=100.0,
    )  # fmt: skip
    found = intervals.estimated(measure, QUICK)
    assert ends(found) == pytest.approx(ends_)
    assert found.interval == "clopper-pearson"
    assert ends(intervals.estimated(measure, Resampling(draws=0))) == (None, None)


def test_measures_become_estimates_over_all_and_by_group():
    whole = intervals.averaged(NATS, [1.0, 2.0, math.nan, 6.0], list("abca"))
    parts = [intervals.averaged(NATS, [value], ["a"], {"kind": kind}) for kind, value in (("x", 1.0), ("y", math.nan))]
    assert {name: e.value for name, e in intervals.estimates([whole, *parts], QUICK).items()} == {"x": 3.0}
    first, second = intervals.groups([whole, *parts], QUICK)
    assert (first.by, first.n, first.metrics["x"].value) == ({"kind": "x"}, 1, 1.0)
    assert (second.by, second.n, second.metrics["x"].value) == ({"kind": "y"}, 1, None)
