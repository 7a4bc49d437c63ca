"""What can be wrong with a pack: each fault is one line with file, row and column."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from evenhand.errors import nearest

GENDERS = ("female", "male")
NUMBERS = ("singular", "plural")
COLUMNS = {"female": "feminine", "male": "masculine"}
TEXT, LIST, WHOLE, FLAG, TABLE = "a text", "a list of texts", "a whole number", "true or false", "a table"
TOP = {
    "name": TEXT, "language": TEXT, "country": TEXT, "title": TEXT, "source": TEXT, "licence": TEXT, "figure": TEXT,
}  # fmt: skip
TOP_OPTIONAL = {"year": WHOLE, "url": TEXT, "notes": LIST, "templates": TEXT, "imported": TEXT, "article": TABLE}
ARTICLE = {"vowels": TEXT, "a": LIST, "an": LIST}
SECTIONS = {
    "identifiers": (
        {"text": TEXT, "word": TEXT, "gender": TEXT, "number": TEXT},
        {"variants": LIST, "extra": FLAG},
    ),
    "predicates": ({"text": TEXT, "number": TEXT, "tense": TEXT}, {"paper": TEXT}),
}


class Fault(NamedTuple):
    """One thing that is wrong: a row is a line of the file, a column a key or a heading."""

    file: Path
    row: int
    column: str | int
    text: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.file}, row {self.row}, column {self.column}: {self.text}"

    @classmethod
    def from_toml(cls, file: Path, message: str) -> "Fault":
        """A parser's message, its place taken out of it."""
        place = re.search(r"\(at (?:line (\d+), column (\d+)|end of document)\)", message)
        row, column = (int(place[1]), int(place[2])) if place and place[1] else (1, 1)
        return cls(file, row, column, f"not TOML: {message}")


class Rows(NamedTuple):
    """occupations.csv: its heading, and per row its line and its cells."""

    file: Path
    header: list[str]
    lines: list[tuple[int, list[str]]]

    @property
    def numbers(self) -> list[str]:
        """The numbers that the heading has forms for."""
        row = dict.fromkeys(self.header, "x")
        return [number for number in NUMBERS if titles_of(row, number)]


def titles_of(row: Mapping[str, str], number: str) -> dict[str, str]:
    """Gender to title: from one column for both, or from a column each; empty where there is neither."""
    if number in row:
        return dict.fromkeys(GENDERS, row[number])
    columns = {gender: f"{COLUMNS[gender]}_{number}" for gender in GENDERS}
    return {gender: row[column] for gender, column in columns.items()} if set(columns.values()) <= row.keys() else {}


@dataclass(frozen=True, slots=True)
class Templates:
    """pack.toml, with the lines on which its keys stand."""

    file: Path
    lines: Mapping[tuple[str, int, str], int]

    def fault(self, section: str, index: int, key: str, text: str) -> Fault:
        """A fault at a key, or where its table begins; tables of a section are counted from 1."""
        places = [(section, index, key), (section, index, ""), ("", 0, section)]
        row = next((self.lines[place] for place in places if place in self.lines), 1)
        return Fault(self.file, row, key, text)

    def check_numbers(self, numbers: Sequence[str], doc: Mapping[str, Any], faults: list[Fault]) -> None:
        """Every number of the forms has predicates and identifiers of both genders, and no other number has any."""
        for section in SECTIONS:
            for i, row in enumerate(doc[section], 1):
                if row["number"] not in (*numbers, "both"):
                    text = f"{row['number']}, and occupations.csv has no column for it"
                    faults.append(self.fault(section, i, "number", text))
        for number in numbers:
            fit = {name: [r for r in doc[name] if r["number"] in (number, "both")] for name in SECTIONS}
            have = {row["gender"] for row in fit["identifiers"] if not row.get("extra")}
            for gender in GENDERS:
                if gender not in have:
                    faults.append(self.fault("identifiers", 0, "gender", f"no {gender} identifier in the {number}"))
            if not fit["predicates"]:
                faults.append(self.fault("predicates", 0, "number", f"no predicate in the {number}"))


def _lines(text: str) -> dict[tuple[str, int, str], int]:
    """Section, which table of it, key: to line. Section and key are empty where there is none."""
    found: dict[tuple[str, int, str], int] = {}
    section, counts = ("", 0), dict[str, int]()
    for n, line in enumerate(text.splitlines(), 1):
        if head := re.match(r"\s*(\[\[?)\s*([\w-]+)\s*\]", line):
            counts[head[2]] = counts.get(head[2], 0) + 1
            section = (head[2], counts[head[2]])
            found[*section, ""] = n
            found.setdefault(("", 0, head[2]), n)
        elif key := re.match(r"\s*\"?([\w-]+)\"?\s*=", line):
            found.setdefault((*section, key[1]), n)
    return found


def _is(value: Any, kind: str) -> bool:
    if kind == LIST:
        return isinstance(value, list) and all(isinstance(item, str) and item for item in value)
    if kind == WHOLE:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, {TEXT: str, FLAG: bool, TABLE: dict}[kind])


