"""Two runs on the same items: the difference of a statistic, its interval, and a p-value.

Whole clusters are drawn for the interval, both runs' columns of a cluster together. The p-value is that of a sign-flip
permutation test: if the two runs were alike, swapping their columns within a cluster would change nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.metrics.intervals import Floats, Interval, Measure, Resampling, Statistic, bootstrap, ratio

EXACT_CLUSTERS = 12
CELLS = 4_000_000
NORMAL_CLUSTERS = 2000
"""Clusters from which a mean of one value each is as good as normal, and a bootstrap of them only slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The second run minus the first, over the clusters both have.

    Attributes:
        first: the first run's value over the shared clusters.
        second: the second run's.
        value: `second - first`; None, with `reason`, where either is not defined.
        interval: bounds and method, or the reason why there are none.
        p: two-sided, of the hypothesis that the runs are alike; None where there is nothing to swap.
        test: how `p` was made, or why there is none.
        clusters: shared clusters.
        left_out: clusters that only one run has.
    """

    first: float | None
    second: float | None
    value: float | None
    interval: Interval
    p: float | None
    test: str
    clusters: int
    left_out: int
    reason: str | None


def difference(first: Measure, second: Measure, how: Resampling) -> Difference:
    """The difference of one measure between two runs.

    Args:
        first: the measure on the first run, the baseline.
        second: the same on the second run.
        how: draws, seed, level, of the interval and of the permutation test.
    """
    shared = sorted(set(first.clusters) & set(second.clusters))
    one, two = _aligned(first, shared), _aligned(second, shared)
    counts = {"clusters": len(shared), "left_out": len(set(first.clusters) ^ set(second.clusters))}
    nothing = Interval(None, None, None, "no difference to say")
    if not shared:
        return Difference(
            first=None, second=None, value=None, interval=nothing, p=None, test="none",
            reason="the runs share no row with a value", **counts,
        )  # fmt: skip
    statistic = first.statistic  # a measure's statistic is the same function for every run
    values = [float(statistic(*columns, axis=-1)) for columns in (one, two)]
    known = [value if np.isfinite(value) else None for value in values]
    if None in known:
        return Difference(
            first=known[0], second=known[1], value=None, interval=nothing, p=None, test="none",
            reason="not defined on the rows that both runs have", **counts,
        )  # fmt: skip
    k = len(one)

    def changed(*columns: Floats, axis: int = -1) -> Floats:
        found: Floats = statistic(*columns[k:], axis=axis) - statistic(*columns[:k], axis=axis)
        return found

    p: float | None
    if all(np.array_equal(a, b) for a, b in zip(one, two, strict=True)):
        interval, p, test = Interval(None, None, None, "the two runs are equal here"), 1.0, "equal runs"
    elif statistic is ratio and len(shared) > NORMAL_CLUSTERS and all((c == 1).all() for c in (one[1], two[1])):
        interval, p, test = _normal(two[0] - one[0], how)
    else:
        interval = bootstrap(changed, [*one, *two], how)
        p, test = permuted(statistic, one, two, how)
    return Difference(
        first=known[0], second=known[1], value=values[1] - values[0], interval=interval, p=p, test=test, reason=None,
        **counts,
    )  # fmt: skip


def _normal(changes: Floats, how: Resampling) -> tuple[Interval, float, str]:
    """Interval and p-value of the mean of many changes by the normal law; p is the limit of the permutation test's."""
    from scipy.special import ndtr, ndtri

    n = len(changes)
    half = float(ndtri((1 + how.level) / 2)) * float(changes.std(ddof=1)) / n**0.5
    middle = float(changes.mean())
    p = 2 * float(ndtr(-abs(changes.sum()) / np.sqrt((changes**2).sum())))
    interval = Interval(middle - half, middle + half, "normal", None)
    if half == 0:
        interval = Interval(None, None, None, "every resample gives the same value")
    return interval, p, "sign-flip permutation, normal limit"


def _aligned(measure: Measure, names: Sequence[str]) -> list[Floats]:
    """The columns of these clusters, in this order."""
    place = {name: i for i, name in enumerate(measure.clusters)}
    index = np.array([place[name] for name in names], dtype=np.intp)
    return [np.asarray(column)[index] for column in measure.columns]


def permuted(
    statistic: Statistic, first: Sequence[Floats], second: Sequence[Floats], how: Resampling
) -> tuple[float | None, str]:
    """Two-sided p-value of the difference when the two runs' columns are swapped cluster by cluster.

    All swaps are tried for up to 12 clusters, where p is exact; else `how.draws` random ones, the observed arrangement
    counted among them, so that p is never 0. Arrangements in which the statistic is not defined are left out.

    Args:
        statistic: function of the columns, vectorised over the last axis.
        first: the first run's columns, each of shape (clusters,).
        second: the second run's.
        how: draws and seed.

    Returns:
        p, None where there is nothing to swap, and the name of the test or the reason.
    """
    n = len(first[0])
    if n < 2:
        return None, "one cluster: nothing to swap"
    if n > EXACT_CLUSTERS and how.draws == 0:
        return None, "resampling is turned off"
    observed = abs(float(statistic(*second, axis=-1)) - float(statistic(*first, axis=-1)))
    # What differs by rounding only is as large.
    least = observed - 1e-10 * max(1.0, observed)
    as_large = total = 0
    rng = np.random.default_rng(how.seed)
    exact = n <= EXACT_CLUSTERS
    size = 2**n if exact else how.draws
    batch = max(1, CELLS // (n * len(first)))
    for start in range(0, size, batch):
        rows = min(batch, size - start)
        if exact:
            swap: NDArray[np.bool_] = (np.arange(start, start + rows)[:, None] >> np.arange(n)) & 1 == 1
        else:
            swap = rng.random((rows, n)) < 0.5
        with np.errstate(invalid="ignore", divide="ignore"):
            one = statistic(*(np.where(swap, b, a) for a, b in zip(first, second, strict=True)), axis=-1)
            two = statistic(*(np.where(swap, a, b) for a, b in zip(first, second, strict=True)), axis=-1)
        there = np.abs(two - one)
        there = there[np.isfinite(there)]
        as_large += int((there >= least).sum())
        total += len(there)
    if exact:
        return as_large / total, "exact sign-flip permutation"
    return (as_large + 1) / (total + 1), "sign-flip permutation"


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction (Holm 1979) of a family of p-values; None stays None and is not counted."""
    order = sorted((p, i) for i, p in enumerate(values) if p is not None)
    corrected: list[float | None] = [None] * len(values)
    least = 0.0
    for rank, (p, i) in enumerate(order):
        least = max(least, min(1.0, (len(order) - rank) * p))
        corrected[i] = least
    return corrected
