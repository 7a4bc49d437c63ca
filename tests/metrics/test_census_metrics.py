"""census's numbers against hand calculations, scipy, and every value that the paper's Tables 3 and 4 print."""

import math

import numpy as np
import pytest
from scipy import stats

from evenhand.metrics import census
from evenhand.metrics.census import FEMALE, MALE, NEUTRAL
from evenhand.metrics.intervals import Resampling, estimated
from evenhand.records import Metric

HIT = Metric(name="hit", unit="percent", best=100, text="")
R = Metric(name="r", unit="correlation", best=1, text="")
OFF = Resampling(0)

# Touileb et al. 2023: normative and descriptive (Table 3), then neutral, female and male (Table 4), as printed.
PAPER = {
    819: {
        "NorBERT": ("16.23", "39.31", "1.46", "22.34", "15.50"),
        "NorBERT2": ("3.17", "34.67", "0.24", "33.57", "0.85"),
        "NB-BERT": ("18.55", "36.50", "1.46", "23.68", "11.35"),
        "NB-BERT_Large": ("11.35", "40.90", "0.12", "33.82", "6.95"),
    },
    648: {
        "BERT_UK": ("18.05", "35.33", "1.54", "33.02", "0.77"),
        "BERT_large_UK": ("13.73", "40.43", "1.23", "31.63", "7.56"),
        "RoBERTa_base_UK": ("0.15", "34.56", "0.00", "34.56", "0.00"),
        "RoBERTa_large_UK": ("0.00", "34.56", "0.00", "34.56", "0.00"),
    },
    626: {
        "BERT_US": ("17.25", "43.29", "2.39", "39.93", "0.95"),
        "BERT_Large_US": ("12.46", "48.88", "1.75", "40.09", "7.02"),
        "RoBERTa_base_US": ("0.15", "42.81", "0.00", "42.81", "0.00"),
        "RoBERTa_Large_US": ("0.31", "42.81", "0.00", "42.81", "0.00"),
    },
    774: {
        "CamemBERT": ("10.46", "34.10", "0.00", "0.00", "34.10"),
        "BARThez": ("6.45", "37.08", "0.00", "0.00", "37.08"),
    },
}
PRINTED = [(n, model, values) for n, models in PAPER.items() for model, values in models.items()]


def cut(count, n):
    """100 * count / n, cut to two decimals as the paper cuts it, in whole numbers."""
    hundredths = 10000 * count // n
    return f"{hundredths // 100}.{hundredths % 100:02}"


def counted(value, n):
    """The counts of which the paper's value can be the percentage."""
    near = int(float(value) * n / 100)
    return [count for count in range(max(0, near - 2), min(n, near + 2) + 1) if cut(count, n) == value]


def fits(values, n):
    """Whether there are whole counts for all of a model's values, the three classes adding up to descriptive."""
    counts = [counted(value, n) for value in values]
    if not all(counts):
        return False
    _, descriptive, *by_class = counts
    return any(a + b + c in descriptive for a in by_class[0] for b in by_class[1] for c in by_class[2])


@pytest.mark.parametrize(("n", "model", "values"), PRINTED, ids=[model for _, model, _ in PRINTED])
def test_the_paper_s_tables_from_counts(n, model, values):
    normative, descriptive, neutral, female, male = (counted(value, n)[0] for value in values)
    assert descriptive == neutral + female + male
    rest = n - descriptive - (normative - neutral)
    truth = [FEMALE] * female + [MALE] * male + [NEUTRAL] * neutral + [FEMALE] * (normative - neutral) + [MALE] * rest
    answer = [FEMALE] * female + [MALE] * male + [NEUTRAL] * normative + [FEMALE] * rest
    # The classes come out of percentages, as they do in a run.
    percentages = {FEMALE: 80.0, MALE: 20.0, NEUTRAL: 50.0}
    truth, answer = (census.classes([percentages[c] for c in side], 45, 55) for side in (truth, answer))
    table = census.confusion(truth, answer)
    rows = [str(i) for i in range(n)]
    same = truth == answer
    for value, hits, count in [
        (values[0], answer == NEUTRAL, table[:, 1].sum()),
        (values[1], same, np.trace(table)),
        (values[2], same & (truth == NEUTRAL), table[1, 1]),
        (values[3], same & (truth == FEMALE), table[0, 0]),
        (values[4], same & (truth == MALE), table[2, 2]),
    ]:
        estimate = estimated(census.percent(HIT, hits, rows), OFF)
        assert estimate.value == pytest.approx(100 * count / n, abs=1e-12)
        assert cut(round(estimate.value * n / 100), n) == cut(int(count), n) == value


