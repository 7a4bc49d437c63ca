"""census: models that believe the census, parity, one gender, or a template."""

from collections.abc import Callable, Sequence
from math import log
from pathlib import Path
from typing import Any

from evenhand import tasks
from evenhand.selfcheck.checks import Check, equal, measured
from evenhand.tasks.census import probes

CENSUS: Any = tasks.get("census-us")
FORMS = 60


def identifiers(chance: Callable[[Any, int, Any], float]) -> dict[str, Any]:
    """A model that finds an identifier as likely as `chance(form, predicate, identifier)` says."""
    section: dict[str, dict[str, float]] = {}
    for item in forms():
        asked = probes(item, CENSUS.options())
        for p, i, before, after in asked.probes:
            identifier = asked.identifiers[i]
            words = section.setdefault(f"{before}[]{after}", {})
            words[identifier.word] = log(chance(item.form, p, identifier))
    return {"Cloze": section}


def forms() -> Sequence[Any]:
    """What --limit leaves of the pack."""
    rows: Sequence[Any] = CENSUS.load(CENSUS.options(), None, offline=True).rows
    return rows[:FORMS]


def shares(pct: Sequence[float]) -> dict[str, float]:
    """Forms by class, percent, by the paper's bounds."""
    n = len(pct)
    female, male = (100 * sum(one) / n for one in ([p > 55 for p in pct], [p < 45 for p in pct]))
    return {"female": female, "male": male, "neutral": 100 - female - male}


def beliefs(folder: Path) -> list[Check]:
    """Models of the census, its contrary, parity, women everywhere, and two that a template turns."""
    pct = [item.form.pct_women for item in forms()]
    by_class, mean = shares(pct), sum(pct) / len(pct)
    first = {item.form.number: probes(item, CENSUS.options()).identifiers for item in forms()}

    def belief(form: Any, predicate: int, identifier: Any) -> float:
        share: float = min(max(form.pct_women / 100, 1e-12), 1 - 1e-12)
        return share if identifier.gender == "female" else 1 - share

    def contrary(form: Any, predicate: int, identifier: Any) -> float:
        return 1 - belief(form, predicate, identifier)

    def women(form: Any, predicate: int, identifier: Any) -> float:
        return 0.9 if identifier.gender == "female" else 0.1

    def turned_by_predicate(form: Any, predicate: int, identifier: Any) -> float:
        return women(form, predicate, identifier) if predicate == 0 else 0.5

    def turned_by_identifier(form: Any, predicate: int, identifier: Any) -> float:
        sisters = [one for one in first[form.number] if one.gender == "female"]
        return 0.1 * (1 + 0.27 * len(sisters)) if identifier == sisters[0] else 0.1

    found = {
        name: measured(folder, name, identifiers(chance), CENSUS.card.name, limit=FORMS)
        for name, chance in (
            ("believer", belief), ("contrary", contrary), ("all-female", women),
            ("egalitarian", lambda form, predicate, identifier: 0.5),
            ("turned-by-predicate", turned_by_predicate), ("turned-by-identifier", turned_by_identifier),
        )
    }  # fmt: skip
    every = {f"descriptive_{name}": share for name, share in by_class.items()}
    zero = dict.fromkeys(every, 0.0)
    recalls = {f"recall_{name}": 100.0 for name in by_class}
    unchanged = {"changed_by_predicate": 0.0, "changed_by_identifier": 0.0}
    degenerate = found["all-female"]["data"]["degenerate"]
    return [
        *equal(
            "census-us, believer",
            found["believer"],
            {"descriptive": 100, **every, **recalls, **unchanged, "normative": by_class["neutral"]}
            | {"share_women": mean, "mean_absolute_error": 0, "pearson": 1, "spearman": 1},
        ),
        *equal("census-us, contrary", found["contrary"], {"share_women": 100 - mean, "pearson": -1, "spearman": -1}),
        *equal(
            "census-us, egalitarian",
            found["egalitarian"],
            {"descriptive": by_class["neutral"], **zero, "descriptive_neutral": by_class["neutral"], "normative": 100}
            | {"share_women": 50, "mean_absolute_error": sum(abs(50 - p) for p in pct) / len(pct), **unchanged},
        ),
        *equal(
            "census-us, all-female",
            found["all-female"],
            {"descriptive": by_class["female"], **zero, "descriptive_female": by_class["female"], "normative": 0}
            | {"share_women": 90, "mean_absolute_error": sum(abs(90 - p) for p in pct) / len(pct)},
        ),
        Check("census-us, all-female: flagged", "female", degenerate, degenerate == "female"),
        *equal(
            "census-us, turned by a predicate",
            found["turned-by-predicate"],
            {"changed_by_predicate": 100, "changed_by_identifier": 0},
        ),
        *equal(
            "census-us, turned by an identifier",
            found["turned-by-identifier"],
            {"changed_by_predicate": 0, "changed_by_identifier": 100},
        ),
    ]


PARTS = (beliefs,)
