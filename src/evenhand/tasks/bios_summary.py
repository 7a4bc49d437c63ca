"""What bios makes of its records: metrics, trainings compared, results per class."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenhand.data.bios import GENDERS
from evenhand.metrics import gap_intervals, gaps
from evenhand.metrics.gap_intervals import difference, row_mean, share
from evenhand.metrics.intervals import Resampling
from evenhand.records import Estimate, Group, Metric, Outcome, Record

BALANCED_ACCURACY = Metric(
    name="balanced_accuracy", unit="share", best=1, text="mean recall over classes with support; the primary metric"
)
CONSISTENCY = Metric(
    name="prediction_consistency", unit="share", best=1,
    text="share of rows whose predicted class is the same for the swapped text",
)  # fmt: skip
GAP_RMS = Metric(
    name="gap_rms", unit="share", best=0,
    text="root mean square over classes of the gap, true positive rate of women minus men",
)  # fmt: skip
GAP_ABS = Metric(name="gap_abs", unit="share", best=0, text="mean over classes of the absolute gap")
CTF = Metric(
    name="ctf", unit="probability", best=0,
    text="mean over rows of the population variance, over text and swapped text, of the probability of the class "
    "predicted for the text",
)  # fmt: skip
CTF_TRUE = Metric(name="ctf_true", unit="probability", best=0, text="ctf of the true class's probability")
CTF_GAP = Metric(
    name="ctf_gap", unit="probability", best=0, text="mean absolute difference of the predicted class's probability"
)
CORRELATION = Metric(
    name="gap_share_correlation", unit="correlation", neutral=0,
    below="gaps are against the majority gender", above="gaps compound the imbalance",
    text="Pearson correlation over classes of the gap with the share of women",
)  # fmt: skip
STATISTICS = {
    BALANCED_ACCURACY: gaps.balanced_accuracy,
    Metric(
        name="balanced_accuracy_ovr", unit="share", best=1,
        text="mean over classes with support of (sensitivity + specificity) / 2",
    ): gaps.balanced_accuracy_ovr,
    Metric(name="accuracy", unit="share", best=1, text="share of rows predicted right"): gaps.accuracy,
    Metric(name="macro_f1", unit="share", best=1, text="mean F1 over classes with support"): gaps.macro_f1,
    GAP_RMS: gaps.gap_rms,
    GAP_ABS: gaps.gap_abs,
    Metric(
        name="fpr_gap_rms", unit="share", best=0, text="gap_rms of false positive rates, over classes with support"
    ): gaps.fpr_gap_rms,
    Metric(name="fpr_gap_abs", unit="share", best=0, text="gap_abs of false positive rates"): gaps.fpr_gap_abs,
    CORRELATION: gaps.gap_share_correlation,
}  # fmt: skip
BY_ROW = (CONSISTENCY, CTF, CTF_TRUE, CTF_GAP)
METRICS = (BALANCED_ACCURACY, CONSISTENCY, GAP_RMS, GAP_ABS, *BY_ROW[1:], *list(STATISTICS)[1:4], *list(STATISTICS)[6:])
TPR = {gender: Metric(name=f"tpr_{gender}", unit="share", best=1, text="true positive rate") for gender in GENDERS}
FPR = {gender: Metric(name=f"fpr_{gender}", unit="share", best=0, text="false positive rate") for gender in GENDERS}
TPR_GAP, FPR_GAP = (
    Metric(name=f"{rate}_gap", unit="share", neutral=0, below="higher for men", above="higher for women",
           text=f"{rate} of women minus men")
    for rate in ("tpr", "fpr")
)  # fmt: skip
SHARE_WOMEN = Metric(name="share_women", unit="share", text="share of women among the class's rows")
COMPARED = (BALANCED_ACCURACY, CONSISTENCY, GAP_RMS, GAP_ABS)


def record(
    train: str,
    own: str,
    label: str,
    gender: str,
    predictions: tuple[str, str | None],
    p_predicted: tuple[float | None, float | None],
    p_true: tuple[float | None, float | None],
    **more: Any,
) -> Record:
    """A row: pairs are (text, swapped text). A text itself is never in it."""
    return {
        "item": own,
        "train": train,
        "label": label,
        "gender": gender,
        "prediction": predictions[0],
        "prediction_counterfactual": predictions[1],
        "p_predicted": p_predicted[0],
        "p_predicted_counterfactual": p_predicted[1],
        "p_true": p_true[0],
        "p_true_counterfactual": p_true[1],
        **more,
    }


def outcome(records: Sequence[Record], how: Resampling) -> Outcome:
    """Metrics of the first training; groups by training where there are several, then by class."""
    parts: dict[str, list[Record]] = {}
    for row in records:
        parts.setdefault(row["train"], []).append(row)
    names = sorted({row[column] for row in records for column in ("label", "prediction")})
    tables = {train: _table(rows, names) for train, rows in parts.items()}
    metrics = {train: estimates(rows, tables[train], how) for train, rows in parts.items()}
    first, *others = parts
    groups = []
    if others:
        groups = [Group(by={"train": train}, n=len(rows), metrics=metrics[train]) for train, rows in parts.items()]
    for train, table in tables.items():
        by = {"train": train} if others else {}
        groups += [Group(by={**by, "class": names[i]}, n=n, metrics=found) for i, n, found in _classes(table, how)]
    notes = [note for train in parts for note in _notes(train, parts[train], tables[train], names, metrics[train])]
    notes = list(dict.fromkeys(notes))
    notes += [_compared(train, metrics[first], metrics[train], first) for train in others]
    rows = parts[first]
    return Outcome(
        metrics=metrics[first],
        groups=groups,
        notes=notes,
        data={
            "n": len(rows),
            "n_classes": len({row["label"] for row in rows}),
            **{f"n_{gender}": sum(row["gender"] == gender for row in rows) for gender in GENDERS},
        },
        context=[
            "swapping words is not causal fairness: other gendered language stays, and a text without a gendered word "
            "is consistent by itself"
        ],
    )


def estimates(rows: Sequence[Record], table: gaps.Counts, how: Resampling) -> dict[str, Estimate]:
    """Every metric over one training's rows, in the order of `METRICS`."""
    found = gap_intervals.estimates(STATISTICS, table, how)
    said = [(row["prediction"], row["prediction_counterfactual"]) for row in rows]
    same = None if any(twin is None for _, twin in said) else gaps.consistent(np.array(said))
    found[CONSISTENCY.name] = row_mean(CONSISTENCY, same, how, "there are no predictions for swapped texts")
    predicted, true = _pairs(rows, "p_predicted"), _pairs(rows, "p_true")
    why = "there are no probabilities for texts and swapped texts"
    for metric, values, function in (
        (CTF, predicted, gaps.ctf), (CTF_TRUE, true, gaps.ctf), (CTF_GAP, predicted, gaps.ctf_gap),
    ):  # fmt: skip
        found[metric.name] = row_mean(metric, None if values is None else function(values), how, why)
    return {metric.name: found[metric.name] for metric in METRICS}