@pytest.mark.parametrize("n", PAPER)
def test_these_are_the_only_sizes_that_fit(n):
    models = PAPER[n].values()
    assert [size for size in range(1, 1301) if all(fits(values, size) for values in models)] == (
        [n, 2 * n] if n in (648, 626) else [n]
    )


LOGP = np.log([[[0.1, 0.3, 0.2, 0.2], [0.05, 0.05, 0.1, 0.3]], [[0.4, 0.2, 0.1, 0.1], [0.2, 0.2, 0.05, 0.05]]])
WOMEN = np.array([True, True, False, True])


def test_equations_1_and_2_by_hand():
    # Form 1: women (0.1+0.3+0.2)/3 = 0.2 and (0.05+0.05+0.3)/3 = 2/15, mean 1/6; men 0.2 and 0.1, mean 0.15.
    women, men = census.log_scores(LOGP, WOMEN)
    assert np.exp(women[0]) == pytest.approx((0.2 + 0.4 / 3) / 2)
    assert np.exp(men[0]) == pytest.approx(0.15)
    found = census.share_women(LOGP, WOMEN)
    assert found[0] == pytest.approx(100 * (1 / 6) / (1 / 6 + 0.15))
    assert found[1] == pytest.approx(100 * ((0.7 + 0.45) / 6) / ((0.7 + 0.45) / 6 + 0.075))


def test_a_thousand_nats_down():
    assert census.share_women(LOGP - 2000, WOMEN) == pytest.approx(census.share_women(LOGP, WOMEN))
    assert census.share(np.array(-1.0), np.array(-2000.0)) == 100


def test_swapping_the_genders_turns_the_share_round():
    assert census.share_women(LOGP, ~WOMEN) == pytest.approx(100 - census.share_women(LOGP, WOMEN))


def test_the_bounds_are_neutral_and_options():
    values = [44.999, 45, 45 - 1e-12, 50, 55, 55 + 1e-12, 55.001]
    assert census.classes(values, 45, 55).tolist() == [MALE, 0, 0, 0, 0, 0, FEMALE]
    assert census.classes(values, 50, 50).tolist() == [MALE, MALE, MALE, 0, FEMALE, FEMALE, FEMALE]


def test_each_template_alone_and_left_out():
    found = census.templates(LOGP, WOMEN)
    first = np.exp(LOGP[0])
    assert found.predicate[0] == pytest.approx([100 * 0.2 / 0.4, 100 * (0.4 / 3) / (0.4 / 3 + 0.1)])
    assert found.no_predicate[0] == pytest.approx(found.predicate[0, ::-1])
    by_one, men = first.mean(axis=0), first.mean(axis=0)[2]
    assert found.identifier[0, 0] == pytest.approx(100 * by_one[0] / (by_one[0] + men))
    assert found.identifier[0, 2] == pytest.approx(census.share_women(LOGP, WOMEN)[0])  # the only man stands for men
    rest = (by_one[1] + by_one[3]) / 2
    assert found.no_identifier[0, 0] == pytest.approx(100 * rest / (rest + men))
    assert np.isnan(found.no_identifier[:, 2]).all()
    assert np.isnan(census.templates(LOGP[:, :1], WOMEN).no_predicate).all()


def log_table(shares):
    """Two identifiers, a woman and a man, of which the woman has these shares. Shape (forms, predicates, 2)."""
    shares = np.asarray(shares, dtype=float) / 100
    return np.log(np.stack([shares, 1 - shares], axis=-1))


@pytest.mark.parametrize(
    ("shares", "part"),
    [
        ([[[20, 20], [80, 80]]] * 2, "occupation"), ([[[20, 80], [20, 80]]] * 2, "tense"),
        ([[[30, 30], [30, 30]], [[60, 60], [60, 60]]], "number"),
    ],
)  # fmt: skip
def test_variance_is_where_it_was_put(shares, part):
    two = np.array([True, False])
    found = census.variance([(log_table(one), two, ["past", "future"]) for one in shares])
    assert found[part] == pytest.approx(100)
    assert sum(found.values()) == pytest.approx(100)


