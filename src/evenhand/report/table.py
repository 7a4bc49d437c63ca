"""Results as a table for a terminal."""

from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from evenhand.report.lines import printable

MOST_GROUPS = 12


def number(value: float | None, unit: str) -> str:
    """A value with the digits its unit deserves; a share as a percentage stays a share."""
    if value is None:
        return "-"
    return f"{value:.2f}" if unit == "percent" else f"{value:.4f}"


def interval(estimate: dict[str, Any]) -> str:
    """The interval, or nothing."""
    if estimate["ci_low"] is None:
        return "-"
    digits = 1 if estimate["unit"] == "percent" else 3
    return f"[{estimate['ci_low']:.{digits}f}, {estimate['ci_high']:.{digits}f}]"


def aim(estimate: dict[str, Any]) -> str:
    """The neutral or the best value, in words."""
    if estimate.get("neutral") is not None:
        return f"neutral {estimate['neutral']:g}"
    if estimate.get("best") is not None:
        return f"best {estimate['best']:g}"
    return ""


def task_table(name: str, task: dict[str, Any]) -> RenderableType:
    """One task: its metrics with intervals and readings, its groups, its notes."""
    data = task["data"]
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for column in ("metric", "value", "95% interval", "aim", "reading"):
        table.add_column(column, justify="right" if column == "value" else "left", header_style="bold")
    for metric, estimate in task["metrics"].items():
        table.add_row(
            metric, number(estimate["value"], estimate["unit"]), Text(interval(estimate)),
            aim(estimate), Text(estimate["reason"] or estimate["reading"]),
        )  # fmt: skip
    title = f"{name}: {data['n']} rows of {data['source']}; {task['form']}, {task['method']}"
    parts: list[RenderableType] = [Text(printable(title), style="bold"), table]
    if task["groups"]:
        parts.append(group_table(task["groups"]))
    lines = [*task["notes"], *task["context"]]
    return Group(*parts, *(Text(f"- {printable(line)}", style="dim") for line in lines), "")


def group_table(groups: list[dict[str, Any]]) -> RenderableType:
    """The first groups, a row each; all of them are in results.json."""
    metrics = list(groups[0]["metrics"])[:4]
    table = Table("group", "n", *metrics, box=None, padding=(0, 1), pad_edge=False)
    shown = [group for group in groups[:MOST_GROUPS] if any(m in group["metrics"] for m in metrics)]
    for group in shown:
        name = printable(", ".join(f"{k} {v}" for k, v in group["by"].items()))
        cells = [
            f"{number(e['value'], e['unit'])} {interval(e)}" if (e := group["metrics"].get(m)) else "-" for m in metrics
        ]
        table.add_row(escape(name), str(group["n"]), *map(escape, cells))
    if len(groups) > len(shown):
        table.caption = f"{len(groups) - len(shown)} more groups in results.json"
    return table
