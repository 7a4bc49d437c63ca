"""Normative and descriptive occupational bias: what a model believes of an occupation, beside the census's figure.

Source: Touileb, Øvrelid and Velldal 2023, section 3. A form is an occupation in one number. Its probes are crossed:
each of the number's predicates with each of its identifiers. Log-probabilities are natural logarithms, arrays of shape
(forms, predicates, identifiers); shares of women are in percent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.metrics.intervals import Measure, Statistic, averaged, ratio
from evenhand.records import Metric

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]
FEMALE, NEUTRAL, MALE = 1, 0, -1
ROUNDING = 1e-9
DRAWS_AT_ONCE = 500


def log_proba(logp: Floats, female: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """The paper's equation 1, per gender: log of the mean probability of the gender's identifiers.

    Args:
        logp: log P(identifier | template), shape (..., identifiers).
        female: which identifiers are female, shape (identifiers,).

    Returns:
        For women and for men, shape (...,).
    """
    both = [np.logaddexp.reduce(logp[..., one], axis=-1) - np.log(one.sum()) for one in (female, ~female)]
    return both[0], both[1]


def share(log_female: Floats, log_male: Floats) -> Floats:
    """100 * female / (female + male), from logarithms, so that nothing underflows."""
    found: Floats = 100.0 * np.exp(log_female - np.logaddexp(log_female, log_male))
    return found


def log_scores(logp: Floats, female: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """The paper's equation 2, per gender: log of the mean of equation 1 over the predicates.

    Args:
        logp: shape (..., predicates, identifiers).
        female: shape (identifiers,).

    Returns:
        For women and for men, shape (...,).
    """
    both = [np.logaddexp.reduce(one, axis=-1) - np.log(one.shape[-1]) for one in log_proba(logp, female)]
    return both[0], both[1]


def share_women(logp: Floats, female: NDArray[np.bool_]) -> Floats:
    """The model's share of women in each form, percent; arguments as for `log_scores`."""
    return share(*log_scores(logp, female))


def classes(percent: ArrayLike, low: float, high: float) -> Classes:
    """FEMALE above `high`, MALE below `low`, else NEUTRAL; the census and the model are held to the same bounds.

    A value at a bound is neutral, and rounding in the last digits does not take it over.
    """
    values = np.asarray(percent, dtype=np.float64)
    return (values > high + ROUNDING).astype(np.int64) - (values < low - ROUNDING).astype(np.int64)


class Templates(NamedTuple):
    """Share of women by parts of the templates, percent, shape (forms, predicates or identifiers).

    `predicate` and `identifier`: from this one alone (an identifier stands for its gender, against the mean of the
    other). `no_predicate` and `no_identifier`: from all but this one; NaN where nothing is left.
    """

    predicate: Floats
    identifier: Floats
    no_predicate: Floats
    no_identifier: Floats


def templates(logp: Floats, female: NDArray[np.bool_]) -> Templates:
    """Each predicate and each identifier alone and left out; `logp` of shape (forms, predicates, identifiers)."""
    forms, predicates, identifiers = logp.shape
    women, men = log_scores(logp, female)
    per_identifier = np.logaddexp.reduce(logp, axis=1) - np.log(predicates)
    alone = share(
        np.where(female, per_identifier, women[:, None]), np.where(female, men[:, None], per_identifier)
    )  # fmt: skip
    no_predicate = np.full((forms, predicates), np.nan)
    for p in range(predicates if predicates > 1 else 0):
        no_predicate[:, p] = share_women(np.delete(logp, p, axis=1), female)
    no_identifier = np.full((forms, identifiers), np.nan)
    for i in range(identifiers):
        if (female == female[i]).sum() > 1:
            no_identifier[:, i] = share_women(np.delete(logp, i, axis=2), np.delete(female, i))
    return Templates(share(*log_proba(logp, female)), alone, no_predicate, no_identifier)


