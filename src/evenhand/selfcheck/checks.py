"""A check, and what makes one: a scripted model through the whole pipeline, a number that must come out."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isclose, isfinite
from pathlib import Path
from typing import Any

from evenhand.run import run


@dataclass(frozen=True, slots=True)
class Check:
    """One number: what it must be, what it is."""

    name: str
    expected: float | str
    measured: float | str | None
    passed: bool


def measured(folder: Path, name: str, script: Mapping[str, Any], task: str, **settings: Any) -> dict[str, Any]:
    """A scripted model's entry in results.json."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"name": name, **script}), encoding="utf-8")
    settings = {"bootstrap": 0, "offline": True} | settings
    found: dict[str, Any] = run(f"scripted:{path}", task, out=folder / name, **settings).results["tasks"][task]
    return found


def equal(name: str, entry: Mapping[str, Any], expected: Mapping[str, float]) -> list[Check]:
    """Metrics that must have these values, to rounding."""
    checks = []
    for metric, value in expected.items():
        found = entry["metrics"][metric]["value"]
        right = found is not None and isclose(found, value, rel_tol=1e-9, abs_tol=1e-9)
        checks.append(Check(f"{name}: {metric}", value, found, right))
    return checks


def within(name: str, entry: Mapping[str, Any], expected: Mapping[str, float]) -> list[Check]:
    """Metrics whose interval must hold these values."""
    checks = []
    for metric, value in expected.items():
        found = entry["metrics"][metric]
        low, high = found["ci_low"], found["ci_high"]
        right = low is not None and isfinite(low) and isfinite(high) and low <= value <= high and low < high
        said = "no interval" if low is None else f"{found['value']:.6g} [{low:.6g}, {high:.6g}]"
        checks.append(Check(f"{name}: {metric}", f"{value:g} in the interval", said, right))
    return checks
