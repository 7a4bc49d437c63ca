"""Biographies with an occupation and a gender: the public set from the Hub, or a file of the user's.

De-Arteaga et al. 2019 (arXiv 1901.09451), LabHC/bias_in_bios. The texts are about real people: they are no part of
this project, and stand in no message.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evenhand.data import Dataset
from evenhand.data.bios_figures import FIGURES, HUB_SPLITS, OCCUPATIONS
from evenhand.data.tables import Table, read, shown

HUB = "LabHC/bias_in_bios"
HUB_FILES = {
    "train": "data/train-00000-of-00001-0ab65b32c47407e8.parquet",
    "dev": "data/dev-00000-of-00001-e6551072fff26949.parquet",
    "test": "data/test-00000-of-00001-5598c840ce8de1ee.parquet",
}
GENDERS = ("male", "female")
SAID = {"male": "male", "m": "male", "man": "male", "0": "male",
        "female": "female", "f": "female", "woman": "female", "1": "female"}  # fmt: skip
SPLITS = {"train": "train", "training": "train", "dev": "dev", "valid": "dev", "validation": "dev", "test": "test"}
TEST_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Biography:
    """A text, its occupation, one of GENDERS, and one of train, dev, test."""

    id: str
    text: str
    label: str
    gender: str
    split: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What a file's columns are called. `split` and `id` may be absent."""

    text: str = "hard_text"
    label: str = "profession"
    gender: str = "gender"
    split: str = "split"
    id: str = "id"


def load(source: str | None, columns: Columns, *, offline: bool) -> Dataset[Biography]:
    """The biographies of `source`: a file (CSV, TSV, JSON Lines, Parquet), or None for the public set.

    The rows' order is mixed so that the first N have train and test rows in the whole's proportion.

    Raises:
        InputError: the file cannot be read, or a row will not do; the message names file, row and column.
    """
    if source is None:
        return public(offline=offline)
    path = Path(source)
    table = read(path, [columns.text, columns.label, columns.gender], [columns.split, columns.id])
    rows = list(_rows(table, columns, ""))
    notes = []
    if columns.split not in table.columns:
        notes.append(f"no column {columns.split!r}: a quarter of the texts, drawn by their hash, are the test rows")
    return Dataset(rows=mixed(rows), source=path.name, sha256=table.sha256, notes=tuple(notes))


def public(*, offline: bool) -> Dataset[Biography]:
    """The public set; what differs from its known counts is a note."""
    from evenhand.data.fetch import hub_file

    rows: list[Biography] = []
    whole = hashlib.sha256()
    for split, name in HUB_FILES.items():
        table = read(hub_file(HUB, name, offline=offline), ["hard_text", "profession", "gender"])
        whole.update(f"{split} {table.sha256}\n".encode())
        rows += _rows(table, Columns(), split)
    notes = tuple(differences(rows))
    return Dataset(rows=mixed(rows), source=f"hub:{HUB}", sha256=whole.hexdigest(), notes=notes)


def fetch(*, offline: bool) -> Path:
    """The folder with the public set's files, fetched if they were not there."""
    from evenhand.data.fetch import hub_file

    *_, last = (hub_file(HUB, name, offline=offline) for name in HUB_FILES.values())
    return last.parent


def labels(table: Table, column: str) -> list[str]:
    """Occupations: names as they are, numbers 0 to 27 as the public set's names."""
    found = []
    for row, value in enumerate(table.text(column)):
        if value.lstrip("-").isdecimal():
            if not value.isdecimal() or int(value) >= len(OCCUPATIONS):
                table.refuse(row, column, f"{shown(value)} is no number from 0 to 27; write other occupations as names")
            value = OCCUPATIONS[int(value)]  # noqa: PLW2901 - the same value, by its name
        found.append(value)
    return found


def genders(table: Table, column: str) -> list[str]:
    """Genders as GENDERS, from names, letters or the public set's numbers."""
    found = []
    for row, value in enumerate(table.text(column)):
        gender = SAID.get(value.lower())
        if gender is None:
            table.refuse(row, column, f"{shown(value)} where male, female, m, f, 0 (male) or 1 (female) belongs")
        found.append(gender)
    return found


def _rows(table: Table, columns: Columns, split: str) -> Iterator[Biography]:
    texts = table.text(columns.text)
    said = labels(table, columns.label)
    sexes = genders(table, columns.gender)
    splits = _splits(table, columns, texts, split)
    if columns.id in table.columns:
        ids = table.text(columns.id)
        once(table, columns.id, ids)
    else:
        ids = [f"{split}/{row}" if split else str(row + 1) for row in range(len(texts))]
    # Few occupations, many rows: one string for each.
    names = {name: name for name in said}
    for own, text, label, gender, part in zip(ids, texts, said, sexes, splits, strict=True):
        yield Biography(own, text, names[label], gender, part)


def _splits(table: Table, columns: Columns, texts: Sequence[str], split: str) -> list[str]:
    if split:
        return [split] * len(texts)
    if columns.split not in table.columns:
        # By the text's hash, so that a text that stands twice is never on both sides.
        cut = int(TEST_SHARE * 2**32)
        return ["test" if int(digest(text)[:8], 16) < cut else "train" for text in texts]
    found = []
    for row, value in enumerate(table.text(columns.split)):
        if value.lower() not in SPLITS:
            table.refuse(row, columns.split, f"{shown(value)} where train, dev or test belongs")
        found.append(SPLITS[value.lower()])
    return found


def once(table: Table, column: str, ids: Sequence[str]) -> None:
    """Refuses an id that stands twice."""
    seen: dict[str, int] = {}
    for row, own in enumerate(ids):
        if own in seen:
            table.refuse(row, column, f"the id {shown(own)} stands in row {seen[own] + 1} too")
        seen[own] = row


def digest(text: str) -> str:
    """A text's name in records: its hash."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def mixed(rows: Sequence[Biography]) -> tuple[Biography, ...]:
    """The rows, each split spread evenly over the whole, otherwise in their order."""
    sizes = Counter(row.split for row in rows)
    seen: Counter[str] = Counter()
    places = []
    for row in rows:
        seen[row.split] += 1
        places.append((seen[row.split] - 0.5) / sizes[row.split])
    return tuple(rows[i] for i in sorted(range(len(rows)), key=places.__getitem__))


def differences(rows: Sequence[Biography]) -> Iterator[str]:
    """What differs from the public set's known rows per split, rows per occupation and shares of women."""
    said = "warning: the public set differs from what is known of it:"
    splits = Counter(row.split for row in rows)
    for split, known in HUB_SPLITS.items():
        if splits[split] != known:
            yield f"{said} {splits[split]:,} {split} rows, not {known:,}"
    totals = Counter(row.label for row in rows)
    women = Counter(row.label for row in rows if row.gender == "female")
    other = [
        f"{name} {totals[name]:,} not {known.hub_total:,}"
        for name, known in FIGURES.items()
        if totals[name] != known.hub_total
    ]
    if other:
        yield f"{said} rows of {len(other)} occupations: {', '.join(other)}"
    apart = [
        f"{name} {women[name] / totals[name]:.3f} not {known.hub_share_women:.2f}"
        for name, known in FIGURES.items()
        if totals[name] and abs(women[name] / totals[name] - known.hub_share_women) > 0.0051
    ]
    if apart:
        yield f"{said} shares of women in {len(apart)} occupations: {', '.join(apart)}"
