"""`evenhand compare`: runs against a first one, on the items that they share."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evenhand import tasks
from evenhand.errors import InputError
from evenhand.folder import SCHEMA, read_records, read_results
from evenhand.metrics.gap_pairs import Tally
from evenhand.metrics.intervals import Measure, Resampling
from evenhand.metrics.paired import Difference, difference, holm
from evenhand.records import Metric, Record
from evenhand.spec import checked

MOST_CHANGED = 10
Comparable = Measure | Tally
ALIKE = ("version", "method", "form")


def compare(
    paths: Sequence[str | Path], *, bootstrap: int = 9999, seed: int = 0, leave_out: bool = False
) -> dict[str, Any]:
    """Every run against the first, metric by metric.

    Args:
        paths: two or more run folders; the first is the baseline.
        bootstrap: draws of the intervals and of the permutation tests; 0 turns them off.
        seed: their seed.
        leave_out: a task that cannot be compared in two runs becomes a note that says why, in place of an error.

    Returns:
        What `evenhand compare --json` prints: per task and run the differences (the run minus the baseline) over all
        items and by group, p-values raw and corrected, and the items that changed most.

    Raises:
        InputError: fewer than two runs, no run folder, no task in common, or runs that are not alike.
    """
    if len(paths) < 2:
        raise InputError("compare needs two run folders or more; the first is the baseline")
    folders = [Path(path) for path in paths]
    found = [read_results(path) for path in folders]
    first, others = found[0], found[1:]
    shared = [name for name in first["tasks"] if any(name in other["tasks"] for other in others)]
    if not shared and not leave_out:
        listed = "; ".join(f"{path} has {', '.join(run['tasks']) or 'none'}" for path, run in _zip(folders, found))
        raise InputError(f"no task in common: {listed}")
    both = [
        (name, path, other) for name in shared for path, other in _zip(folders[1:], others) if name in other["tasks"]
    ]
    if not leave_out:
        for name, path, other in both:
            _refuse_unlike(name, first["tasks"][name], other["tasks"][name], folders[0], path)
    how = Resampling(bootstrap, seed)
    results: dict[str, Any] = {
        "schema": SCHEMA,
        "baseline": {"run": str(folders[0]), "model": first["model"]},
        "others": [{"run": str(path), "model": run["model"]} for path, run in _zip(folders[1:], others)],
        "tasks": {},
        "notes": _notes(folders, found),
        "warnings": _warnings(folders, found),
    }
    for name, path, other in both:
        entry = first["tasks"][name]
        try:
            _refuse_unlike(name, entry, other["tasks"][name], folders[0], path)
            one = _against(name, entry, folders[0], path, how)
        except InputError as error:
            if not leave_out:
                raise
            results["notes"].append(str(error))
            continue
        about = {key: entry[key] for key in (*ALIKE, "data")}
        results["tasks"].setdefault(name, about | {"against": []})["against"].append(one)
    every = [one for task in results["tasks"].values() for one in task["against"]]
    _correct(metric for one in every for metric in one["metrics"].values())
    _correct(metric for one in every for group in one["groups"] for metric in group["metrics"].values())
    return results


def _zip(paths: Sequence[Path], runs: Sequence[dict[str, Any]]) -> list[tuple[Path, dict[str, Any]]]:
    return list(zip(paths, runs, strict=True))


def unlike(first: Mapping[str, Any], second: Mapping[str, Any], a: Path, b: Path) -> str | None:
    """Why two runs' entries of a task are not about the same thing, or None where they are."""
    for what in ALIKE:
        if first[what] != second[what]:
            return f"{what} {first[what]} in {a}, {second[what]} in {b}"
    if first["data"]["sha256"] != second["data"]["sha256"]:
        one, two = (f"{e['data']['source']} ({e['data']['sha256'][:8]})" for e in (first, second))
        return f"other data: {one} in {a}, {two} in {b}"
    return None


def _refuse_unlike(name: str, first: Mapping[str, Any], second: Mapping[str, Any], a: Path, b: Path) -> None:
    if reason := unlike(first, second, a, b):
        raise InputError(f"{name} cannot be compared: {reason}")


def _notes(folders: Sequence[Path], runs: Sequence[dict[str, Any]]) -> list[str]:
    """Tasks that are not in every run."""
    every = dict.fromkeys(name for run in runs for name in run["tasks"])
    return [
        f"{name} is not in {path} and not compared there"
        for name in every
        for path, run in _zip(folders, runs)
        if name not in run["tasks"]
    ]


def _warnings(folders: Sequence[Path], runs: Sequence[dict[str, Any]]) -> list[str]:
    """Differences that may come from the arithmetic and not from the model."""
    found = []
    for what, unsaid, name, why in (
        ("dtype", "unknown", "dtype", "a part of the difference may be rounding"),
        ("reads", "evenhand's own passes", "log-probabilities by", "a part of the difference may be what is read"),
    ):
        first, *others = (run["model"].get(what) or unsaid for run in runs)
        found += [
            f"{name} {first} in {folders[0]}, {other} in {path}: {why}"
            for path, other in zip(folders[1:], others, strict=True)
            if other != first
        ]
    return found


