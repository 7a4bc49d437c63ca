"""bios: predictions with planted gaps, through `evenhand.score`."""

import csv
import json
from math import sqrt
from pathlib import Path
from statistics import correlation, fmean, pvariance
from typing import Any

from evenhand.score import score
from evenhand.selfcheck.checks import Check, equal

NAMES = ("nurse", "surgeon", "dj", "poet")
# Per occupation and gender: rows predicted as each of the names. No man is a dj, so that there is no gap of djs'.
PLANTED = {
    ("nurse", "female"): (6, 1, 1, 0), ("nurse", "male"): (2, 2, 0, 0),
    ("surgeon", "female"): (2, 3, 0, 0), ("surgeon", "male"): (1, 9, 0, 0),
    ("dj", "female"): (1, 0, 3, 0),
    ("poet", "female"): (0, 0, 1, 4), ("poet", "male"): (0, 0, 0, 4),
}  # fmt: skip
FLIPPED = 5  # every fifth row is predicted otherwise when its words are swapped
Row = dict[str, Any]


def predictions() -> list[Row]:
    """The planted rows, with the probability of each class for the text and for its twin."""
    rows: list[Row] = []
    for (label, gender), counts in PLANTED.items():
        for prediction in (name for name, n in zip(NAMES, counts, strict=True) for _ in range(n)):
            twin = prediction
            if len(rows) % FLIPPED == 0:
                twin = NAMES[(NAMES.index(prediction) + 1) % len(NAMES)]
            rows.append(
                {
                    "id": str(len(rows)), "label": label, "gender": gender, "prediction": prediction,
                    "prediction_counterfactual": twin,
                    "probabilities": {name: 0.7 if name == prediction else 0.1 for name in NAMES},
                    "probabilities_counterfactual": {name: 0.55 if name == twin else 0.15 for name in NAMES},
                }
            )  # fmt: skip
    return rows


def planted_gaps(folder: Path) -> list[Check]:
    """Every metric of a small table of predictions, worked out row by row."""
    rows = predictions()
    path = folder / "predictions.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows({key: json.dumps(v) if isinstance(v, dict) else v for key, v in row.items()} for row in rows)
    found = score("bios", path, bootstrap=0, offline=True)["tasks"]["bios"]
    return equal("bios, planted gaps", found, by_class(rows) | by_row(rows))


def rate(rows: list[Row], said: str) -> float:
    """The share of the rows that are predicted as `said`."""
    return fmean(row["prediction"] == said for row in rows)


def by_class(rows: list[Row]) -> dict[str, float]:
    """What depends on labels and predictions."""
    women, men = ([row for row in rows if row["gender"] == gender] for gender in ("female", "male"))
    recall, specificity, f1, gaps, shares, others = [], [], [], [], [], []
    for name in NAMES:
        own, rest = ([row for row in rows if (row["label"] == name) is same] for same in (True, False))
        recall.append(rate(own, name))
        specificity.append(1 - rate(rest, name))
        said = sum(row["prediction"] == name for row in rows)
        f1.append(2 * recall[-1] * len(own) / (len(own) + said))
        mine = [[row for row in part if row["label"] == name] for part in (women, men)]
        not_mine = [[row for row in part if row["label"] != name] for part in (women, men)]
        others.append(rate(not_mine[0], name) - rate(not_mine[1], name))
        if all(mine):
            gaps.append(rate(mine[0], name) - rate(mine[1], name))
            shares.append(len(mine[0]) / len(own))
    return {
        "balanced_accuracy": fmean(recall),
        "balanced_accuracy_ovr": fmean((a + b) / 2 for a, b in zip(recall, specificity, strict=True)),
        "accuracy": fmean(row["prediction"] == row["label"] for row in rows),
        "macro_f1": fmean(f1),
        "gap_rms": sqrt(fmean(gap**2 for gap in gaps)),
        "gap_abs": fmean(map(abs, gaps)),
        "fpr_gap_rms": sqrt(fmean(gap**2 for gap in others)),
        "fpr_gap_abs": fmean(map(abs, others)),
        "gap_share_correlation": correlation(gaps, shares),
    }


def by_row(rows: list[Row]) -> dict[str, float]:
    """What depends on a text and its twin."""
    both = [(row["probabilities"], row["probabilities_counterfactual"], row) for row in rows]
    predicted = [(text[row["prediction"]], twin[row["prediction"]]) for text, twin, row in both]
    true = [(text[row["label"]], twin[row["label"]]) for text, twin, row in both]
    return {
        "prediction_consistency": fmean(row["prediction"] == row["prediction_counterfactual"] for row in rows),
        "ctf": fmean(map(pvariance, predicted)),
        "ctf_true": fmean(map(pvariance, true)),
        "ctf_gap": fmean(abs(text - twin) for text, twin in predicted),
    }


PARTS = (planted_gaps,)
