"""Intervals for `evenhand.metrics.gaps`: stratified bootstrap from cell counts, score intervals per class.

A mean of absolute or squared gaps is never below 0 and, by sampling noise alone, above it even where both groups are
treated alike; a percentile interval would never hold 0, since each draw adds its own noise to the sample's. So these
are bootstrapped on squares, reflected ("basic"): twice the value's square minus the draws' quantiles, which takes the
noise's square away, cut at 0 and widened to hold the value. It is exact in expectation for `rms` (squares of noise add
up) and for `mean_abs` where there is no gap.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand.metrics import gaps
from evenhand.metrics.gaps import Cells, Counts, Floats
from evenhand.metrics.intervals import Interval, Resampling, exact, mean
from evenhand.records import Estimate, Metric, reading

Statistic = Callable[[Cells], Floats]
SIZES = (gaps.gap_rms, gaps.gap_abs, gaps.fpr_gap_rms, gaps.fpr_gap_abs)
BY_CLASS = (gaps.gap_rms, gaps.gap_abs, gaps.gap_share_correlation)
BOOTSTRAPPED = 2000
"""Rows up to which a mean of row values is bootstrapped; beyond, its distribution is normal to every digit shown."""


def estimates(statistics: Mapping[Metric, Statistic], counts: Counts, how: Resampling) -> dict[str, Estimate]:
    """Values and intervals of statistics of one `gaps.table`; all of them share the draws.

    `n_undefined` of the true positive gaps' statistics is the number of classes with support but without a gap.
    """
    found = gaps.cells(counts)
    drawn = gaps.draws(counts, how.draws, np.random.default_rng(how.seed)) if how.draws else None
    n = int(counts.sum())
    gapless = int(np.isnan(gaps.gap(gaps.tpr(found)))[gaps.supported(found)].sum())
    with np.errstate(invalid="ignore"):
        made = {
            metric.name: _estimate(metric, float(statistic(found)), _interval(statistic, found, drawn, how), n, how)
            for metric, statistic in statistics.items()
        }
    by_class = [metric.name for metric, statistic in statistics.items() if statistic in BY_CLASS]
    return made | {name: replace(made[name], n_undefined=gapless) for name in by_class}


def _estimate(metric: Metric, value: float, interval: Interval, n: int, how: Resampling, reason: str = "") -> Estimate:
    card: dict[str, Any] = {"neutral": metric.neutral, "best": metric.best, "unit": metric.unit, "level": how.level}
    if not np.isfinite(value):
        why = reason or "no class has rows of both groups, or there are too few classes"
        return Estimate(value=None, n=n, reason=why, **card)
    return Estimate(
        value=value, ci_low=interval.low, ci_high=interval.high, interval=interval.method, n=n,
        reading=reading(metric, value, interval.low, interval.high), reason=interval.reason, **card,
    )  # fmt: skip


def _interval(statistic: Statistic, found: Cells, drawn: Cells | None, how: Resampling) -> Interval:
    if drawn is None:
        return Interval(None, None, None, "intervals are turned off")
    value = float(statistic(found))
    if value in (0, 1) and statistic in (gaps.accuracy, gaps.balanced_accuracy):
        # As many rows as would give a plain share the variance that the mean over classes has.
        support = found.support.sum(axis=0)[gaps.supported(found)]
        rows = support.sum() if statistic is gaps.accuracy else len(support) ** 2 / (1 / support).sum()
        return exact(int(value) * int(rows), int(rows), how.level)
    values = statistic(drawn)
    values = values[np.isfinite(values)]
    tail = (1 - how.level) / 2
    if not np.isfinite(value) or not values.size or np.ptp(values) <= 1e-12:
        return Interval(None, None, None, "every resample gives the same value")
    if statistic in SIZES:
        low, high = 2 * value**2 - np.quantile(values**2, [1 - tail, tail])
        ends = np.sqrt(np.maximum([low, high], 0))
        return Interval(
            float(min(ends[0], value)), float(max(ends[1], value)), "basic bootstrap of squares, by strata", None
        )
    low, high = np.quantile(values, [tail, 1 - tail])
    return Interval(float(low), float(high), "percentile bootstrap, by strata", None)


def share(metric: Metric, successes: int, n: int, how: Resampling, reason: str) -> Estimate:
    """A share with its Wilson interval; null with the reason where there are no rows."""
    low, high = _wilson(successes, n, how.level)
    interval = Interval(low, high, "wilson", None)
    return _estimate(metric, successes / n if n else float("nan"), interval, n, how, reason)


def difference(metric: Metric, parts: tuple[int, int], wholes: tuple[int, int], how: Resampling, why: str) -> Estimate:
    """Second share minus first, with Newcombe's interval from the two Wilson ones (1998, method 10).

    Args:
        metric: its card.
        parts: successes of the first and second group.
        wholes: their rows.
        how: the level.
        why: the reason where one of the groups has no rows.
    """
    n = sum(wholes)
    if not all(wholes):
        return _estimate(metric, float("nan"), Interval(None, None, None, why), n, how, why)
    first, second = (part / whole for part, whole in zip(parts, wholes, strict=True))
    (low1, high1), (low2, high2) = (_wilson(p, w, how.level) for p, w in zip(parts, wholes, strict=True))
    value = second - first
    low = value - np.hypot(second - low2, high1 - first)
    high = value + np.hypot(high2 - second, first - low1)
    return _estimate(metric, value, Interval(float(low), float(high), "newcombe", None), n, how)


def _wilson(successes: int, n: int, level: float) -> tuple[float, float]:
    if n == 0:
        return 0.0, 1.0
    from scipy.special import ndtri

    z = float(ndtri((1 + level) / 2))
    p = successes / n
    middle, half = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    whole = 1 + z * z / n
    return max(0.0, float((middle - half) / whole)), min(1.0, float((middle + half) / whole))


def row_mean(metric: Metric, values: ArrayLike | None, how: Resampling, reason: str) -> Estimate:
    """The mean of one value per row: bootstrapped over rows up to `BOOTSTRAPPED` of them, else by the normal law.

    Args:
        metric: its card; a share has values 0 and 1, and is exact (Clopper-Pearson) where all of them are alike.
        values: shape (rows,), or None.
        how: draws, seed, level.
        reason: why there are none.
    """
    if values is None:
        return _estimate(metric, float("nan"), Interval(None, None, None, reason), 0, how, reason)
    column = np.asarray(values, dtype=np.float64)
    n = len(column)
    if n <= BOOTSTRAPPED or not how.draws:
        return mean(metric, column, [str(i) for i in range(n)], how)
    value = float(column.mean())
    if metric.unit == "share" and value in (0, 1):
        return _estimate(metric, value, exact(int(value) * n, n, how.level), n, how)
    if metric.unit == "share":
        low, high = _wilson(round(column.sum()), n, how.level)
        return _estimate(metric, value, Interval(low, high, "wilson", None), n, how)
    if np.ptp(column) == 0:
        return _estimate(metric, value, Interval(None, None, None, "every resample gives the same value"), n, how)
    from scipy.special import ndtri

    half = float(ndtri((1 + how.level) / 2)) * float(column.std(ddof=1)) / n**0.5
    return _estimate(metric, value, Interval(value - half, value + half, "normal", None), n, how)