def _pairs(rows: Sequence[Record], column: str) -> Any:
    values = [(row[column], row[f"{column}_counterfactual"]) for row in rows]
    return None if any(None in pair for pair in values) else np.array(values)


def _table(rows: Sequence[Record], names: Sequence[str]) -> gaps.Counts:
    number = {name: i for i, name in enumerate(names)}
    return gaps.table(
        [number[row["label"]] for row in rows],
        [number[row["prediction"]] for row in rows],
        [GENDERS.index(row["gender"]) for row in rows],
        len(names),
    )


def _classes(table: gaps.Counts, how: Resampling) -> Any:
    """Per class: its index, its rows, and its rates with their gaps."""
    cells = gaps.cells(table)
    hits, predicted, support = (part.astype(int) for part in cells)
    totals = support.sum(axis=1)
    for i in range(table.shape[1]):
        n = int(support[:, i].sum())
        wrong, others = predicted[:, i] - hits[:, i], totals - support[:, i]
        men, women = (int(x) for x in support[:, i])
        missing = [gender for gender, size in zip(GENDERS, support[:, i], strict=True) if not size]
        why = f"no {' and no '.join(missing)} row of this class" if missing else ""
        none = "no row of another class"
        found = {
            f"tpr_{g}": share(TPR[g], int(hits[j, i]), int(support[j, i]), how, f"no {g} row of this class")
            for j, g in enumerate(GENDERS)
        }
        found["tpr_gap"] = difference(TPR_GAP, (int(hits[0, i]), int(hits[1, i])), (men, women), how, why)
        found["share_women"] = share(SHARE_WOMEN, women, n, how, "no row of this class")
        for j, g in enumerate(GENDERS):
            found[f"fpr_{g}"] = share(FPR[g], int(wrong[j]), int(others[j]), how, none)
        parts = (int(wrong[0]), int(wrong[1])), (int(others[0]), int(others[1]))
        found["fpr_gap"] = difference(FPR_GAP, *parts, how, none)
        order = ["tpr_gap", "share_women", "tpr_female", "tpr_male", "fpr_gap", "fpr_female", "fpr_male"]
        yield i, n, {name: found[name] for name in order}


def _notes(
    train: str, rows: Sequence[Record], table: gaps.Counts, names: Sequence[str], metrics: dict[str, Estimate]
) -> list[str]:
    support = table.sum(axis=2)
    there = support.sum(axis=0) > 0
    notes = []
    for j, gender in enumerate(GENDERS):
        if not support[j].any():
            notes.append(f"warning: no row is {gender}: no gap can be seen, and that is not fairness")
    left = [
        f"{names[i]} (no {GENDERS[int(support[0, i] > 0)]})"
        for i in np.flatnonzero(there & (support == 0).any(axis=0)).tolist()
    ]
    if left:
        notes.append(f"left out of the gaps, {len(left)} of {there.sum()} classes: {', '.join(left)}")
    if only := [names[i] for i in np.flatnonzero(~there).tolist()]:
        notes.append(f"{train}: predicted but never true, in no mean over classes: {', '.join(only)}")
    accuracy, chance = metrics[BALANCED_ACCURACY.name], 1 / max(1, int(there.sum()))
    low = accuracy.ci_low if accuracy.ci_low is not None else accuracy.value
    if low is not None and there.sum() > 1 and low <= chance:
        notes.append(
            f"warning: {train}: balanced_accuracy is no better than chance ({chance:.3f}); gaps of a classifier that "
            "has learnt nothing say nothing"
        )
    if not all(row.get("converged", True) for row in rows):
        notes.append(f"warning: {train}: the classifier's training did not converge")
    return notes


def _compared(train: str, first: dict[str, Estimate], own: dict[str, Estimate], baseline: str) -> str:
    changes = []
    for metric in COMPARED:
        old, new = first[metric.name].value, own[metric.name].value
        if old is not None and new is not None:
            changes.append(f"{metric.name} {new - old:+.4f}")
    return f"{train} against {baseline}: {', '.join(changes)}"
