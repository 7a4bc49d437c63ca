"""Gaps against scikit-learn, fairlearn and hand calculations; intervals against what is known of them."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.metrics import gap_intervals, gaps
from evenhand.metrics.intervals import Resampling
from evenhand.records import Metric

BEST0 = Metric(name="m", unit="probability", text="", best=0)
SHARE = Metric(name="m", unit="share", text="", best=1)
SIGNED = Metric(name="m", unit="share", text="", neutral=0)
HOW = Resampling(draws=999)
STATISTICS = (
    gaps.balanced_accuracy, gaps.balanced_accuracy_ovr, gaps.accuracy, gaps.macro_f1, gaps.gap_rms, gaps.gap_abs,
    gaps.fpr_gap_rms, gaps.fpr_gap_abs, gaps.gap_share_correlation,
)  # fmt: skip


def named(*functions):
    return {Metric(name=f.__name__, unit="share", text="", best=0): f for f in functions}


def rows(seed, n, k, right=0.6, lean=0.0):
    """Labels, predictions and groups drawn at random; `lean` makes the second group's rates higher."""
    rng = np.random.default_rng(seed)
    y, g = rng.integers(0, k, n), rng.integers(0, 2, n)
    p = np.where(rng.random(n) < right + lean * (g - 0.5), y, rng.integers(0, k, n))
    return y, p, g


TABLES = st.integers(1, 5).flatmap(
    lambda k: st.tuples(
        st.just(k),
        st.lists(st.tuples(st.integers(0, k - 1), st.integers(0, k - 1), st.integers(0, 1)), min_size=1, max_size=60),
    )
)


def cells(y, p, g, k):
    return gaps.cells(gaps.table(y, p, g, k))


@given(TABLES)
@settings(max_examples=60, deadline=None)
def test_every_metric_is_scikit_learn_s_and_fairlearn_s(drawn):
    metrics = pytest.importorskip("sklearn.metrics")
    fairlearn = pytest.importorskip("fairlearn.metrics")
    k, table = drawn
    y, p, g = (np.array(column) for column in zip(*table, strict=True))
    c = cells(y, p, g, k)
    there = np.unique(y)
    recall = metrics.recall_score(y, p, labels=there, average=None, zero_division=np.nan)
    assert gaps.balanced_accuracy(c) == pytest.approx(recall.mean())
    assert gaps.accuracy(c) == pytest.approx(metrics.accuracy_score(y, p))
    f1 = metrics.f1_score(y, p, labels=there, average="macro", zero_division=0)
    assert gaps.macro_f1(c) == pytest.approx(f1)
    tprs, fprs = [], []
    for one in there:
        true, said = (y == one).astype(int), (p == one).astype(int)
        parts = {0: g == 0, 1: g == 1}
        frame = fairlearn.MetricFrame(
            metrics={
                "tpr": lambda a, b: b[a == 1].mean() if (a == 1).any() else np.nan,
                "fpr": lambda a, b: b[a == 0].mean() if (a == 0).any() else np.nan,
            },
            y_true=true, y_pred=said, sensitive_features=list(g) if len(g) > 1 else {"g": g},
        ).by_group  # fmt: skip
        rate = {i: frame.loc[i] if part.any() else {"tpr": np.nan, "fpr": np.nan} for i, part in parts.items()}
        tprs.append(rate[1]["tpr"] - rate[0]["tpr"])
        fprs.append(rate[1]["fpr"] - rate[0]["fpr"])
    for values, rms, mean in ((tprs, gaps.gap_rms, gaps.gap_abs), (fprs, gaps.fpr_gap_rms, gaps.fpr_gap_abs)):
        defined = np.array([v for v in values if not np.isnan(v)])
        if defined.size:
            assert rms(c) == pytest.approx(np.sqrt((defined**2).mean()))
            assert mean(c) == pytest.approx(np.abs(defined).mean())
        else:
            assert np.isnan(rms(c)) and np.isnan(mean(c))
    if len(there) > 1:
        specificity = [((y != one) & (p != one)).sum() / (y != one).sum() for one in there]
        assert gaps.balanced_accuracy_ovr(c) == pytest.approx(((recall + specificity) / 2).mean())


