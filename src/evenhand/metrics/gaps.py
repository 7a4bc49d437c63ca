"""Is a classifier fair to two groups? Gaps between the groups' rates per class, and what a swap of words changes.

Sources: De-Arteaga et al. 2019 (arXiv 1901.09451) for gaps of true positive rates per occupation; Romanov et al. 2019
and Yurochkin and Sun 2020 (arXiv 2006.14168) for their root mean square and mean; Garg et al. 2019 (arXiv 1809.10610)
for counterfactual token fairness. All that depends on labels is a function of `Cells`, so that whole bootstrap draws
are evaluated at once: every function takes cells with any leading axes. What is not defined is NaN here, and null with
a reason in results.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
FIRST, SECOND = 0, 1
"""The groups: every gap is the second's rate minus the first's."""


class Cells(NamedTuple):
    """Rows counted by group and class; arrays of shape (..., 2, classes), `support` of shape (2, classes).

    Attributes:
        hits: rows of the class that were predicted right.
        predicted: rows, of whatever class, for which the class was predicted.
        support: rows of the class.
    """

    hits: Floats
    predicted: Floats
    support: Floats


def table(labels: ArrayLike, predictions: ArrayLike, groups: ArrayLike, n_classes: int) -> Counts:
    """Rows counted by group, true and predicted class: shape (2, classes, classes).

    Args:
        labels: true classes, 0 to n_classes - 1, shape (rows,).
        predictions: predicted classes, the same.
        groups: 0 or 1, the same.
        n_classes: how many classes there are.

    Raises:
        ValueError: the shapes differ, or a value is out of range.
    """
    truth, guess, group = (np.asarray(values, dtype=np.int64) for values in (labels, predictions, groups))
    if not truth.shape == guess.shape == group.shape or truth.ndim != 1:
        raise ValueError(f"shapes {truth.shape}, {guess.shape} and {group.shape} are not one (rows,)")
    for values, size in ((truth, n_classes), (guess, n_classes), (group, 2)):
        if values.size and not 0 <= values.min() <= values.max() < size:
            raise ValueError(f"a value is not in 0..{size - 1}")
    flat = np.bincount((group * n_classes + truth) * n_classes + guess, minlength=2 * n_classes**2)
    return flat.reshape(2, n_classes, n_classes)


def cells(counts: Counts) -> Cells:
    """The cells of a `table`."""
    whole = counts.astype(np.float64)
    return Cells(np.diagonal(whole, axis1=1, axis2=2).copy(), whole.sum(axis=1), whole.sum(axis=2))


def draws(counts: Counts, n: int, rng: np.random.Generator) -> Cells:
    """`n` stratified bootstrap draws over rows: each group's rows of each class are drawn among themselves.

    Rows with one group, true and predicted class are alike, so that a draw is a multinomial one over such cells.

    Returns:
        Cells with a leading axis of `n` draws.
    """
    size = counts.shape[1]
    hits, predicted = np.zeros((n, 2, size)), np.zeros((n, 2, size))
    for group, true in np.argwhere(counts.sum(axis=2) > 0):
        row = counts[group, true]
        seen = np.flatnonzero(row)
        drawn = rng.multinomial(row.sum(), row[seen] / row.sum(), size=n)
        predicted[:, group, seen] += drawn
        if row[true]:
            hits[:, group, true] = drawn[:, np.searchsorted(seen, true)]
    return Cells(hits, predicted, counts.sum(axis=2).astype(np.float64))


def _ratio(part: Floats, whole: Floats) -> Floats:
    """The ratio, NaN where `whole` is 0."""
    part, whole = np.broadcast_arrays(part, whole)
    found: Floats = np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
    return found


def tpr(c: Cells) -> Floats:
    """True positive rates by group and class, (..., 2, classes); NaN where the group has no row of the class."""
    return _ratio(c.hits, c.support)


def fpr(c: Cells) -> Floats:
    """False positive rates by group and class: of the group's rows of other classes, the share given this one."""
    return _ratio(c.predicted - c.hits, c.support.sum(axis=-1, keepdims=True) - c.support)


def gap(rates: Floats) -> Floats:
    """Second group's rate minus the first's, per class; NaN where one of them has none."""
    return rates[..., SECOND, :] - rates[..., FIRST, :]


def supported(c: Cells) -> NDArray[np.bool_]:
    """Which classes have a row: shape (classes,)."""
    found: NDArray[np.bool_] = c.support.sum(axis=-2) > 0
    return found


def recalls(c: Cells) -> Floats:
    """Per class with support: the share predicted right, whatever the group."""
    there = supported(c)
    found: Floats = c.hits.sum(axis=-2)[..., there] / c.support.sum(axis=-2)[there]
    return found