def _against(name: str, entry: dict[str, Any], a: Path, b: Path, how: Resampling) -> dict[str, Any]:
    """One task of one run against the baseline."""
    task = tasks.get(name)
    if task.card.version != entry["version"]:
        raise InputError(
            f"{name} in {a} was made by version {entry['version']} of the task, this evenhand has version "
            f"{task.card.version}: run it again"
        )
    options = checked(task.options, entry.get("options", {}), where=f"{a}/results.json: option {name}.")
    one, two = (numbered(read_records(path, name)) for path in (a, b))
    shared = [item for item in one if item in two]
    if not shared:
        raise InputError(f"{name}: {a} and {b} have no item in common")
    first, second = [one[item] for item in shared], [two[item] for item in shared]
    measured = _paired(task.measures(first, options), task.measures(second, options))
    groups: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
    for x, y in measured:
        part = groups.setdefault(tuple(x.by.items()), {"by": dict(x.by), "n": 0, "metrics": {}})
        part["n"] = max(part["n"], x.n + x.n_undefined)
        found = x.against(y, how) if isinstance(x, Tally) else difference(x, y, how)
        part["metrics"][x.metric.name] = _row(x.metric, found, how)
    overall = groups.pop((), {"metrics": {}})
    return {
        "run": str(b),
        "items": {"shared": len(shared), "only_baseline": len(one) - len(shared), "only_other": len(two) - len(shared)},
        "metrics": overall["metrics"],
        "groups": list(groups.values()),
        "changed": _changed(task, options, first, second),
    }


def numbered(records: Sequence[Record]) -> dict[tuple[str, int], Record]:
    """Records by their item, and which of the item's records it is."""
    seen: Counter[str] = Counter()
    found = {}
    for row in records:
        found[row["item"], seen[row["item"]]] = row
        seen[row["item"]] += 1
    return found


def _paired(first: Sequence[Comparable], second: Sequence[Comparable]) -> list[tuple[Any, Any]]:
    """The measures that both runs have, by part and metric."""
    there = {(*m.by.items(), m.metric.name): m for m in second}
    return [(m, there[key]) for m in first if (key := (*m.by.items(), m.metric.name)) in there]


def _row(metric: Metric, found: Difference, how: Resampling) -> dict[str, Any]:
    row = {
        "baseline": found.first,
        "other": found.second,
        "difference": found.value,
        "ci_low": found.interval.low,
        "ci_high": found.interval.high,
        "level": how.level,
        "interval": found.interval.method,
        "p": found.p,
        "p_holm": None,
        "test": found.test,
        "n_clusters": found.clusters,
        "n_clusters_left_out": found.left_out,
        "unit": metric.unit,
        "reading": reading(metric, found),
        "reason": found.reason or found.interval.reason,
    }
    return row | ({"neutral": metric.neutral} if metric.neutral is not None else {"best": metric.best})


def reading(metric: Metric, found: Difference) -> str:
    """Whether the second run is nearer to the neutral or best value, where that is clear."""
    if found.first is None or found.second is None:
        return ""
    if found.value == 0:
        return "no difference"
    low, high = found.interval.low, found.interval.high
    if low is not None and high is not None and low <= 0 <= high:
        return "no clear difference"
    aim = metric.neutral if metric.neutral is not None else metric.best
    if aim is None:
        return ""
    name = f"{'neutral' if metric.neutral is not None else 'best'} {aim:g}"
    before, after = abs(found.first - aim), abs(found.second - aim)
    if abs(after - before) < 1e-12:
        return f"as far from {name}"
    return f"nearer to {name}" if after < before else f"farther from {name}"


def _correct(rows: Iterable[dict[str, Any]]) -> None:
    """Puts the corrected p-values of one family into its rows."""
    family = list(rows)
    for row, p in zip(family, holm([row["p"] for row in family]), strict=True):
        row["p_holm"] = p


def _changed(task: Any, options: Any, first: Sequence[Record], second: Sequence[Record]) -> dict[str, Any]:
    """How many items the model reads otherwise, and those that changed most; equal rows once."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    n = 0
    for x, y in zip(first, second, strict=True):
        (name, before), (_, after) = task.reading(x, options), task.reading(y, options)
        if before == after or (before != before and after != after):  # noqa: PLR0124 - NaN differs from itself
            continue
        n += 1
        change = after - before if isinstance(before, float) and isinstance(after, float) else None
        rows[name, before, after] = {"item": name, "baseline": before, "other": after, "change": change}
    most = sorted(rows.values(), key=lambda row: -abs(row["change"] or 0))
    return {"n": n, "most": most[:MOST_CHANGED]}