def test_three_classes_by_hand():
    # class 0: men 2 of 4 right, women 3 of 4; class 1: men 1 of 1, women 0 of 2; class 2: one man, right; no woman
    y = [0] * 8 + [1] * 3 + [2]
    g = [0] * 4 + [1] * 4 + [0, 1, 1] + [0]
    p = [0, 0, 1, 2, 0, 0, 0, 1, 1, 0, 0, 2]
    c = cells(y, p, g, 3)
    np.testing.assert_allclose(gaps.tpr(c), [[0.5, 1, 1], [0.75, 0, np.nan]])
    np.testing.assert_allclose(gaps.gap(gaps.tpr(c)), [0.25, -1, np.nan])
    assert gaps.gap_rms(c) == pytest.approx(math.sqrt((0.0625 + 1) / 2))
    assert gaps.gap_abs(c) == pytest.approx(0.625)
    assert gaps.balanced_accuracy(c) == pytest.approx((5 / 8 + 1 / 3 + 1) / 3)
    # of the men's 2 rows of other classes none is given class 0, of the women's 2 both are
    np.testing.assert_allclose(gaps.fpr(c), [[0, 1 / 5, 1 / 5], [1, 1 / 4, 0]])
    np.testing.assert_allclose(gaps.share_second(c), [0.5, 2 / 3, 0])


def test_a_class_that_is_predicted_but_never_true_is_in_no_mean():
    with_it, without = (
        cells([0, 0, 1, 1], [0, 2, 1, 1], [0, 1, 0, 1], 3),
        cells([0, 0, 1, 1], [0, 1, 1, 1], [0, 1, 0, 1], 2),
    )
    assert gaps.balanced_accuracy(with_it) == gaps.balanced_accuracy(without) == 0.75
    assert gaps.gap_rms(with_it) == gaps.gap_rms(without)
    assert gaps.macro_f1(with_it) == pytest.approx((2 / 3 + 1) / 2)


def test_one_row_has_an_accuracy_and_no_gap():
    c = cells([0], [0], [1], 1)
    assert gaps.balanced_accuracy(c) == gaps.accuracy(c) == gaps.macro_f1(c) == 1
    for undefined in (
        gaps.gap_rms,
        gaps.gap_abs,
        gaps.fpr_gap_rms,
        gaps.gap_share_correlation,
        gaps.balanced_accuracy_ovr,
    ):
        assert np.isnan(undefined(c))
    found = gap_intervals.estimates(named(*STATISTICS), gaps.table([0], [0], [1], 1), HOW)
    assert found["gap_rms"].value is None and "no class has rows of both" in found["gap_rms"].reason
    assert found["gap_rms"].n_undefined == 1
    assert found["accuracy"].value == 1 and found["accuracy"].interval == "clopper-pearson"


def test_the_sign_flips_with_the_groups_and_sizes_do_not():
    y, p, g = rows(0, 500, 4, lean=0.3)
    a, b = cells(y, p, g, 4), cells(y, p, 1 - g, 4)
    np.testing.assert_allclose(gaps.gap(gaps.tpr(a)), -gaps.gap(gaps.tpr(b)))
    assert gaps.gap(gaps.tpr(a)).mean() > 0.1
    assert gaps.gap_rms(a) == pytest.approx(gaps.gap_rms(b)) and gaps.gap_rms(a) > 0.1
    assert gaps.gap_rms(a) >= gaps.gap_abs(a)


def test_the_correlation_is_numpy_s():
    rng = np.random.default_rng(1)
    k, n = 6, 3000
    y = rng.integers(0, k, n)
    g = (rng.random(n) < (y + 1) / 8).astype(int)
    p = np.where(rng.random(n) < 0.5 + 0.06 * y * (2 * g - 1), y, (y + 1) % k)
    c = cells(y, p, g, k)
    want = np.corrcoef(gaps.gap(gaps.tpr(c)), gaps.share_second(c))[0, 1]
    assert gaps.gap_share_correlation(c) == pytest.approx(want) and want > 0.8
    assert np.isnan(gaps.gap_share_correlation(cells([0, 0, 1, 1], [0, 0, 1, 1], [0, 1, 0, 1], 2)))


