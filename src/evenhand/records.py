"""What comes out of a task: one record per item, estimates over them.

A record is a flat mapping of column to value, enough to recompute every metric without the model. An estimate is a
number with its interval, or null with a reason: zero is never a stand-in, since zero means "unbiased" here.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric's card: what is known of it before anything is measured.

    Exactly one of `neutral` (the value of an unbiased model, where the middle is best) and `best` (where an end is
    best) is given, or neither, for numbers that only describe. `below` and `above` say in words what a value on that
    side of neutral means.
    """

    name: str
    unit: str
    text: str
    neutral: float | None = None
    best: float | None = None
    below: str = ""
    above: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One number with its interval; `value` is None exactly where `reason` says why."""

    value: float | None
    ci_low: float | None = None
    ci_high: float | None = None
    level: float = 0.95
    interval: str | None = None
    n: int
    n_undefined: int = 0
    neutral: float | None = None
    best: float | None = None
    unit: str
    reading: str = ""
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As it stands in results.json."""
        row = asdict(self)
        del row["best" if self.neutral is not None else "neutral"]
        return row


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Estimates over a part of the items; `by` names the part."""

    by: dict[str, str]
    n: int
    metrics: dict[str, Estimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a task makes of its records; `files` are JSON files of its own for the run folder, by name."""

    metrics: dict[str, Estimate]
    groups: list[Group] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)
    context: list[str] = field(default_factory=list)


def reading(metric: Metric, value: float, low: float | None, high: float | None) -> str:
    """Which way a number leans, in words, and whether its interval leaves the neutral value out."""
    if metric.best is not None:
        return f"best is {metric.best:g}"
    if metric.neutral is None:
        return ""
    if low is not None and high is not None and low <= metric.neutral <= high:
        return "no clear lean"
    if value == metric.neutral:
        return "neutral"
    return metric.below if value < metric.neutral else metric.above
