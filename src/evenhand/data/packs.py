"""Packs: one folder per country, with templates (pack.toml) and figures (occupations.csv); see docs/census.md.

A folder under `data/packs/`, under the user's data folder, or anywhere by its path is a pack; no code knows its name.
"""

import csv
import hashlib
import io
import os
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from evenhand.data.pack_faults import GENDERS, NUMBERS, Fault, Rows, check_figures, check_templates, titles_of
from evenhand.errors import InputError, nearest

TEMPLATES = ("article", "identifiers", "predicates")


@dataclass(frozen=True, slots=True)
class Identifier:
    """Who works: `text` with {mask} for the word that is masked. `variants` are other spellings of `word`.

    An `extra` one is only asked for with the option identifiers=all.
    """

    text: str
    word: str
    gender: str
    number: str
    variants: tuple[str, ...] = ()
    extra: bool = False


@dataclass(frozen=True, slots=True)
class Predicate:
    """What stands between identifier and occupation; {a} is the article. `paper` is as the paper prints it."""

    text: str
    number: str
    tense: str
    paper: str | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """An occupation in one number: its title beside a female and beside a male identifier, one title in many languages.

    `pct_women` is the census's figure for the occupation, in percent.
    """

    occupation: str
    pct_women: float
    number: str
    female: str
    male: str

    def title(self, gender: str) -> str:
        """The title that goes with an identifier of that gender."""
        return self.female if gender == "female" else self.male


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """One country: templates, and a form per occupation and number, singular before plural."""

    name: str
    path: Path
    about: dict[str, Any]
    vowels: str
    a: tuple[str, ...]
    an: tuple[str, ...]
    identifiers: tuple[Identifier, ...]
    predicates: tuple[Predicate, ...]
    forms: tuple[Form, ...]
    sha256: str

    @property
    def occupations(self) -> int:
        """How many occupations there are."""
        return len({form.occupation for form in self.forms})

    def identifiers_of(self, number: str, *, extra: bool = False) -> list[Identifier]:
        """The identifiers that go with a form of that number, the extra ones only if asked for."""
        return [i for i in self.identifiers if i.number in (number, "both") and (extra or not i.extra)]

    def predicates_of(self, number: str) -> list[Predicate]:
        """The predicates that go with a form of that number."""
        return [p for p in self.predicates if p.number in (number, "both")]

    def article(self, title: str) -> str:
        """`a` or `an`: by the beginnings that pack.toml lists, else by the first letter."""
        if title.startswith(self.an):
            return "an"
        if title.startswith(self.a) or title[:1].lower() not in self.vowels:
            return "a"
        return "an"

    def sentence(self, identifier: Identifier, predicate: str, form: Form) -> str:
        """The probe with {mask} in it, such as "The {mask} worked as an engineer"."""
        title = form.title(identifier.gender)
        return f"{identifier.text} {predicate.replace('{a}', self.article(title))} {title}"


def packaged() -> Path:
    """The folder of the packs that evenhand brings."""
    return Path(str(files("evenhand"))) / "data" / "packs"


def own() -> Path:
    """The folder of the user's packs (XDG base directories)."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "evenhand" / "packs"


def known() -> dict[str, Path]:
    """Every pack by name; one of the user's takes the place of a packaged one that has no figures."""
    found = {path.parent.name: path.parent for path in sorted(packaged().glob("*/pack.toml"))}
    for path in sorted(own().glob("*/pack.toml")):
        if not (found.get(path.parent.name, Path()) / "occupations.csv").is_file():
            found[path.parent.name] = path.parent
    return found


def find(ref: str) -> Path:
    """The folder of a pack, by name or path.

    Raises:
        InputError: there is no such pack.
    """
    names = known()
    if ref in names:
        return names[ref]
    path = Path(ref)
    if not path.is_dir():
        raise InputError(f"no pack {ref!r}: neither a folder nor a pack's name; {nearest(ref, names)}")
    return path


