"""Parts of the page: tables, the marks beside values, provenance."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenhand.report import words
from evenhand.report.charts import Chart
from evenhand.report.source import View
from evenhand.report.table import aim, interval, number

if TYPE_CHECKING:
    from evenhand.tasks import Card

Cell = dict[str, Any]


def cell(text: Any, *, sort: Any = None, small: str = "", head: bool = False, numeric: bool = False) -> Cell:
    """A table's cell: its text, what it is sorted by, and smaller text under it."""
    return {
        "text": str(text), "sort": sort, "small": small, "head": head, "numeric": numeric, "mark": None, "aimed": False,
    }  # fmt: skip


def mark(
    estimates: Sequence[tuple[int, dict[str, Any]]], beside: Sequence[dict[str, Any]] = ()
) -> dict[str, Any] | None:
    """Where runs' values and intervals stand between the ends of their scale, in percent of its width.

    Args:
        estimates: a run's number and its estimate of the metric.
        beside: other estimates of the metric, which are to be marked on the same scale.
    """
    known = [(number, e) for number, e in estimates if e["value"] is not None]
    if not known:
        return None
    low, high = scale([e for e in (*(e for _, e in known), *beside) if e["value"] is not None])
    first = known[0][1]
    target = first["neutral"] if first.get("neutral") is not None else first.get("best")

    def place(value: float) -> float:
        return round(100 * min(max((value - low) / (high - low), 0.0), 1.0), 2)

    spans = [
        {
            "run": number,
            "at": place(e["value"]),
            "low": place(e["ci_low"] if e["ci_low"] is not None else e["value"]),
            "high": place(e["ci_high"] if e["ci_high"] is not None else e["value"]),
        }
        for number, e in known
    ]
    return {
        "spans": spans,
        "aim": None if target is None else place(target),
        "low": f"{low:g}".replace("-", words.MINUS),
        "high": f"{high:g}",
    }


def scale(estimates: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """The ends of a scale: what the unit allows, or what the values take, alike on both sides of 0."""
    unit = estimates[0]["unit"]
    fixed = {"percent": (0.0, 100.0), "share": (0.0, 1.0), "correlation": (-1.0, 1.0)}
    ends = [e[key] for e in estimates for key in ("value", "ci_low", "ci_high") if e[key] is not None]
    if unit in fixed and fixed[unit][0] <= min(ends) and max(ends) <= fixed[unit][1]:
        return fixed[unit]
    reach = max(map(abs, ends))
    reach = next((step for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000) if step >= reach), reach)
    return (0.0 if min(ends) >= 0 and estimates[0].get("neutral") is None else -float(reach)), float(reach)


def leads(task: str, views: Sequence[View], numbers: Sequence[int]) -> list[dict[str, Any]]:
    """A sentence per leading metric and run: the first leads, the others stand smaller."""
    found = []
    for lead in words.leads(task, [view.tasks[task] for view in views]):
        lines = []
        every = [e for view in views if (e := view.tasks[task]["metrics"].get(lead.metric))]
        for view, i in zip(views, numbers, strict=True):
            estimate = view.tasks[task]["metrics"].get(lead.metric)
            before, value, rest, reading = words.sentence(lead, estimate)
            lines.append({
                "run": view.label, "number": i, "before": before, "value": value, "rest": rest, "reading": reading,
                "mark": mark([(i, estimate)], every) if estimate else None,
            })  # fmt: skip
        found.append({"metric": lead.metric, "lines": lines})
    return found


