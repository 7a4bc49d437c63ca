"""Intervals: a bootstrap over whole clusters, exact where a proportion is 0 or 1, null with a reason elsewhere.

Rows that share a cluster (an occupation, a target term) are not independent, so whole clusters are drawn. A
statistic is a function of per-cluster columns, vectorised over the last axis, as in `scipy.stats.bootstrap`.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.records import Estimate, Group, Metric, reading

Floats = NDArray[np.float64]
Statistic = Callable[..., Any]
ROUNDING = 1e-12


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measure:
    """A metric as a statistic of per-cluster columns: what an estimate is made of, and a comparison of two runs.

    Attributes:
        metric: its card.
        statistic: function of the columns, vectorised over the last axis (keyword `axis`).
        clusters: the clusters' names, sorted, each once.
        columns: arrays of shape (clusters,).
        n: rows the value stands on.
        n_undefined: rows left out because they have no value.
        by: the part of the items this is about, as in `Group`; empty for all of them.
        whole: the value of a proportion of 1, where the value is a proportion; at 0 and at 1 its interval is exact.
    """

    metric: Metric
    statistic: Statistic
    clusters: Sequence[str]
    columns: Sequence[Floats]
    n: int
    n_undefined: int = 0
    by: Mapping[str, str] = field(default_factory=dict)
    whole: float | None = None


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
        rounding = ROUNDING * max(1.0, abs(low), abs(high))
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


def averaged(
    metric: Metric, values: ArrayLike, clusters: Sequence[str], by: Mapping[str, str] | None = None
) -> Measure:
    """The mean over rows as a measure; a share is a proportion.

    Args:
        metric: its card.
        values: shape (rows,); NaN where a row has none.
        clusters: each row's cluster, shape (rows,).
        by: the part of the items that these rows are.
    """
    column = np.asarray(values, dtype=np.float64)
    defined = ~np.isnan(column)
    names = sorted({name for name, there in zip(clusters, defined, strict=True) if there})
    return Measure(
        metric=metric, statistic=ratio, clusters=names, columns=cluster_sums(column, clusters), n=int(defined.sum()),
        n_undefined=int((~defined).sum()), by=by or {}, whole=1.0 if metric.unit == "share" else None,
    )  # fmt: skip


def estimated(measure: Measure, how: Resampling) -> Estimate:
    """A measure's value and interval; a proportion of exactly 0 or 1 gets an exact interval over clusters."""
    interval, n, whole = None, len(measure.clusters), measure.whole
    if whole is not None and n and how.draws:
        share = float(measure.statistic(*measure.columns, axis=-1)) / whole
        if abs(share - round(share)) < ROUNDING and round(share) in (0, 1):
            ends = exact(n * round(share), n, how.level)
            assert ends.low is not None and ends.high is not None  # noqa: S101 - an exact interval has both ends
            interval = Interval(ends.low * whole, ends.high * whole, ends.method, None)
    return estimate(
        measure.metric, measure.statistic, measure.columns, how, n=measure.n, n_undefined=measure.n_undefined,
        interval=interval,
    )  # fmt: skip


def mean(metric: Metric, values: ArrayLike, clusters: Sequence[str], how: Resampling) -> Estimate:
    """`estimated` of `averaged`."""
    return estimated(averaged(metric, values, clusters), how)


def estimates(measures: Sequence[Measure], how: Resampling) -> dict[str, Estimate]:
    """Estimates over all items, by metric."""
    return {m.metric.name: estimated(m, how) for m in measures if not m.by}


def groups(measures: Sequence[Measure], how: Resampling) -> list[Group]:
    """Estimates over the parts of the items, in the order in which the measures name them."""
    parts: dict[tuple[tuple[str, str], ...], list[Measure]] = {}
    for measure in measures:
        if measure.by:
            parts.setdefault(tuple(measure.by.items()), []).append(measure)
    return [
        Group(
            by=dict(by),
            n=max(m.n + m.n_undefined for m in part),
            metrics={m.metric.name: estimated(m, how) for m in part},
        )
        for by, part in parts.items()
    ]