def check_templates(file: Path, text: str, doc: Mapping[str, Any], faults: list[Fault]) -> Templates:
    """All that is wrong with pack.toml by itself."""
    found = Templates(file, _lines(text))

    def table(section: str, i: int, row: Mapping[str, Any], need: Mapping[str, str], may: Mapping[str, str]) -> bool:
        before, kinds = len(faults), {**need, **may}
        for key in need:
            if key not in row:
                faults.append(found.fault(section, i, key, "is missing"))
        for key, value in row.items():
            if key not in kinds:
                faults.append(found.fault(section, i, key, f"no such key; {nearest(key, kinds)}"))
            elif not _is(value, kinds[key]):
                faults.append(found.fault(section, i, key, f"{value!r} is not {kinds[key]}"))
            elif key in need and not str(value).strip():
                faults.append(found.fault(section, i, key, "is empty"))
        return len(faults) == before

    top = {key: value for key, value in doc.items() if key not in SECTIONS}
    table("", 0, top, TOP, TOP_OPTIONAL)
    if isinstance(doc.get("article"), dict):
        table("article", 1, doc["article"], {}, ARTICLE)
    for section, (need, may) in SECTIONS.items():
        rows = doc.get(section, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            faults.append(found.fault("", 0, section, f"write each as a table of its own, [[{section}]]"))
            continue
        if not rows and "templates" not in doc:
            faults.append(found.fault("", 0, section, "is missing"))
        seen: dict[tuple[str, ...], int] = {}
        for i, row in enumerate(rows, 1):
            if table(section, i, row, need, may):
                _check_row(found, section, i, row, seen, faults)
    return found


def _check_row(
    found: Templates,
    section: str,
    i: int,
    row: Mapping[str, Any],
    seen: dict[tuple[str, ...], int],
    faults: list[Fault],
) -> None:
    """One identifier or predicate: its values, and that it stands there once."""
    text, place = row["text"], "{mask}" if section == "identifiers" else "{a}"
    choices = {"number": (*NUMBERS, "both"), **({"gender": GENDERS} if section == "identifiers" else {})}
    for key, allowed in choices.items():
        if row[key] not in allowed:
            faults.append(found.fault(section, i, key, f"{row[key]!r} is not one of {', '.join(allowed)}"))
    if text.count(place) > 1 or (section == "identifiers" and place not in text):
        faults.append(found.fault(section, i, "text", f"{text!r} should hold {place} once"))
    words = [row["word"], *row.get("variants", [])] if section == "identifiers" else [""]
    for n, word in enumerate(words):
        # Capital letters are no difference: an uncased model would count the word twice.
        twice = word.casefold() in [other.casefold() for other in words[:n]]
        for number in NUMBERS if row["number"] == "both" else (row["number"],):
            first = seen.setdefault((number, text, word.casefold()), i)
            if first != i or twice:
                at = found.fault(section, first, "", "").row
                key = "variants" if n else "word" if word else "text"
                faults.append(found.fault(section, i, key, f"{word or text!r} stands there already (row {at})"))
                return


def check_figures(rows: Rows, faults: list[Fault]) -> None:
    """All that is wrong with occupations.csv; its cells are looked at where its heading will do."""
    before = len(faults)
    _check_heading(rows, faults)
    if not rows.lines:
        faults.append(Fault(rows.file, 1, 1, "has no rows"))
    if len(faults) == before:
        _check_cells(rows, faults)


def _check_heading(rows: Rows, faults: list[Fault]) -> None:
    before = len(faults)
    header = rows.header
    allowed = ["occupation", "pct_women", *NUMBERS, *(f"{g}_{n}" for n in NUMBERS for g in COLUMNS.values())]
    for column in ("occupation", "pct_women"):
        if column not in header:
            faults.append(Fault(rows.file, 1, column, "this column is missing"))
    for i, column in enumerate(header):
        if column not in allowed:
            faults.append(Fault(rows.file, 1, column or i + 1, f"no such column; {nearest(column, allowed)}"))
        elif column in header[:i]:
            faults.append(Fault(rows.file, 1, column, "this column stands there twice"))
    for number in NUMBERS:
        pair = [f"{gender}_{number}" for gender in COLUMNS.values()]
        there = [column for column in pair if column in header]
        if number in header and there:
            faults.append(Fault(rows.file, 1, number, f"give this column or {' and '.join(pair)}, not both"))
        elif len(there) == 1:
            (absent,) = set(pair) - set(there)
            faults.append(Fault(rows.file, 1, absent, "this column is missing"))
    if not rows.numbers and len(faults) == before:
        faults.append(Fault(rows.file, 1, "singular", "no column with forms"))


def _check_cells(rows: Rows, faults: list[Fault]) -> None:
    header = rows.header
    seen: dict[tuple[str, str], int] = {}
    for line, cells in rows.lines:
        if len(cells) != len(header):
            faults.append(Fault(rows.file, line, len(cells), f"{len(cells)} cells where the heading has {len(header)}"))
            continue
        for column, cell in zip(header, cells, strict=True):
            if column == "pct_women":
                if not _percentage(cell):
                    faults.append(Fault(rows.file, line, column, f"{cell!r} is not a number from 0 to 100"))
            elif not cell:
                faults.append(Fault(rows.file, line, column, "is empty"))
            elif (first := seen.setdefault((column, cell.casefold()), line)) != line:
                faults.append(Fault(rows.file, line, column, f"{cell!r} stands there already (row {first})"))


def _percentage(cell: str) -> bool:
    try:
        value = float(cell)
    except ValueError:
        return False
    return math.isfinite(value) and 0 <= value <= 100