@pytest.mark.parametrize(
    "arguments", [([0], [0, 1], [0], 2), ([2], [0], [0], 2), ([0], [-1], [0], 2), ([0], [0], [2], 2)]
)
def test_rows_that_will_not_do(arguments):
    with pytest.raises(ValueError, match=r"shapes|a value is not in"):
        gaps.table(*arguments)


# --- counterfactuals


def test_counterfactual_metrics_by_hand():
    np.testing.assert_allclose(gaps.ctf([[0.9, 0.5], [0.3, 0.3]]), [0.04, 0])
    np.testing.assert_allclose(gaps.ctf([[0.0, 1.0]]), [0.25])
    np.testing.assert_allclose(gaps.ctf([[0.2, 0.4, 0.6]]), [np.var([0.2, 0.4, 0.6])])
    np.testing.assert_allclose(gaps.ctf_gap([[0.9, 0.5], [0.3, 0.4]]), [0.4, 0.1])
    np.testing.assert_array_equal(gaps.consistent([["a", "a"], ["a", "b"]]), [1, 0])
    np.testing.assert_array_equal(gaps.consistent([[1, 1, 1], [1, 1, 2]]), [1, 0])


# --- draws and intervals


def test_draws_keep_every_stratum_and_vary_as_a_multinomial_does():
    y, p, g = rows(2, 400, 3)
    table = gaps.table(y, p, g, 3)
    c = gaps.draws(table, 4000, np.random.default_rng(0))
    want = gaps.cells(table)
    assert c.hits.shape == (4000, 2, 3)
    np.testing.assert_array_equal(c.support, want.support)
    np.testing.assert_array_equal(c.predicted.sum(axis=-1), np.tile(want.support.sum(axis=-1), (4000, 1)))
    np.testing.assert_allclose(c.hits.mean(axis=0), want.hits, atol=0.5)
    rate = want.hits / want.support
    np.testing.assert_allclose(c.hits.var(axis=0), want.support * rate * (1 - rate), rtol=0.1)


def test_an_interval_is_that_of_a_bootstrap_over_rows():
    y, p, g = rows(3, 600, 4, lean=0.2)
    table = gaps.table(y, p, g, 4)
    found = gap_intervals.estimates(named(gaps.balanced_accuracy), table, Resampling(draws=4000))["balanced_accuracy"]
    rng = np.random.default_rng(5)
    strata = [np.flatnonzero((y == k) & (g == j)) for k in range(4) for j in range(2)]
    drawn = []
    for _ in range(2000):
        at = np.concatenate([rng.choice(stratum, len(stratum)) for stratum in strata])
        drawn.append(gaps.balanced_accuracy(cells(y[at], p[at], g[at], 4)))
    np.testing.assert_allclose([found.ci_low, found.ci_high], np.quantile(drawn, [0.025, 0.975]), atol=0.006)
    assert found.interval == "percentile bootstrap, by strata"


def test_without_a_gap_the_intervals_hold_0_and_with_one_they_do_not():
    fair = unfair = 0
    for seed in range(20):
        found = gap_intervals.estimates(named(*STATISTICS[4:8]), gaps.table(*rows(seed, 1500, 20), 20), Resampling(499))
        fair += all(estimate.ci_low == 0 < estimate.value <= estimate.ci_high for estimate in found.values())
        lean = gaps.table(*rows(seed, 1500, 20, lean=0.4), 20)
        found = gap_intervals.estimates(named(*STATISTICS[4:6]), lean, Resampling(499))
        unfair += all(0 < estimate.ci_low < estimate.value for estimate in found.values())
    assert fair >= 18 and unfair == 20


def test_the_interval_of_a_known_gap_holds_it_mostly():
    held = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        k, n = 10, 1000
        y, g = rng.integers(0, k, n), rng.integers(0, 2, n)
        rate = 0.6 + 0.1 * np.where(y % 2, 1, -1) * (2 * g - 1)  # every gap is 0.2 or -0.2
        p = np.where(rng.random(n) < rate, y, (y + 1) % k)
        found = gap_intervals.estimates(named(gaps.gap_rms), gaps.table(y, p, g, k), Resampling(499))["gap_rms"]
        held += found.ci_low <= 0.2 <= found.ci_high
    assert held >= 51


