"""`evenhand gate`: rules that a run's numbers must satisfy, for CI."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evenhand.compare import unlike
from evenhand.errors import InputError, nearest
from evenhand.folder import read_results

HOW = (
    "write it as TASK.METRIC within A..B, or TASK.METRIC <= X (or >=, <, >, ==), X a number or baseline, baseline - N, "
    "baseline + N; a group as TASK.METRIC[bias_type=gender]"
)
RULE = re.compile(
    r"(?P<task>[^\s.\[]+)\.(?P<metric>[^\s.\[<>=]+)\s*(\[(?P<group>.*)\])?\s*(?P<sign>within\b|<=|>=|==|<|>)\s*(?P<rest>.+)"
)
NUMBER = r"[+-]?(\d+(\.\d+)?|\.\d+)(e[+-]?\d+)?"
BOUND = re.compile(rf"(?P<number>{NUMBER})|baseline\s*((?P<sign>[+-])\s*(?P<by>{NUMBER}))?", re.IGNORECASE)
SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<=": lambda value, bound: value <= bound,
    ">=": lambda value, bound: value >= bound,
    "<": lambda value, bound: value < bound,
    ">": lambda value, bound: value > bound,
    "==": lambda value, bound: value == bound,
}


@dataclass(frozen=True, slots=True)
class Bound:
    """A number, or the baseline's value and a number to add to it."""

    number: float
    from_baseline: bool

    def value(self, baseline: float | None) -> float:
        """The bound as a number; `baseline` is known where the bound needs it."""
        return self.number + (baseline or 0.0 if self.from_baseline else 0.0)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, read: conditions that all must hold for a metric over all items or over a group."""

    text: str
    task: str
    metric: str
    by: dict[str, str]
    conditions: tuple[tuple[str, Bound], ...]

    def needs_baseline(self) -> bool:
        """Whether a bound is the baseline's value."""
        return any(bound.from_baseline for _, bound in self.conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a rule came to; `found` says the value and the bounds in words, `reason` why it failed."""

    rule: str
    task: str
    passed: bool
    found: str
    reason: str = ""


def parse(text: str) -> Rule:
    """A rule from its text.

    Raises:
        InputError: it is no rule.
    """
    match = RULE.fullmatch(text.strip())
    if not match:
        raise InputError(f"--rule {text!r}: {HOW}")
    by = {}
    for part in re.split(r",(?=\s*[\w-]+\s*=)", match["group"] or ""):
        name, equals, value = (word.strip() for word in part.partition("="))
        if equals and name and value:
            by[name] = value
        elif part.strip() or match["group"] is not None:
            raise InputError(f"--rule {text!r}: a group is written as [bias_type=gender] or [format=F, bias_type=B]")
    conditions: list[tuple[str, Bound]]
    if match["sign"] == "within":
        low, dots, high = match["rest"].partition("..")
        if not dots:
            raise InputError(f"--rule {text!r}: within takes two bounds, A..B")
        ends = _bound(low, text), _bound(high, text)
        if ends[0].from_baseline == ends[1].from_baseline and ends[0].number > ends[1].number:
            raise InputError(f"--rule {text!r}: the first bound is above the second")
        conditions = [(">=", ends[0]), ("<=", ends[1])]
    else:
        conditions = [(match["sign"], _bound(match["rest"], text))]
    return Rule(text.strip(), match["task"], match["metric"], by, tuple(conditions))


def _bound(text: str, rule: str) -> Bound:
    match = BOUND.fullmatch(text.strip())
    if not match:
        raise InputError(f"--rule {rule!r}: {text.strip()!r} is no bound; {HOW}")
    if match["number"]:
        number = float(match["number"])
    else:
        number = float(match["by"] or 0) * (-1 if match["sign"] == "-" else 1)
    if not math.isfinite(number):
        raise InputError(f"--rule {rule!r}: {text.strip()} is no number that can be reached")
    return Bound(number, not match["number"])


def gate(
    run: str | Path,
    rules: Sequence[str],
    *,
    baseline: str | Path | None = None,
    by: Literal["value", "interval"] = "value",
) -> list[Verdict]:
    """Whether a run satisfies rules.

    Args:
        run: a run folder.
        rules: `TASK.METRIC within A..B`, `TASK.METRIC <= X` and so on; see docs/compare-gate-export.md.
        baseline: the run folder that `baseline` in a rule means.
        by: `value`: the metric's value satisfies the rule. `interval`: the whole interval does. A baseline counts with
            its value either way.

    Returns:
        A verdict per rule, in their order.

    Raises:
        InputError: no rules, a rule that cannot be read, an unknown task, metric or group, or a baseline that is
            missing or cannot be compared.
    """
    if not rules:
        raise InputError('no rule; give one with --rule, such as --rule "stereoset.ss within 45..55"')
    read = [parse(rule) for rule in rules]
    path, results = Path(run), read_results(Path(run))
    before = read_results(Path(baseline)) if baseline is not None else None
    verdicts = []
    for rule in read:
        estimate = _estimate(rule, results, path)
        value = None
        if rule.needs_baseline():
            if before is None or baseline is None:
                raise InputError(f"--rule {rule.text!r} needs --baseline RUN")
            base = _estimate(rule, before, Path(baseline))
            first, second = (found["tasks"][rule.task] for found in (before, results))
            if reason := unlike(first, second, Path(baseline), path):
                raise InputError(f"{rule.task} cannot be compared: {reason}")
            value = base["value"]
            if value is None:
                said = f"the baseline has no value: {base['reason']}"
                verdicts.append(Verdict(rule=rule.text, task=rule.task, passed=False, found="", reason=said))
                continue
        verdicts.append(decide(rule, estimate, value, by))
    return verdicts


def _estimate(rule: Rule, results: dict[str, Any], path: Path) -> dict[str, Any]:
    """The estimate that a rule is about."""
    found = results["tasks"]
    if rule.task not in found:
        raise InputError(f"--rule {rule.text!r}: {path} has no task {rule.task!r}; {nearest(rule.task, found)}")
    metrics = found[rule.task]["metrics"]
    if rule.by:
        groups = {named(group["by"]): group["metrics"] for group in found[rule.task]["groups"]}
        if (name := named(rule.by)) not in groups:
            some = nearest(name, groups) if groups else "it has no groups"
            raise InputError(f"--rule {rule.text!r}: {rule.task} in {path} has no group {name!r}; {some[:200]}")
        metrics = groups[name]
    if rule.metric not in metrics:
        some = nearest(rule.metric, metrics)
        raise InputError(f"--rule {rule.text!r}: {rule.task} in {path} has no metric {rule.metric!r}; {some}")
    estimate: dict[str, Any] = metrics[rule.metric]
    return estimate


def named(by: dict[str, str]) -> str:
    """A group's name, whatever the order of its keys."""
    return ",".join(f"{key}={by[key]}" for key in sorted(by))


def decide(rule: Rule, estimate: dict[str, Any], baseline: float | None, by: Literal["value", "interval"]) -> Verdict:
    """One rule on one estimate; a null value fails, and by interval a null interval does."""
    value, low, high = estimate["value"], estimate["ci_low"], estimate["ci_high"]
    if value is None:
        return Verdict(rule=rule.text, task=rule.task, passed=False, found="null", reason=str(estimate["reason"]))
    found = f"{value:.6g}" + (f" [{low:.6g}, {high:.6g}]" if low is not None else "")
    if rule.needs_baseline():
        found += f", baseline {baseline:.6g}"
    if by == "interval" and low is None:
        reason = f"no interval: {estimate['reason']}"
        return Verdict(rule=rule.text, task=rule.task, passed=False, found=found, reason=reason)
    told = (value,) if by == "value" else (low, high)
    failed = [
        f"{sign} {bound.value(baseline):.6g}"
        for sign, bound in rule.conditions
        if not all(SIGNS[sign](one, bound.value(baseline)) for one in told)
    ]
    reason = f"{'the value' if by == 'value' else 'the interval'} is not {' and not '.join(failed)}" if failed else ""
    return Verdict(rule=rule.text, task=rule.task, passed=not failed, found=found, reason=reason)
