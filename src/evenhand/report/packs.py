"""Packs as text for a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from evenhand.report.lines import printable

if TYPE_CHECKING:
    from evenhand.data.packs import Pack


def size(pack: "Pack") -> str:
    """What a pack holds, in a line."""
    extra = sum(identifier.extra for identifier in pack.identifiers)
    more = f" and {extra} extra" if extra else ""
    figures = f"{pack.occupations} occupations, {len(pack.forms)} forms" if pack.forms else "templates only, no figures"
    return f"{figures}; {len(pack.identifiers) - extra} identifiers{more}, {len(pack.predicates)} predicates"


def pack_table(packs: "Sequence[Pack]") -> RenderableType:
    """Every pack, a row each."""
    table = Table("pack", "language", "country", "year", "holds", "figure")
    for pack in packs:
        about = pack.about
        cells = (
            pack.name,
            about["language"],
            about["country"],
            str(about.get("year", "")),
            size(pack),
            about["figure"],
        )
        table.add_row(*(escape(printable(cell)) for cell in cells))
    return table


def pack_page(pack: "Pack") -> RenderableType:
    """One pack: where it is from, its templates, its notes."""
    keys = ("title", "language", "country", "year", "figure", "source", "url", "licence", "imported")
    facts = [f"{key}: {pack.about[key]}" for key in keys if key in pack.about]
    who = Table("identifier", "gender", "number", "asked")
    for one in pack.identifiers:
        words = "/".join((one.word, *one.variants))
        text = one.text.replace("{mask}", words)
        who.add_row(escape(printable(text)), one.gender, one.number, "identifiers=all" if one.extra else "always")
    what = Table("predicate", "number", "tense", "as the paper prints it")
    for predicate in pack.predicates:
        cells = (predicate.text, predicate.number, predicate.tense, predicate.paper or "")
        what.add_row(*(escape(printable(cell)) for cell in cells))
    lines = [f"{pack.name}: {size(pack)}", *facts, f"folder: {pack.path}"]
    notes = [f"- {note}" for note in pack.about.get("notes", ())]
    texts = [[Text(printable(line)) for line in part] for part in (lines, notes)]
    return Group(*texts[0], who, what, *texts[1])
