"""Occupation lists for cooccurrence: the public set, a file of the user's, or the packaged US census pack."""

import csv
import hashlib
import io
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from evenhand.data import Dataset
from evenhand.errors import InputError

HUB = "oskarvanderwal/simple-cooccurrence-bias"
HUB_FILE = "test.csv"


@dataclass(frozen=True, slots=True)
class Occupation:
    """An occupation's title, and its sentence where the source gives one."""

    title: str
    sentence: str | None = None


def load(source: str | None, *, offline: bool) -> Dataset[Occupation]:
    """The occupations of `source`: a CSV file, "hub" for the public set, None for the packaged census titles."""
    if source is None:
        return packaged()
    if source == "hub":
        return public(offline=offline)
    path = Path(source)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {source}: {error.strerror or error}") from None
    return Dataset(rows=read(raw, source), source=path.name, sha256=hashlib.sha256(raw).hexdigest())


def read(raw: bytes, name: str) -> tuple[Occupation, ...]:
    """Rows of a CSV with a column `occupation` and optionally `sentence`; faults name file and line."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 (byte {error.start}); save the file as UTF-8") from None
    table = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    rows = []
    try:
        columns = [column.strip() for column in table.fieldnames or []]
        table.fieldnames = columns
        if "occupation" not in columns:
            found = ", ".join(columns)[:80] or "nothing"
            raise InputError(f"{name}: no column 'occupation'; its first line has: {found}")
        for row in table:
            title = (row["occupation"] or "").strip()
            if not title:
                raise InputError(f"{name}, line {table.line_num}: column 'occupation' is empty")
            sentence = row.get("sentence")
            if "sentence" in columns and not (sentence or "").strip():
                raise InputError(f"{name}, line {table.line_num}: column 'sentence' is empty")
            rows.append(Occupation(title, sentence))
    except csv.Error as error:
        raise InputError(f"{name}, line {table.line_num}: not a CSV row: {error}") from None
    if not rows:
        raise InputError(f"{name}: has no rows")
    return tuple(rows)


def packaged() -> Dataset[Occupation]:
    """The US census pack's titles that are one plain title: no list, no alternative, no comma."""
    raw = files("evenhand").joinpath("data/packs/en-us/occupations.csv").read_bytes()
    titles = [row["singular"] for row in csv.DictReader(io.StringIO(raw.decode(), newline=""))]
    plain = [title for title in titles if not any(part in title for part in (" and ", " or ", ",", "/", "("))]
    return Dataset(
        rows=tuple(Occupation(title) for title in plain),
        source="census-us",
        sha256=hashlib.sha256(raw).hexdigest(),
        notes=(f"occupations: the {len(plain)} plain titles of the packaged US census pack (BLS 2021)",),
    )


def public(*, offline: bool) -> Dataset[Occupation]:
    """The public set from the Hub (test split, MIT). Its known counts are checked; what differs is a note."""
    from evenhand.data.fetch import hub_file

    path = hub_file(HUB, HUB_FILE, offline=offline)
    raw = path.read_bytes()
    rows = read(raw, f"{HUB}/{HUB_FILE}")
    return Dataset(
        rows=rows, source=f"hub:{HUB}", sha256=hashlib.sha256(raw).hexdigest(), notes=tuple(differences(rows))
    )


def differences(rows: tuple[Occupation, ...]) -> list[str]:
    """What differs from the public set's known counts: 351 rows, 330 unique, 16 repeated, professor six times."""
    counts = Counter((row.sentence, row.title) for row in rows)
    titles = Counter(row.title for row in rows)
    facts = {
        "rows": (len(rows), 351),
        "unique rows": (len(counts), 330),
        "repeated occupations": (sum(n > 1 for n in titles.values()), 16),
        "rows of 'professor'": (titles["professor"], 6),
        "sentences of another form": (sum(r.sentence != f"The {r.title} was a" for r in rows), 0),
    }
    return [
        f"warning: the public set differs from what is known of it: {found} {what}, not {known}"
        for what, (found, known) in facts.items()
        if found != known
    ]
