"""Run folders as the report reads them: what is there, and in words what is not."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.folder import read_records, read_results
from evenhand.records import Record

ESTIMATE = {"value", "ci_low", "ci_high", "n", "unit", "reading", "reason"}


@dataclass(frozen=True, slots=True)
class View:
    """A run: what it is called on the page, results.json, run.json, its sound entries, and what is wrong with it."""

    path: Path
    label: str
    results: dict[str, Any]
    meta: dict[str, Any]
    tasks: dict[str, dict[str, Any]]
    problems: list[str]

    def records(self, task: str) -> list[Record]:
        """The records of a task; none, and one more problem, where they cannot be read."""
        try:
            return read_records(self.path, task)
        except Exception as error:
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            self.problems.append(
                f"{task}: the records cannot be read, so the charts drawn from them are missing ({said})"
            )
            return []


def views(runs: Sequence[Path]) -> list[View]:
    """The runs, each with a name of its own.

    Raises:
        InputError: one of them is no run folder.
    """
    paths = [path if path.is_dir() else path.parent for path in runs]
    results = [read_results(path) for path in runs]
    refs = [called(one["model"].get("ref", "?")) if isinstance(one["model"], dict) else "?" for one in results]
    labels: list[str] = []
    for path, ref in zip(paths, refs, strict=True):
        label = ref if refs.count(ref) == 1 else f"{ref} ({path.name or path.resolve().name})"
        labels.append(label if label not in labels else f"{label} #{labels.count(label) + len(labels)}")
    return [view(*parts) for parts in zip(paths, labels, results, strict=True)]


def called(ref: Any) -> str:
    """A model's name for people: its reference; of a path on this machine, its last part."""
    text = str(ref)
    is_path = text.rpartition(":")[2].startswith(("/", "./", "../", "~"))
    return (text.rstrip("/").rpartition("/")[2] or text) if is_path else text


def view(path: Path, label: str, results: dict[str, Any]) -> View:
    """One run; a task that was asked for and is not there, or is there and makes no sense, becomes a problem."""
    problems: list[str] = []
    meta: Any = {}
    try:
        meta = json.loads((path / "run.json").read_bytes())
    except (OSError, ValueError):
        problems.append("run.json cannot be read: the command, versions and seeds of this run are not known")
    meta = meta if isinstance(meta, dict) else {}
    tasks = {}
    for name, entry in results["tasks"].items():
        fault = next(faults(entry), None)
        if fault:
            problems.append(f"{name}: its entry in results.json cannot be read: {fault}")
        else:
            tasks[name] = {"version": "?", "method": "?", "form": "?", "groups": [], "notes": [], "context": []} | entry
    spec = meta.get("spec") if isinstance(meta.get("spec"), dict) else {}
    for name in (spec or {}).get("tasks") or ():
        if name not in results["tasks"]:
            problems.append(f"{name}: asked for, but not in the results: it failed or the run stopped before it")
    model = results["model"] if isinstance(results["model"], dict) else {}
    return View(path, label, results | {"model": model}, meta, tasks, problems)


def faults(entry: Any) -> Iterator[str]:
    """What is wrong with a task's entry."""
    if not isinstance(entry, dict):
        yield "it is no mapping"
        return
    if not isinstance(entry.get("data"), dict) or "n" not in entry["data"]:
        yield "it does not say what data it is about"
    if not isinstance(entry.get("metrics"), dict):
        yield "it has no metrics"
        return
    groups = entry.get("groups", [])
    if not isinstance(groups, list) or not all(
        isinstance(g, dict) and {"by", "n", "metrics"} <= set(g) for g in groups
    ):
        yield "its groups make no sense"
        return
    for metrics in (entry["metrics"], *(group["metrics"] for group in groups)):
        for name, estimate in metrics.items():
            if not isinstance(estimate, dict) or set(estimate) < ESTIMATE:
                yield f"{name} is no estimate"