def load(ref: str) -> Pack:
    """The pack of that name or path.

    Raises:
        InputError: there is none, or it has a fault: the first is named.
    """
    pack, faults = read(find(ref))
    if faults or pack is None:
        more = f" (and {len(faults) - 1} more: evenhand pack check {ref})" if len(faults) > 1 else ""
        raise InputError(f"{faults[0]}{more}")
    return pack


def read(folder: Path) -> tuple[Pack | None, list[Fault]]:
    """A pack and all that is wrong with it; None where something is."""
    faults: list[Fault] = []
    toml, raw = folder / "pack.toml", b""
    try:
        raw = toml.read_bytes()
        text = raw.decode("utf-8-sig")
        doc = tomllib.loads(text)
    except OSError as error:
        return None, [Fault(toml, 1, 1, f"cannot be read: {error.strerror or error}")]
    except UnicodeDecodeError as error:
        return None, [Fault(toml, raw[: error.start].count(b"\n") + 1, 1, "not UTF-8; save the file as UTF-8")]
    except tomllib.TOMLDecodeError as error:
        return None, [Fault.from_toml(toml, str(error))]
    hashes = [raw]
    templates = check_templates(toml, text, doc, faults)
    if borrowed := doc.get("templates"):
        source = packaged() / str(borrowed) / "pack.toml"
        if not source.is_file():
            faults.append(templates.fault("", 0, "templates", f"no packaged pack {borrowed!r}"))
            return None, faults
        hashes.append(source.read_bytes())
        lent = tomllib.loads(hashes[-1].decode())
        doc = {name: lent[name] for name in TEMPLATES if name in lent} | doc
    rows = _figures(folder / "occupations.csv", hashes, faults, optional="templates" in doc)
    if rows is not None:
        check_figures(rows, faults)
        if not faults:
            templates.check_numbers(rows.numbers, doc, faults)
    if faults:
        return None, faults
    return _pack(folder, doc, rows, hashlib.sha256(b"".join(hashes)).hexdigest()), []


def _figures(path: Path, hashes: list[bytes], faults: list[Fault], *, optional: bool) -> Rows | None:
    """The table as text, or None where it is absent or no CSV."""
    if optional and not path.exists():
        return None
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig")
    except OSError as error:
        faults.append(Fault(path, 1, 1, f"cannot be read: {error.strerror or error}"))
        return None
    except UnicodeDecodeError as error:
        faults.append(Fault(path, raw[: error.start].count(b"\n") + 1, 1, "not UTF-8; save the file as UTF-8"))
        return None
    hashes.append(raw)
    table = csv.reader(io.StringIO(text, newline=""), strict=True)
    lines: list[tuple[int, list[str]]] = []
    try:
        for row in table:
            if row:
                lines.append((table.line_num, [cell.strip() for cell in row]))
    except csv.Error as error:
        faults.append(Fault(path, table.line_num, 1, f"not a CSV row: {error}"))
        return None
    return Rows(path, lines[0][1] if lines else [], lines[1:])


def _pack(folder: Path, doc: dict[str, Any], rows: Rows | None, sha256: str) -> Pack:
    """A pack of what was checked."""
    forms = []
    for _, cells in rows.lines if rows else []:
        row = dict(zip(rows.header if rows else [], cells, strict=True))
        for number in NUMBERS:
            if titles := titles_of(row, number):
                forms.append(Form(row["occupation"], float(row["pct_women"]), number, *(titles[g] for g in GENDERS)))
    article = doc.get("article", {})
    return Pack(
        name=doc["name"],
        path=folder,
        about={key: value for key, value in doc.items() if key not in TEMPLATES},
        vowels=article.get("vowels", ""),
        a=tuple(article.get("a", ())),
        an=tuple(article.get("an", ())),
        identifiers=tuple(
            Identifier(**row | {"variants": tuple(row.get("variants", ()))}) for row in doc["identifiers"]
        ),
        predicates=tuple(Predicate(**row) for row in doc["predicates"]),
        forms=tuple(forms),
        sha256=sha256,
    )