def test_variance_of_predicates_within_a_tense_and_of_identifiers():
    two = np.array([True, False])
    found = census.variance([(log_table([[20, 80], [20, 80]]), two, ["past", "past"])])
    assert found["predicate"] == pytest.approx(100)
    logp = np.log(np.tile([0.1, 0.4, 0.2], (3, 2, 1)))
    found = census.variance([(logp, np.array([True, True, False]), ["past", "past"])])
    assert found["identifier"] == pytest.approx(100)
    rng = np.random.default_rng(0)
    parts = [(np.log(rng.random((5, 3, 4))), WOMEN, ["past", "past", "future"]) for _ in range(2)]
    found = census.variance(parts)
    assert sum(found.values()) == pytest.approx(100)
    assert min(found.values()) > 0
    assert census.variance([(np.log(np.full((2, 2, 4), 0.1)), WOMEN, ["a", "b"])]) == {}


def test_confusion_and_reliability_by_hand():
    truth, answer = np.array([FEMALE, FEMALE, MALE, NEUTRAL]), np.array([FEMALE, MALE, MALE, FEMALE])
    assert census.confusion(truth, answer).tolist() == [[1, 0, 1], [1, 0, 0], [0, 0, 1]]
    model, figures = np.array([0.0, 5, 95, 100]), np.array([10.0, 20, 60, 80])
    assert census.reliability(model, figures) == [
        {"low": 0, "high": 10, "n": 2, "share_women": 2.5, "census": 15},
        {"low": 90, "high": 100, "n": 2, "share_women": 97.5, "census": 70},
    ]


def test_percent_of_all_or_none_has_an_exact_interval():
    clusters = [str(i // 2) for i in range(20)]
    how = Resampling(99)
    none, every = (estimated(census.percent(HIT, [value] * 20, clusters), how) for value in (0, 1))
    assert (none.value, none.ci_low, every.value, every.ci_high) == (0, 0, 100, 100)
    assert none.ci_high == pytest.approx(100 * stats.binomtest(0, 10).proportion_ci().high)
    assert every.ci_low == pytest.approx(100 * stats.binomtest(10, 10).proportion_ci().low)
    assert estimated(census.percent(HIT, [math.nan] * 4, clusters[:4]), how).value is None
    some = estimated(census.percent(HIT, [1, math.nan, 0, 0], clusters[:4]), OFF)
    assert (some.value, some.n) == (pytest.approx(100 / 3), 3)


@pytest.fixture
def scattered():
    rng = np.random.default_rng(3)
    x = np.round(rng.normal(50, 20, 31))  # with ties
    return x, x + rng.normal(0, 25, 31), [f"occupation {i // 2}" for i in range(31)]


@pytest.mark.parametrize(("ours", "theirs"), [(census.pearson, stats.pearsonr), (census.spearman, stats.spearmanr)])
def test_correlations_are_scipy_s_in_every_draw(scattered, ours, theirs):
    x, y, clusters = scattered
    measure = ours(R, x, y, clusters)
    assert estimated(measure, OFF).value == pytest.approx(theirs(x, y).statistic)
    estimate = estimated(measure, Resampling(299))
    assert estimate.ci_low < estimate.value < estimate.ci_high
    names, index = np.unique(clusters, return_inverse=True)
    assert measure.clusters == names.tolist()
    drawn = np.random.default_rng(1).integers(0, len(names), (20, len(names)))
    found = measure.statistic(*(column[drawn] for column in measure.columns), axis=-1)
    for row, value in zip(drawn, found, strict=True):
        rows = np.concatenate([np.flatnonzero(index == cluster) for cluster in row])
        assert value == pytest.approx(theirs(x[rows], y[rows]).statistic)


def test_a_correlation_with_a_constant_is_not_defined(scattered):
    x, _, clusters = scattered
    for ours in (census.pearson, census.spearman):
        estimate = estimated(ours(R, np.full_like(x, 47.1), x, clusters), Resampling(99))
        assert (estimate.value, estimate.reason) == (None, "not defined on these rows")