def variance(parts: Sequence[tuple[Floats, NDArray[np.bool_], Sequence[str]]]) -> dict[str, float]:
    """Where the share of women varies: sums of squares, in percent of their total.

    What varies is the share of one probe: an identifier alone with one predicate, against the mean of the other
    gender's identifiers. Within a number all is crossed and balanced, so the parts add up to 100: `occupation`,
    `number`, `tense` within number, `predicate` within tense, `identifier` within number, and what is left (`rest`).

    Args:
        parts: per number its `logp` (see `templates`), which identifiers are female, and each predicate's tense.

    Returns:
        Part to percent; empty where nothing varies.
    """
    found = dict.fromkeys(("occupation", "number", "tense", "predicate", "identifier", "rest"), 0.0)
    tables = []
    for logp, female, _ in parts:
        women, men = (one[:, :, None] for one in log_proba(logp, female))
        tables.append(share(np.where(female, logp, women), np.where(female, men, logp)))
    middle = float(np.concatenate([table.ravel() for table in tables]).mean())
    for table, (_, _, tenses) in zip(tables, parts, strict=True):
        forms, predicates, identifiers = table.shape
        mean = float(table.mean())
        by_predicate = (table.mean(axis=(0, 2)) - mean) ** 2
        named = np.asarray(tenses, dtype=str)
        of_tense = [named == tense for tense in dict.fromkeys(tenses)]
        tense = sum(int(one.sum()) * (float(table[:, one].mean()) - mean) ** 2 for one in of_tense)
        squares = {
            "occupation": predicates * identifiers * float(((table.mean(axis=(1, 2)) - mean) ** 2).sum()),
            "tense": forms * identifiers * tense,
            "predicate": forms * identifiers * (float(by_predicate.sum()) - tense),
            "identifier": forms * predicates * float(((table.mean(axis=(0, 1)) - mean) ** 2).sum()),
        }
        squares["rest"] = float(((table - mean) ** 2).sum()) - sum(squares.values())
        squares["number"] = table.size * (mean - middle) ** 2
        for name, value in squares.items():
            found[name] += value
    total = sum(found.values())
    return {name: max(0.0, 100 * value / total) for name, value in found.items()} if total > ROUNDING else {}


def confusion(census: Classes, model: Classes) -> NDArray[np.int64]:
    """Counts of forms: census class by model class, both in the order FEMALE, NEUTRAL, MALE. Shape (3, 3)."""
    found = np.zeros((3, 3), dtype=np.int64)
    np.add.at(found, (FEMALE - census, FEMALE - model), 1)
    return found


def reliability(model: Floats, census: Floats, width: float = 10.0) -> list[dict[str, float]]:
    """The reliability curve: forms in bins of the model's share of women, with the mean figure of the census in each.

    Returns:
        Per bin that holds a form: `low` and `high`, its `n`, the mean `share_women` and the mean `census`, percent.
    """
    bins = np.minimum(np.floor(model / width), np.ceil(100 / width) - 1)
    return [
        {
            "low": float(at * width),
            "high": float((at + 1) * width),
            "n": int((bins == at).sum()),
            "share_women": float(model[bins == at].mean()),
            "census": float(census[bins == at].mean()),
        }
        for at in np.unique(bins)
    ]


def percent(metric: Metric, hits: ArrayLike, clusters: Sequence[str], by: Mapping[str, str] | None = None) -> Measure:
    """100 * the share of rows that are hits; a proportion, so that it is exact at 0 and 100.

    Args:
        metric: its card.
        hits: 1 or 0 per row, NaN where a row does not count.
        clusters: each row's cluster.
        by: the part of the items that these rows are.
    """
    return replace(averaged(metric, hits, clusters, by), statistic=percentage, whole=100.0)


def percentage(hits: Floats, n: Floats, axis: int = -1) -> Any:
    """100 * hits / rows from cluster sums."""
    return 100 * ratio(hits, n, axis=axis)


def pearson(metric: Metric, x: Floats, y: Floats, clusters: Sequence[str]) -> Measure:
    """Pearson's correlation over rows."""
    return _correlation(metric, pearson_r, x, y, clusters)