def about(entry: dict[str, Any], usual: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was measured: rows, data, method, form, and the options that are not the usual ones."""
    data = entry["data"]
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in (entry.get("options") or {}).items()}
    options = {k: v for k, v in given.items() if v is not None and v != usual.get(k)}
    facts = [
        ("rows", f"{data['n']:,}" if isinstance(data["n"], int) else str(data["n"])),
        ("data", str(data.get("source", "?"))),
        ("form", str(entry["form"])),
        ("method", str(entry["method"])),
        ("version", str(entry["version"])),
    ]
    if options:
        listed = (f"{k}={','.join(map(str, v)) if isinstance(v, tuple) else v}" for k, v in options.items())
        facts.append(("options", "; ".join(listed)))
    return facts


def metric_table(task: str, views: Sequence[View], numbers: Sequence[int], card: "Card | None") -> dict[str, Any]:
    """Every metric, a row each, with the runs side by side."""
    texts = {metric.name: metric.text for metric in card.metrics} if card else {}
    names = list(dict.fromkeys(name for view in views for name in view.tasks[task]["metrics"]))
    several = len(views) > 1
    head = [("metric", False, 0)]
    head += [(view.label, True, n) for view, n in zip(views, numbers, strict=True)] if several else [("value", True, 0)]
    head += [] if several else [("95% interval", True, 0)]
    head += [("on its scale", False, 0), ("aim", False, 0)] + (
        [] if several else [("reading", False, 0), ("n", True, 0)]
    )
    rows = []
    for name in names:
        estimates = [(n, view.tasks[task]["metrics"].get(name)) for n, view in zip(numbers, views, strict=True)]
        there = [(n, e) for n, e in estimates if e is not None]
        row = [cell(name, sort=name, small=texts.get(name, ""), head=True)]
        for _, e in estimates:
            if e is None:
                row.append(cell("–", small="not measured", numeric=True))
            elif several:
                under = e["reason"] or " ".join(part for part in (interval(e).strip("-"), lean(e)) if part)
                row.append(cell(number(e["value"], e["unit"]), sort=e["value"], small=under, numeric=True))
            else:
                row.append(cell(number(e["value"], e["unit"]), sort=e["value"], numeric=True))
                row.append(cell(interval(e), sort=e["ci_low"], numeric=True))
        first = there[0][1]
        row.append(cell("", sort=first["value"]) | {"mark": mark(there)})
        row.append(cell(aim(first), sort=aim(first), small=first["unit"]) | {"aimed": True})
        if not several:
            row.append(cell(first["reason"] or lean(first), sort=first["reading"]))
            row.append(cell(f"{first['n']:,}", sort=first["n"], numeric=True))
        rows.append(row)
    level = next((e["level"] for view in views for e in view.tasks[task]["metrics"].values() if e.get("level")), 0.95)
    head = [(title.replace("95%", f"{100 * level:g}%"), is_number, n) for title, is_number, n in head]
    return {"caption": f"{task}: metrics", "head": head, "rows": rows, "metrics": True}


def lean(estimate: dict[str, Any]) -> str:
    """The reading, where there is a side to lean to; what is best stands in the aim."""
    return "" if estimate.get("best") is not None else str(estimate["reading"])


def group_table(task: str, views: Sequence[View]) -> dict[str, Any] | None:
    """Every group, a row each, with its metrics; one more column for the run where there are several."""
    groups = [(view.label, group) for view in views for group in view.tasks[task]["groups"]]
    if not groups:
        return None
    several = len(views) > 1
    metrics = list(dict.fromkeys(name for _, group in groups for name in group["metrics"]))
    head = [("group", False, 0)] + ([("model", False, 0)] if several else [])
    head += [("n", True, 0), *((name, True, 0) for name in metrics)]
    rows = []
    for label, group in groups:
        by = ", ".join(f"{key} {value}" for key, value in group["by"].items())
        row = [cell(by, sort=by, head=True)] + ([cell(label, sort=label)] if several else [])
        row.append(cell(group["n"], sort=group["n"], numeric=True))
        for name in metrics:
            e = group["metrics"].get(name)
            if e is None:
                row.append(cell("", numeric=True))
            elif e["value"] is None:
                row.append(cell("–", small=e["reason"] or "", numeric=True))
            else:
                row.append(
                    cell(number(e["value"], e["unit"]), sort=e["value"], small=interval(e).strip("-"), numeric=True)
                )
        rows.append(row)
    return {"caption": f"{task}: groups", "head": head, "rows": rows, "metrics": False}


def chart_table(chart: Chart) -> dict[str, Any]:
    """The rows of a chart as a table."""
    head = [(column.title, column.digits is not None) for column in chart.columns]
    rows = [[column.said(row.get(column.field)) for column in chart.columns] for row in chart.rows]
    return {"caption": chart.title, "head": head, "rows": rows}


def provenance(views: Sequence[View]) -> list[tuple[str, list[str]]]:
    """What a run came from, a row each, a value per run."""
    rows: dict[str, list[str]] = {}

    def put(name: str, i: int, value: Any) -> None:
        if value is not None and value != "":
            rows.setdefault(name, ["–"] * len(views))[i] = str(value)

    for i, view in enumerate(views):
        model, meta = view.results["model"], view.meta
        spec = meta.get("spec") or {}
        for name in ("ref", "kind", "revision", "fingerprint", "dtype", "reads"):
            put(f"model {name}", i, model.get(name))
        for task, entry in view.tasks.items():
            put(f"data of {task}", i, entry["data"].get("source"))
            put(f"SHA-256 of {task}'s data", i, entry["data"].get("sha256"))
        put("command", i, " ".join(map(str, meta.get("command") or ())))
        put("predictions", i, meta.get("predictions"))
        put("seed", i, spec.get("seed"))
        put("bootstrap draws", i, spec.get("bootstrap"))
        put("limit", i, spec.get("limit"))
        put("device", i, meta.get("device"))
        put("packages", i, ", ".join(f"{k} {v}" for k, v in (meta.get("packages") or {}).items()))
        put("Python", i, meta.get("python"))
        put("platform", i, meta.get("platform"))
        put("begun (UTC)", i, meta.get("started"))
        put("run folder", i, view.path)
    return list(rows.items())