def balanced_accuracy(c: Cells) -> Floats:
    """Mean recall over classes with support; a class that is only predicted does not enter."""
    return _mean(recalls(c))


def balanced_accuracy_ovr(c: Cells) -> Floats:
    """Mean over classes with support of (sensitivity + specificity) / 2; NaN with one class, which has no others."""
    there = supported(c)
    support = c.support.sum(axis=-2)[there]
    wrong = (c.predicted - c.hits).sum(axis=-2)[..., there]
    specificity = 1 - _ratio(wrong, c.support.sum() - support)
    return _mean((recalls(c) + specificity) / 2)


def accuracy(c: Cells) -> Floats:
    """Share of rows predicted right."""
    return _ratio(c.hits.sum(axis=(-2, -1)), c.support.sum())


def macro_f1(c: Cells) -> Floats:
    """Mean over classes with support of 2 hits / (rows of the class + rows given the class)."""
    there = supported(c)
    whole = c.support.sum(axis=-2)[there] + c.predicted.sum(axis=-2)[..., there]
    return _mean(2 * c.hits.sum(axis=-2)[..., there] / whole)


def _defined(gaps: Floats) -> Floats:
    """The classes whose gap is defined; which they are does not differ between draws."""
    return gaps[..., ~np.isnan(gaps.reshape(-1, gaps.shape[-1])[0])]


def _mean(values: Floats) -> Floats:
    return values.mean(axis=-1) if values.shape[-1] else np.full(values.shape[:-1], np.nan)


def rms(gaps: Floats) -> Floats:
    """Root mean square over classes with a gap; NaN if none has."""
    found: Floats = np.sqrt(_mean(_defined(gaps) ** 2))
    return found


def mean_abs(gaps: Floats) -> Floats:
    """Mean absolute gap over classes with one; NaN if none has."""
    return _mean(np.abs(_defined(gaps)))


def gap_rms(c: Cells) -> Floats:
    """`rms` of the true positive rates' gaps."""
    return rms(gap(tpr(c)))


def gap_abs(c: Cells) -> Floats:
    """`mean_abs` of the true positive rates' gaps."""
    return mean_abs(gap(tpr(c)))


def fpr_gap_rms(c: Cells) -> Floats:
    """`rms` of the false positive rates' gaps, over classes with support."""
    return rms(gap(fpr(c))[..., supported(c)])


def fpr_gap_abs(c: Cells) -> Floats:
    """`mean_abs` of the false positive rates' gaps, over classes with support."""
    return mean_abs(gap(fpr(c))[..., supported(c)])


def share_second(c: Cells) -> Floats:
    """The second group's share of each class's rows; NaN for a class without rows."""
    return _ratio(c.support[SECOND], c.support.sum(axis=0))


def gap_share_correlation(c: Cells) -> Floats:
    """Pearson's r over classes of TPR gap and the second group's share: De-Arteaga et al.'s compounding imbalance.

    NaN with fewer than three classes that have a gap, or where either side is constant.
    """
    gaps = gap(tpr(c))
    there = ~np.isnan(gaps.reshape(-1, gaps.shape[-1])[0])
    if there.sum() < 3:
        return np.full(gaps.shape[:-1], np.nan)
    x = share_second(c)[there]
    x, y = x - x.mean(), gaps[..., there] - gaps[..., there].mean(axis=-1, keepdims=True)
    return _ratio((y * x).sum(axis=-1), np.sqrt((y**2).sum(axis=-1) * (x**2).sum()))


def ctf(probabilities: ArrayLike) -> Floats:
    """Per row, the population variance over a text's versions of one class's probability.

    Args:
        probabilities: shape (rows, versions); the class is the one predicted for the original (`ctf`) or the true one
            (`ctf_true`).

    Returns:
        Shape (rows,); 0 is best, 0.25 the most that two versions can differ.
    """
    found: Floats = np.asarray(probabilities, dtype=np.float64).var(axis=1)
    return found


def ctf_gap(probabilities: ArrayLike) -> Floats:
    """Per row, the mean absolute difference of the other versions' probability from the original's (column 0)."""
    values = np.asarray(probabilities, dtype=np.float64)
    found: Floats = np.abs(values[:, 1:] - values[:, :1]).mean(axis=1)
    return found


def consistent(predictions: ArrayLike) -> Floats:
    """Per row, 1 where all versions' predicted classes (rows, versions) are the same, else 0."""
    values = np.asarray(predictions)
    found: Floats = (values[:, 1:] == values[:, :1]).all(axis=1).astype(np.float64)
    return found
