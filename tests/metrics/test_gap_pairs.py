"""Two classifiers on the same rows, against row-by-row counting and against the general paired comparison."""

import numpy as np
import pytest

from evenhand.metrics import gaps
from evenhand.metrics.gap_pairs import Tally, class_gap
from evenhand.metrics.intervals import Resampling, averaged
from evenhand.metrics.paired import difference
from evenhand.records import Metric

SHARE = Metric(name="x", unit="share", best=1, text="")
NAMES = np.array(["dj", "nurse", "poet", "surgeon"])
QUICK = Resampling(draws=1999)
STATISTICS = [
    gaps.accuracy, gaps.balanced_accuracy, gaps.balanced_accuracy_ovr, gaps.macro_f1, gaps.gap_rms, gaps.gap_abs,
    gaps.fpr_gap_rms, gaps.fpr_gap_abs, gaps.gap_share_correlation,
]  # fmt: skip


def rows(n=400, seed=0, skill=(0.7, 0.8)):
    """Groups, true classes, and two classifiers that are right this often."""
    rng = np.random.default_rng(seed)
    groups, labels = rng.integers(0, 2, n), rng.integers(0, 4, n)
    guesses = [np.where(rng.random(n) < p, labels, rng.integers(0, 4, n)) for p in skill]
    return groups, labels, guesses


def tally(groups, labels, guess, statistic):
    return Tally(metric=SHARE, statistic=statistic, groups=groups, labels=NAMES[labels], predictions=NAMES[guess])


def pair(statistic, **how):
    groups, labels, guesses = rows(**how)
    return [tally(groups, labels, guess, statistic) for guess in guesses]


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda one: one.__name__)
def test_the_values_are_each_run_s_own(statistic):
    groups, labels, guesses = rows()
    one, two = (tally(groups, labels, guess, statistic) for guess in guesses)
    found = one.against(two, QUICK)
    own = [float(statistic(gaps.cells(gaps.table(labels, guess, groups, 4)))) for guess in guesses]
    assert [found.first, found.second] == pytest.approx(own)
    assert found.value == pytest.approx(own[1] - own[0])
    assert found.interval.low < found.value < found.interval.high
    back = two.against(one, QUICK)
    assert back.value == -found.value
    assert back.p == pytest.approx(found.p, abs=0.03)


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda one: one.__name__)
def test_a_run_against_itself(statistic):
    one, _ = pair(statistic)
    found = one.against(one, QUICK)
    assert (found.value, found.p, found.interval.low) == (0, 1, None)
    assert "equal" in found.interval.reason


def test_accuracy_is_the_mean_over_rows_of_the_general_comparison():
    groups, labels, guesses = rows()
    one, two = (tally(groups, labels, guess, gaps.accuracy) for guess in guesses)
    found = one.against(two, QUICK)
    names = [f"r{i:04}" for i in range(len(labels))]
    general = difference(*(averaged(SHARE, labels == guess, names) for guess in guesses), QUICK)
    assert found.value == pytest.approx(general.value)
    assert found.p == pytest.approx(general.p, abs=0.01)
    assert found.interval.low == pytest.approx(general.interval.low, abs=0.012)
    assert found.interval.high == pytest.approx(general.interval.high, abs=0.012)


def test_swapped_tables_are_counted_row_by_row():
    groups, labels, (first, second) = rows(60)
    one = tally(groups, labels, first, gaps.gap_rms)
    found = one.against(tally(groups, labels, second, gaps.gap_rms), QUICK)
    rng = np.random.default_rng(1)
    changes = []
    for _ in range(1999):
        swap = rng.random(60) < 0.5
        both = np.where(swap, second, first), np.where(swap, first, second)
        a, b = (float(gaps.gap_rms(gaps.cells(gaps.table(labels, guess, groups, 4)))) for guess in both)
        changes.append(abs(b - a))
    assert found.p == pytest.approx(np.mean(np.array(changes) >= abs(found.value) - 1e-9), abs=0.04)


def test_a_class_that_only_one_run_predicts_is_no_stumbling_block():
    names = np.array(["nurse"] * 6 + ["surgeon"] * 6)
    groups = [0, 1] * 6
    one = Tally(metric=SHARE, statistic=gaps.balanced_accuracy, groups=groups, labels=names, predictions=names)
    other = np.where(np.arange(12) == 3, "acrobat", names)
    two = Tally(metric=SHARE, statistic=gaps.balanced_accuracy, groups=groups, labels=names, predictions=other)
    assert one.against(two, QUICK).value == pytest.approx(-1 / 12)


def test_a_gap_that_is_not_defined_is_null_with_a_reason():
    names = ["nurse"] * 4
    one, two = (
        Tally(metric=SHARE, statistic=class_gap, groups=[1] * 4, labels=names, predictions=[*names[1:], last])
        for last in ("nurse", "surgeon")
    )
    found = one.against(two, QUICK)
    assert (found.first, found.value, found.p) == (None, None, None)
    assert found.reason


def test_intervals_cover_and_p_values_are_uniform():
    truth, hits, small = 0.1 * 0.75, 0, 0
    for seed in range(150):
        one, two = pair(gaps.accuracy, n=300, seed=seed)
        found = one.against(two, Resampling(299, seed))
        hits += found.interval.low <= truth <= found.interval.high
        one, two = pair(gaps.gap_abs, n=300, seed=seed, skill=(0.7, 0.7))
        small += one.against(two, Resampling(199, seed)).p < 0.05
    assert 134 <= hits <= 149
    assert 1 <= small <= 17


def test_many_rows_take_the_normal_law_and_agree_with_the_bootstrap(monkeypatch):
    rng = np.random.default_rng(2)
    one = rng.normal(size=3000)
    two = one + rng.normal(0.03, 1, size=3000)
    names = [f"r{i:04}" for i in range(3000)]
    quick = difference(averaged(SHARE, one, names), averaged(SHARE, two, names), QUICK)
    assert (quick.interval.method, quick.test) == ("normal", "sign-flip permutation, normal limit")
    monkeypatch.setattr("evenhand.metrics.paired.NORMAL_CLUSTERS", 9999)
    slow = difference(averaged(SHARE, one, names), averaged(SHARE, two, names), Resampling(499))
    assert quick.value == slow.value
    assert quick.p == pytest.approx(slow.p, abs=0.05)
    assert [quick.interval.low, quick.interval.high] == pytest.approx([slow.interval.low, slow.interval.high], abs=0.01)
