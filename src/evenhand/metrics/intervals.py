"""Intervals: a bootstrap over whole clusters, exact where a proportion is 0 or 1, null with a reason elsewhere.

Rows that share a cluster (an occupation, a target term) are not independent, so whole clusters are drawn. A
statistic is a function of per-cluster columns, vectorised over the last axis, as in `scipy.stats.bootstrap`.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.records import Estimate, Metric, reading

Floats = NDArray[np.float64]
Statistic = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Resampling:
    """How intervals are made: `draws` resamples (0 turns them off), seeded, at `level`."""

    draws: int = 9999
    seed: int = 0
    level: float = 0.95


class Interval(NamedTuple):
    """Bounds and the method's name, or None and the reason."""

    low: float | None
    high: float | None
    method: str | None
    reason: str | None


def cluster_sums(values: ArrayLike, clusters: Sequence[str]) -> tuple[Floats, Floats]:
    """Sum and number of the defined (not NaN) values per cluster, clusters in sorted order.

    Returns:
        Two arrays of shape (clusters,); clusters without a defined value are left out.
    """
    column = np.asarray(values, dtype=np.float64)
    _, index = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    defined = ~np.isnan(column)
    size = index.max(initial=-1) + 1
    counts = np.bincount(index[defined], minlength=size).astype(np.float64)
    sums = np.bincount(index[defined], weights=column[defined], minlength=size).astype(np.float64)
    return sums[counts > 0], counts[counts > 0]


def ratio(numerator: Floats, denominator: Floats, axis: int = -1) -> Any:
    """Mean over rows from cluster sums and counts."""
    return numerator.sum(axis=axis) / denominator.sum(axis=axis)


def bootstrap(statistic: Statistic, columns: Sequence[Floats], how: Resampling) -> Interval:
    """BCa interval of `statistic(*columns)` over clusters, percentile where BCa is not defined.

    Args:
        statistic: function of the columns, vectorised over the last axis (keyword `axis`).
        columns: arrays of shape (clusters,).
        how: draws, seed, level.
    """
    n = len(columns[0])
    if how.draws == 0:
        return Interval(None, None, None, "intervals are turned off")
    if n < 2:
        return Interval(None, None, None, "one cluster: nothing to resample")
    from scipy import stats

    def resampled(method: str) -> tuple[float, float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", stats.DegenerateDataWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            ends = stats.bootstrap(
                tuple(columns), statistic, paired=True, vectorized=True, n_resamples=how.draws, method=method,
                batch=max(1, 4_000_000 // n), confidence_level=how.level, rng=np.random.default_rng(how.seed),
            ).confidence_interval  # fmt: skip
        return float(ends.low), float(ends.high)

    for method, name in (("BCa", "bca"), ("percentile", "percentile")):
        low, high = resampled(method)
        rounding = 1e-12 * max(1.0, abs(low), abs(high))
        if np.isfinite(low) and np.isfinite(high) and high - low > rounding:
            return Interval(low, high, f"{name} cluster bootstrap", None)
    return Interval(None, None, None, "every resample gives the same value")


def exact(successes: int, n: int, level: float) -> Interval:
    """Clopper-Pearson interval of a proportion: for 0 and 1, where a bootstrap would have no width."""
    from scipy import stats

    ends = stats.binomtest(successes, n).proportion_ci(level, method="exact")
    return Interval(float(ends.low), float(ends.high), "clopper-pearson", None)


def estimate(
    metric: Metric,
    statistic: Statistic,
    columns: Sequence[Floats],
    how: Resampling,
    *,
    n: int,
    n_undefined: int = 0,
    interval: Interval | None = None,
) -> Estimate:
    """The metric's value and interval from per-cluster columns.

    Args:
        metric: its card.
        statistic: see `bootstrap`.
        columns: arrays of shape (clusters,); empty ones give null.
        how: draws, seed, level.
        n: rows the value stands on.
        n_undefined: rows left out because they have no value.
        interval: use this one in place of the bootstrap's.
    """
    card = {"neutral": metric.neutral, "best": metric.best, "unit": metric.unit, "level": how.level}
    if len(columns[0]) == 0:
        return Estimate(value=None, n=n, n_undefined=n_undefined, reason="no row has a value", **card)  # type: ignore[arg-type]
    value = float(statistic(*columns, axis=-1))
    if not np.isfinite(value):
        return Estimate(value=None, n=n, n_undefined=n_undefined, reason="not defined on these rows", **card)  # type: ignore[arg-type]
    found = interval or bootstrap(statistic, columns, how)
    return Estimate(
        value=value, ci_low=found.low, ci_high=found.high, interval=found.method, n=n, n_undefined=n_undefined,
        reading=reading(metric, value, found.low, found.high), reason=found.reason, **card,  # type: ignore[arg-type]
    )  # fmt: skip


def mean(metric: Metric, values: ArrayLike, clusters: Sequence[str], how: Resampling) -> Estimate:
    """The mean over rows, its interval over clusters; a share that is exactly 0 or 1 gets an exact interval.

    Args:
        metric: its card.
        values: shape (rows,); NaN where a row has none.
        clusters: each row's cluster, shape (rows,).
        how: draws, seed, level.
    """
    column = np.asarray(values, dtype=np.float64)
    undefined = int(np.isnan(column).sum())
    columns = cluster_sums(column, clusters)
    defined = column[~np.isnan(column)]
    interval = None
    if metric.unit == "share" and how.draws and defined.size and (np.all(defined == 0) or np.all(defined == 1)):
        interval = exact(len(columns[0]) * int(defined[0]), len(columns[0]), how.level)
    return estimate(metric, ratio, columns, how, n=len(column) - undefined, n_undefined=undefined, interval=interval)
