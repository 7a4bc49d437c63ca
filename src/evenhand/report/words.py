"""Results in plain words: one sentence a task, with its value, its interval and its reading."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from evenhand.report.charts import family

MINUS = "\N{MINUS SIGN}"


class Lead(NamedTuple):
    """A metric that speaks for its task, and the words before and after its value."""

    metric: str
    before: str
    after: str


LEADS: dict[str, Sequence[Lead]] = {
    "cooccurrence": (
        Lead("likelihood_diff", "After an occupation, words for women against words for men:", "on average"),
        Lead("male_leaning_rate", "Of the occupations,", "lean male"),
        Lead("difference_male_female", "In sampled texts, male words minus female words:", "of the samples"),
        Lead("pct_invalid", "Of the occupations,", "have no sample that names either"),
        Lead("pct_refused", "Of the samples,", "refuse"),
    ),
    "stereoset": (
        Lead("ss", "The stereotype beats the anti-stereotype", "of the time"),
        Lead("icat", "Sense and evenness together (icat) come to", ""),
        Lead("coverage", "Of the replies,", "can be read"),
    ),
    "census": (
        Lead("descriptive", "The model and the census put", "of occupation forms in the same class"),
        Lead("normative", "It has no lean for", "of them"),
    ),
    "bios": (
        Lead(
            "gap_rms",
            "In root mean square over occupations, the rates at which women and men are found differ by",
            "",
        ),
        Lead("balanced_accuracy", "The occupation is found with balanced accuracy", ""),
    ),
}


def value(estimate: dict[str, Any]) -> str:
    """A value as it stands in a sentence: a share as a percentage, a minus sign that is one."""
    number, unit = estimate["value"], estimate["unit"]
    if number is None:
        return "undefined"
    if unit == "percent":
        return f"{number:.1f}%"
    if unit == "share":
        return f"{100 * number:.1f}%"
    said = f"{number:.3f}" if abs(number) < 0.1 else f"{number:.2f}"
    return said.replace("-", MINUS) + (f" {unit}" if unit == "nats" else "")


def bounds(estimate: dict[str, Any]) -> str:
    """The interval in a sentence, without its unit; nothing where there is none."""
    if estimate["ci_low"] is None or estimate["ci_high"] is None:
        return ""
    ends = [
        value(estimate | {"value": estimate[key]}).removesuffix(f" {estimate['unit']}") for key in ("ci_low", "ci_high")
    ]
    level = estimate.get("level") or 0.95
    return f"{100 * level:g}% interval {ends[0]} to {ends[1]}"


def aim(estimate: dict[str, Any]) -> str:
    """The value to read it against."""
    for key, word in (("neutral", "neutral is"), ("best", "best is")):
        if (target := estimate.get(key)) is not None:
            return f"{word} {100 * target if estimate['unit'] == 'share' else target:g}{unit(estimate)}"
    return ""


def unit(estimate: dict[str, Any]) -> str:
    """The percent sign where the value has one."""
    return "%" if estimate["unit"] in ("percent", "share") else ""


def leads(task: str, entries: Sequence[dict[str, Any]]) -> list[Lead]:
    """The metrics that speak for the task: its family's, or the first that any of the runs has."""
    there = {name: None for entry in entries for name in entry["metrics"]}
    found = [lead for lead in LEADS.get(family(task), ()) if lead.metric in there]
    return found or [Lead(name, f"{name}:", "") for name in list(there)[:1]]


def sentence(lead: Lead, estimate: dict[str, Any] | None) -> tuple[str, str, str, str]:
    """A sentence in four parts, so that the page can set the value apart: before, value, the rest, and the reading."""
    if estimate is None:
        return lead.before, "not measured", "", ""
    if estimate["value"] is None:
        return lead.before, "undefined", f"({estimate['reason']})", ""
    aside = "; ".join(part for part in (bounds(estimate), aim(estimate)) if part)
    rest = " ".join(part for part in (lead.after, f"({aside})" if aside else "") if part)
    says = "" if estimate.get("best") is not None else estimate["reading"]
    return lead.before, value(estimate), rest, says


def source(card: Any) -> list[tuple[str, str]]:
    """Where a benchmark is from and what it can say, from its card."""
    return [
        ("Sources", "; ".join(card.sources)),
        ("Languages", ", ".join(card.languages)),
        ("Licence", card.licence),
        ("Asked as", ", else ".join(card.forms)),
    ]
