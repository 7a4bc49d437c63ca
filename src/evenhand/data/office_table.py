"""A statistics office's table by occupation and sex (CSV or XLSX) into a pack: the UK's, by SOC unit group.

The table has a heading with a column for men and one for women, and rows that begin with a unit group's four digits;
rows of major groups, totals and footnotes are passed over.
"""

import csv
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evenhand.data import packs
from evenhand.errors import InputError, nearest

IMPORTS = ("en-uk",)
MOST_BYTES = 200 << 20
WOMEN, MEN = (re.compile(rf"(all )?({words})\b", re.IGNORECASE) for words in ("females?|women", "males?|men"))
CODED = re.compile(r"(\d{4})\s*[:–-]?\s+(\D.*)")
SUPPRESSED = {"", "-", "–", "~", "*", "!", "#", "..", ":", "c", "x", "n/a"}
AGENTS = re.compile(
    r"(ers|ors|sts|ects|ians|ants|ents|ives|ees|men|women|coaches|mechanics|cooks|nurses|guards|clerks)$"
)
PLACES = r" (?:in|of|for|with|at|on|to|within|-|–) "


class Line(NamedTuple):
    """A unit group: its row in the file, its code and name, and the numbers of women and men."""

    row: int
    code: str
    name: str
    women: float
    men: float


class Imported(NamedTuple):
    """The pack's folder, how many occupations it has, and how many have no figure in the table."""

    path: Path
    occupations: int
    without: int


def import_pack(name: str, file: Path, to: Path | None) -> Imported:
    """Writes a pack folder from the office's table.

    Args:
        name: the pack whose templates are used.
        file: the table.
        to: the folder; the user's own packs' folder if None.

    Raises:
        InputError: the table will not do, with file, row and column; or the folder cannot be written.
    """
    if name not in IMPORTS:
        raise InputError(f"no import for a pack {name!r}; {nearest(name, IMPORTS)}")
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}") from None
    lines, without = _unit_groups(file, _sheets(file, raw))
    folder = to or packs.own() / name
    table = io.StringIO(newline="")
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["occupation", "pct_women", "singular", "plural"])
    seen: set[str] = set()
    for line in lines:
        singular, plural = titles(line.name)
        if seen & {singular, plural}:
            singular, plural = (f"{title} ({line.code})" for title in (singular, plural))
        seen |= {singular, plural}
        share = round(100 * line.women / (line.women + line.men), 4)
        writer.writerow([f"{line.code} {line.name}", share, singular, plural])
    about = (packs.packaged() / name / "pack.toml").read_text(encoding="utf-8")
    about += f"imported = {json.dumps(f'{file.name}, sha256 {hashlib.sha256(raw).hexdigest()}')}\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pack.toml").write_text(about, encoding="utf-8")
        (folder / "occupations.csv").write_text(table.getvalue(), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror or error}") from None
    return Imported(folder, packs.load(str(folder.resolve())).occupations, without)


def _sheets(file: Path, raw: bytes) -> Iterator[list[list[Any]]]:
    """The table's rows; of a workbook, sheet by sheet."""
    if not raw.startswith(b"PK"):
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = raw.decode("cp1252", errors="replace")
        try:
            yield list(csv.reader(io.StringIO(text, newline=""), strict=True))
        except csv.Error as error:
            raise InputError(f"{file}, row 1, column 1: neither XLSX nor CSV: {error}") from None
        return
    try:
        import openpyxl
    except ImportError:
        raise InputError(f"{file}: XLSX needs openpyxl (pip install openpyxl); or save the table as CSV") from None
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            if sum(member.file_size for member in archive.infolist()) > MOST_BYTES:
                raise InputError(f"{file}: larger than {MOST_BYTES >> 20} MiB when unpacked; save the table as CSV")
        book = openpyxl.load_workbook(io.BytesIO(raw), read_only=True, data_only=True)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise InputError(f"{file}: not an XLSX file: {error}") from None
    for sheet in book.worksheets:
        yield [list(row) for row in sheet.iter_rows(values_only=True)]


def _text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return "" if cell is None else str(cell).strip()


def _unit_groups(file: Path, sheets: Iterator[list[list[Any]]]) -> tuple[list[Line], int]:
    """The unit groups of the first sheet that has them, and how many of them have no figure."""
    heading = False
    for rows in sheets:
        columns: tuple[int, int] | None = None
        found: list[Line] = []
        seen: dict[str, int] = {}
        without = 0
        for n, row in enumerate(rows, 1):
            cells = [_text(cell) for cell in row]
            women, men = (next((i for i, c in enumerate(cells) if sex.match(c)), None) for sex in (WOMEN, MEN))
            if women is not None and men is not None:
                columns, heading = (women, men), True
                continue
            group = _group(cells)
            if columns is None or group is None:
                continue
            if first := seen.get(group[0]):
                said = f"unit group {group[0]} stands there already (row {first}): give the table of one area and year"
                raise InputError(f"{file}, row {n}, column 1: {said}")
            seen[group[0]] = n
            values = [_number(file, n, column, cells) for column in columns]
            if None in values or not sum(value or 0 for value in values):
                without += 1
            else:
                found.append(Line(n, *group, values[0] or 0.0, values[1] or 0.0))
        if found:
            return found, without
    what = "no row begins with a unit group's four digits" if heading else "no heading has a column for each sex"
    raise InputError(f"{file}, row 1, column 1: {what}")


def _group(cells: Sequence[str]) -> tuple[str, str] | None:
    """Code and name of a unit group's row: in one cell, or in two beside each other."""
    for i, cell in enumerate(cells):
        if coded := CODED.fullmatch(cell):
            return coded[1], coded[2].strip()
        if re.fullmatch(r"\d{4}", cell):
            name = next((other for other in cells[i + 1 :] if other), "")
            return (cell, name) if name and not name[0].isdigit() else None
        if cell:
            return None
    return None


def _number(file: Path, row: int, column: int, cells: Sequence[str]) -> float | None:
    """A cell's number, or None where the office gives none."""
    cell = cells[column] if column < len(cells) else ""
    if cell.lower() in SUPPRESSED:
        return None
    try:
        value = float(cell.replace(",", "").replace(" ", ""))
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise InputError(f"{file}, row {row}, column {column + 1}: {cell!r} is not a number of people")
    return value


def titles(name: str) -> tuple[str, str]:
    """Singular and plural title of a unit group's name, by rule: of "Bricklayers and masons" a bricklayer and mason.

    What stands in brackets and "n.e.c." are left out; only the nouns before "in", "of" and the like become singular.
    """
    kept = re.sub(r"\s*\([^)]*\)|,?\s*\bn\.?e\.?c\.?(?=\s|$)", "", name).strip(" ,")
    words = [word if len(word) > 1 and word.isupper() else word.lower() for word in kept.split()]
    plural = " ".join(words) or name.lower()
    head, *tail = re.split(f"({PLACES})", plural, maxsplit=1)
    nouns = re.split(r"(, | and | or )", head)
    for i in range(0, len(nouns), 2):
        *before, last = nouns[i].split(" ")
        if i == len(nouns) - 1 or AGENTS.search(last):
            nouns[i] = " ".join([*before, _singular(last)])
    return "".join([*nouns, *tail]), plural


def _singular(word: str) -> str:
    for ending, instead in (("men", "man"), ("ies", "y"), ("sses", "ss"), ("shes", "sh"), ("ches", "ch"), ("xes", "x")):
        if word.endswith(ending):
            return word[: -len(ending)] + instead
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word