def spearman(metric: Metric, x: Floats, y: Floats, clusters: Sequence[str]) -> Measure:
    """Spearman's rank correlation over rows, ties at their mean rank; ranks are made anew in every draw."""
    return _correlation(metric, spearman_r, x, y, clusters)


def _correlation(metric: Metric, statistic: Statistic, x: Floats, y: Floats, clusters: Sequence[str]) -> Measure:
    """Columns: x of each cluster's first, second... row, NaN where it has no such row; then the same of y."""
    names, index = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    order = np.argsort(index, kind="stable")
    starts = np.searchsorted(index[order], np.arange(len(names)))
    place = np.empty(len(x), dtype=np.int64)
    place[order] = np.arange(len(x)) - starts[index[order]]
    columns: list[Floats] = []
    for values in (x, y):
        padded = np.full((int(place.max(initial=-1)) + 1, len(names)), np.nan)
        padded[place, index] = values
        columns += list(padded)
    return Measure(
        metric=metric, statistic=statistic, clusters=names.tolist(), columns=columns or [x, y], n=len(x)
    )  # fmt: skip


def pearson_r(*columns: Floats, axis: int = -1) -> Any:
    """Pearson's correlation of columns as `pearson` makes them, over clusters on `axis`."""
    return _correlated(columns, axis, ranks=False)


def spearman_r(*columns: Floats, axis: int = -1) -> Any:
    """Spearman's correlation of columns as `spearman` makes them, over clusters on `axis`."""
    return _correlated(columns, axis, ranks=True)


def _correlated(columns: Sequence[Floats], axis: int, *, ranks: bool) -> Any:
    half = len(columns) // 2
    first, second = (
        np.concatenate([np.moveaxis(np.asarray(column), axis, -1) for column in part], axis=-1)
        for part in (columns[:half], columns[half:])
    )
    x, y = (values.reshape(-1, values.shape[-1]) for values in (first, second))
    parts = [
        _rows(x[at : at + DRAWS_AT_ONCE], y[at : at + DRAWS_AT_ONCE], ranks=ranks)
        for at in range(0, len(x), DRAWS_AT_ONCE)
    ]
    return np.concatenate(parts).reshape(first.shape[:-1])


def _rows(x: Floats, y: Floats, *, ranks: bool) -> Floats:
    """The correlation of each row of x with that of y; NaN stand for nothing."""
    there = ~np.isnan(x)
    n = there.sum(axis=1, keepdims=True)
    if ranks:
        x, y = mean_ranks(x), mean_ranks(y)
    x, y = np.where(there, x, 0.0), np.where(there, y, 0.0)
    # A constant stays constant under subtraction of one of its values; its mean may round.
    x, y = (np.where(there, v - np.where(there, v, -np.inf).max(axis=1, keepdims=True), 0.0) for v in (x, y))
    x, y = (np.where(there, v - v.sum(axis=1, keepdims=True) / n, 0.0) for v in (x, y))
    spread = (x**2).sum(axis=1) * (y**2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = np.where(spread > ROUNDING, (x * y).sum(axis=1) / np.sqrt(spread), np.nan)
    return found


def mean_ranks(values: Floats) -> Floats:
    """Each value's rank in its row from 1, ties at their mean; NaN come last. Shape (draws, rows)."""
    size = values.shape[1]
    order = np.argsort(values, axis=1)
    held = np.take_along_axis(values, order, axis=1)
    new = np.ones(values.shape, dtype=bool)
    new[:, 1:] = held[:, 1:] != held[:, :-1]
    last = np.ones(values.shape, dtype=bool)
    last[:, :-1] = new[:, 1:]
    places = np.arange(size)
    begin = np.maximum.accumulate(np.where(new, places, 0), axis=1)
    end = np.minimum.accumulate(np.where(last, places, size - 1)[:, ::-1], axis=1)[:, ::-1]
    found = np.empty(values.shape)
    np.put_along_axis(found, order, (begin + end) / 2 + 1, axis=1)
    return found
