"""bios's metrics as a comparison of two classifiers takes them: counts per class, and values per row."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from evenhand.data.bios import GENDERS
from evenhand.metrics import gaps
from evenhand.metrics.gap_pairs import Tally, class_gap
from evenhand.metrics.intervals import Measure, averaged
from evenhand.records import Metric, Record
from evenhand.tasks.bios_summary import BY_ROW, CONSISTENCY, CTF, CTF_GAP, CTF_TRUE, METRICS, STATISTICS, TPR_GAP

VALUES: dict[Metric, tuple[str, Callable[[Any], Any]]] = {
    CTF: ("p_predicted", gaps.ctf),
    CTF_TRUE: ("p_true", gaps.ctf),
    CTF_GAP: ("p_predicted", gaps.ctf_gap),
}


def measures(records: Sequence[Record]) -> list[Measure | Tally]:
    """Every metric of the first training; by training where there are several; the gap of each class."""
    parts: dict[str, list[Record]] = {}
    for row in records:
        parts.setdefault(row["train"], []).append(row)
    found = _every(next(iter(parts.values())), {})
    for train, rows in parts.items() if len(parts) > 1 else ():
        found += _every(rows, {"train": train})
    for train, rows in parts.items():
        by = {"train": train} if len(parts) > 1 else {}
        for name in sorted({row["label"] for row in rows}):
            own = [row for row in rows if row["label"] == name]
            found.append(_tally(TPR_GAP, class_gap, own, {**by, "class": name}))
    return found


def _every(rows: Sequence[Record], by: Mapping[str, str]) -> list[Measure | Tally]:
    return [
        _row_mean(metric, rows, by) if metric in BY_ROW else _tally(metric, STATISTICS[metric], rows, by)
        for metric in METRICS
    ]


def _tally(metric: Metric, statistic: Any, rows: Sequence[Record], by: Mapping[str, str]) -> Tally:
    return Tally(
        metric=metric, statistic=statistic, by=by, groups=[GENDERS.index(row["gender"]) for row in rows],
        labels=[row["label"] for row in rows], predictions=[row["prediction"] for row in rows],
    )  # fmt: skip


def _row_mean(metric: Metric, rows: Sequence[Record], by: Mapping[str, str]) -> Measure:
    """The mean of one value per row; null in every row where one of them has no twin."""
    values = np.full(len(rows), np.nan)
    if metric is CONSISTENCY:
        pairs = [(row["prediction"], row["prediction_counterfactual"]) for row in rows]
        function: Callable[[Any], Any] = gaps.consistent
    else:
        column, function = VALUES[metric]
        pairs = [(row[column], row[f"{column}_counterfactual"]) for row in rows]
    if not any(None in pair for pair in pairs):
        values = function(np.array(pairs))
    return averaged(metric, values, [row["item"] for row in rows], by)
