"""Two classifiers on the same rows: differences of `evenhand.metrics.gaps`, their intervals and p-values.

Rows with one group, true class and pair of predictions are alike, so that a stratified bootstrap over rows is a
multinomial one over such cells, and a random swap of the two runs within rows is a binomial one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.metrics import gaps
from evenhand.metrics.gaps import Cells, Floats
from evenhand.metrics.intervals import Interval, Resampling
from evenhand.metrics.paired import Difference
from evenhand.records import Metric

AT_ONCE = 2000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tally:
    """A metric as a function of counts by group, true and predicted class: what a comparison is made of.

    Attributes:
        metric: its card.
        statistic: function of `Cells`, vectorised over leading axes.
        groups: 0 or 1 per row.
        labels: true classes, by name.
        predictions: predicted classes, by name.
        by: the part of the rows this is about.
    """

    metric: Metric
    statistic: Callable[[Cells], Any]
    groups: Sequence[int]
    labels: Sequence[str]
    predictions: Sequence[str]
    by: Mapping[str, str] = field(default_factory=dict)
    n_undefined: int = 0

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.labels)

    def against(self, other: "Tally", how: Resampling) -> Difference:
        """The other run's value minus this one's; both tallies are over the same rows in the same order."""
        names = sorted({*self.labels, *self.predictions, *other.predictions})
        number = {name: i for i, name in enumerate(names)}
        coded = [
            np.array([number[name] for name in column], dtype=np.int64)
            for column in (self.labels, self.predictions, other.predictions)
        ]
        cells, counts = np.unique(np.stack([np.asarray(self.groups), *coded], axis=1), axis=0, return_counts=True)
        pair = _Pair(cells, counts, len(names))
        first, second = (float(self.statistic(one)[0]) for one in pair.cells(counts[None]))
        rows = {"clusters": len(self.labels), "left_out": 0}
        known = [value if np.isfinite(value) else None for value in (first, second)]
        if None in known:
            interval = Interval(None, None, None, "no difference to say")
            return Difference(
                first=known[0], second=known[1], value=None, interval=interval, p=None, test="none",
                reason="not defined on the rows that both runs have", **rows,
            )  # fmt: skip
        interval = Interval(None, None, None, "the two runs are equal here")
        p: float | None = 1.0
        test = "equal runs"
        if (cells[:, 2] != cells[:, 3]).any():
            interval, (p, test) = self._interval(pair, how), self._permuted(pair, abs(second - first), how)
        return Difference(
            first=first, second=second, value=second - first, interval=interval, p=p, test=test, reason=None, **rows
        )

    def _differences(self, pair: "_Pair", drawn: Callable[[int], tuple[Cells, Cells]], n: int) -> Floats:
        parts = []
        for at in range(0, n, AT_ONCE):
            one, two = drawn(min(AT_ONCE, n - at))
            with np.errstate(invalid="ignore", divide="ignore"):
                parts.append(np.asarray(self.statistic(two)) - np.asarray(self.statistic(one)))
        found: Floats = np.concatenate(parts)
        return found[np.isfinite(found)].astype(np.float64)

    def _interval(self, pair: "_Pair", how: Resampling) -> Interval:
        if how.draws == 0:
            return Interval(None, None, None, "intervals are turned off")
        rng = np.random.default_rng(how.seed)
        found = self._differences(pair, lambda n: pair.cells(pair.drawn(n, rng)), how.draws)
        tail = (1 - how.level) / 2
        if not found.size or np.ptp(found) <= 1e-12:
            return Interval(None, None, None, "every resample gives the same value")
        low, high = np.quantile(found, [tail, 1 - tail])
        return Interval(float(low), float(high), "percentile bootstrap of pairs, by strata", None)

    def _permuted(self, pair: "_Pair", observed: float, how: Resampling) -> tuple[float | None, str]:
        if how.draws == 0:
            return None, "resampling is turned off"
        rng = np.random.default_rng(how.seed)
        found = np.abs(self._differences(pair, lambda n: pair.swapped(n, rng), how.draws))
        as_large = int((found >= observed - 1e-10 * max(1.0, observed)).sum())
        return (as_large + 1) / (len(found) + 1), "sign-flip permutation of rows"


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """The joint cells (group, true class, first and second prediction), shape (cells, 4), and their counts."""

    joint: NDArray[np.int64]
    counts: NDArray[np.int64]
    classes: int

    def drawn(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """`n` draws of every group's rows of every class among themselves: shape (n, cells)."""
        found = np.empty((n, len(self.counts)), dtype=np.int64)
        strata, which = np.unique(self.joint[:, :2], axis=0, return_inverse=True)
        for stratum in range(len(strata)):
            own = np.flatnonzero(which.ravel() == stratum)
            total = self.counts[own].sum()
            found[:, own] = rng.multinomial(total, self.counts[own] / total, size=n)
        return found

    def cells(self, counts: NDArray[np.int64], swap: NDArray[np.int64] | None = None) -> tuple[Cells, Cells]:
        """Both runs' cells for counts of shape (draws, cells); of them, `swap` rows have their predictions swapped."""
        groups, labels, *both = self.joint.T
        support = np.zeros((2, self.classes))
        np.add.at(support, (groups, labels), self.counts)
        made = []
        for own, other in (both, both[::-1]):
            hits, predicted = (np.zeros((len(counts), 2, self.classes)) for _ in range(2))
            for k, (g, label) in enumerate(zip(groups, labels, strict=True)):
                moved = np.zeros(len(counts)) if swap is None else swap[:, k]
                for said, n in ((own[k], counts[:, k] - moved), (other[k], moved)):
                    predicted[:, g, said] += n
                    if said == label:
                        hits[:, g, label] += n
            made.append(Cells(hits, predicted, support))
        return made[0], made[1]

    def swapped(self, n: int, rng: np.random.Generator) -> tuple[Cells, Cells]:
        """`n` random swaps of the two runs, row by row."""
        counts = np.broadcast_to(self.counts, (n, len(self.counts)))
        return self.cells(counts, rng.binomial(counts, 0.5))


def class_gap(cells: Cells) -> Any:
    """The gap of true positive rates where only one class has rows."""
    found = gaps.gap(gaps.tpr(cells))
    return found[..., int(np.flatnonzero(gaps.supported(cells))[0])]
