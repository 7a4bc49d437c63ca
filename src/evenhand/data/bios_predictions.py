"""A classifier's predictions over biographies, made elsewhere: the file has the labels and genders too."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from evenhand.data import Dataset
from evenhand.data.bios import genders, labels, once
from evenhand.data.bios_figures import OCCUPATIONS
from evenhand.data.tables import Table, read, shown

PROBABILITIES = ("probabilities", "probabilities_counterfactual")
SUM_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class Prediction:
    """One row: what is true, what was predicted for the text and its swapped twin, and two classes' probabilities.

    `p_*` are the probabilities of the class that was predicted for the original, and of the true one; pairs are
    (original, twin). None where the file has none.
    """

    id: str
    label: str
    gender: str
    prediction: str
    twin: str | None
    p_predicted: tuple[float | None, float | None]
    p_true: tuple[float | None, float | None]


def load(path: str) -> Dataset[Prediction]:
    """The predictions in a CSV, TSV, JSON Lines or Parquet file.

    Columns: id, label, gender, prediction; optionally prediction_counterfactual, and `probabilities` and
    `probabilities_counterfactual`: an object of class to probability, as JSON where the file has only texts.

    Raises:
        InputError: a fault; it names file, row and column.
    """
    optional = ("prediction_counterfactual", *PROBABILITIES)
    table = read(Path(path), ["id", "label", "gender", "prediction"], optional)
    ids = table.text("id")
    once(table, "id", ids)
    true, said, sexes = labels(table, "label"), labels(table, "prediction"), genders(table, "gender")
    twins: Iterable[str | None] = [None] * len(ids)
    if "prediction_counterfactual" in table.columns:
        twins = labels(table, "prediction_counterfactual")
    pairs = [(None, None)] * len(ids)
    first, second = (_probabilities(table, column, said, true) or pairs for column in PROBABILITIES)
    names = {name: name for name in (*true, *said)}
    rows = tuple(
        Prediction(own, names[label], sex, names[guess], twin, (p[0], q[0]), (p[1], q[1]))
        for own, label, sex, guess, twin, p, q in zip(ids, true, sexes, said, twins, first, second, strict=True)
    )
    # Predictions of two classifiers are about the same data where ids, labels and genders are the same.
    truth = sorted((row.id, row.label, row.gender) for row in rows)
    return Dataset(rows=rows, source=table.name, sha256=hashlib.sha256(json.dumps(truth).encode()).hexdigest())


def _probabilities(table: Table, column: str, said: list[str], true: list[str]) -> list[Any] | None:
    """Per row the probabilities of the predicted and of the true class, or None where there is no such column."""
    if column not in table.columns:
        return None
    found = []
    for row, value in enumerate(table.columns[column]):
        given = _mapping(table, row, column, value)
        for wanted in (said[row], true[row]):
            if wanted not in given:
                table.refuse(row, column, f"no probability for the class {shown(wanted)}")
        found.append((given[said[row]], given[true[row]]))
    return found


def _mapping(table: Table, row: int, column: str, value: Any) -> Mapping[str, float]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            table.refuse(row, column, "not JSON, where an object of class to probability belongs")
    if isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        value = dict(value)  # a Parquet map
    if not isinstance(value, dict) or not value:
        table.refuse(row, column, f"{shown(value)} where an object of class to probability belongs")
    if any(name.isdecimal() for name in value):
        value = {OCCUPATIONS[int(n)] if n.isdecimal() and int(n) < len(OCCUPATIONS) else n: p for n, p in value.items()}
    total = 0.0
    for name, p in value.items():
        if isinstance(p, bool) or not isinstance(p, int | float) or not isfinite(p) or not 0 <= p <= 1:
            table.refuse(row, column, f"the class {shown(name)} has {shown(p)}, which is no probability")
        total += p
    if abs(total - 1) > SUM_TOLERANCE:
        table.refuse(row, column, f"the probabilities add up to {total:.4f}, not 1")
    return dict(value)