def test_shares_of_0_and_1_have_a_width():
    y = np.repeat(np.arange(4), [40, 40, 40, 4])
    table = gaps.table(y, y, np.arange(len(y)) % 2, 4)
    found = gap_intervals.estimates(named(*STATISTICS), table, HOW)
    assert found["accuracy"].ci_low < 1 == found["accuracy"].ci_high
    # the mean over classes is no surer than its smallest class lets it be
    assert found["balanced_accuracy"].ci_low < found["accuracy"].ci_low
    assert found["gap_rms"].value == 0 and found["gap_rms"].ci_low is None
    assert found["gap_rms"].reason == "every resample gives the same value"


def test_turned_off_and_seeded():
    table = gaps.table(*rows(4, 300, 3), 3)
    off = gap_intervals.estimates(named(*STATISTICS), table, Resampling(draws=0))
    assert all(e.ci_low is None and e.reason == "intervals are turned off" for e in off.values())
    first, again, other = (
        gap_intervals.estimates(named(*STATISTICS), table, Resampling(200, seed)) for seed in (0, 0, 1)
    )
    assert first == again != other


def test_a_share_s_interval_is_scipy_s_wilson():
    from scipy import stats

    for part, n in ((0, 5), (3, 7), (50, 50)):
        found = gap_intervals.share(SHARE, part, n, HOW, "")
        want = stats.binomtest(part, n).proportion_ci(0.95, method="wilson")
        assert (found.value, found.ci_low, found.ci_high) == pytest.approx((part / n, want.low, want.high), abs=1e-9)
    nothing = gap_intervals.share(SHARE, 0, 0, HOW, "no woman")
    assert nothing.value is None and nothing.reason == "no woman" and nothing.n == 0


def test_a_difference_is_newcombe_s_example():
    # Newcombe 1998 (Statistics in Medicine 17, 873), table II, method 10: 56/70 - 48/80, and 10/10 - 0/10
    found = gap_intervals.difference(SIGNED, (48, 56), (80, 70), HOW, "")
    assert (found.value, found.ci_low, found.ci_high) == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)
    found = gap_intervals.difference(SIGNED, (0, 10), (10, 10), HOW, "")
    assert (found.ci_low, found.ci_high) == pytest.approx((0.6075, 1.0), abs=1e-4)
    nothing = gap_intervals.difference(SIGNED, (1, 0), (3, 0), HOW, "no female row")
    assert nothing.value is None and nothing.reason == "no female row" and nothing.ci_low is None


def test_means_of_rows():
    rng = np.random.default_rng(0)
    small, large = rng.random(300) / 10, rng.random(30_000) / 10
    assert "bootstrap" in gap_intervals.row_mean(BEST0, small, HOW, "").interval
    found = gap_intervals.row_mean(BEST0, large, HOW, "")
    assert found.interval == "normal"
    half = 1.959964 * large.std(ddof=1) / math.sqrt(30_000)
    assert (found.ci_low, found.ci_high) == pytest.approx((large.mean() - half, large.mean() + half))
    for values in (np.ones(10), np.ones(5000)):
        assert gap_intervals.row_mean(SHARE, values, HOW, "").interval == "clopper-pearson"
    assert gap_intervals.row_mean(SHARE, (large > 0.05).astype(float), HOW, "").interval == "wilson"
    assert gap_intervals.row_mean(BEST0, np.zeros(5000), HOW, "").reason == "every resample gives the same value"
    nothing = gap_intervals.row_mean(BEST0, None, HOW, "none given")
    assert nothing.value is None and nothing.reason == "none given"


def test_two_thousand_draws_over_98_000_rows_are_quick():
    table = gaps.table(*rows(6, 98_000, 28), 28)
    gap_intervals.estimates(named(*STATISTICS), table, Resampling(10))
    times = []
    for _ in range(3):
        began = time.process_time()
        gap_intervals.estimates(named(*STATISTICS), gaps.table(*rows(6, 98_000, 28), 28), Resampling(2000))
        times.append(time.process_time() - began)
    assert min(times) < 2  # under 1 s on a machine that does nothing else; benchmarks/bios.py measures it
