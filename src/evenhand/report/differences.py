"""A comparison of runs as tables for a terminal."""

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evenhand.report.lines import printable
from evenhand.report.table import MOST_GROUPS, interval, number

HEADS = ("baseline", "other", "difference", "95% interval", "p", "p (Holm)", "reading")


def signed(value: float | None, unit: str) -> str:
    """A difference with its sign."""
    return f"+{number(value, unit)}" if value is not None and value > 0 else number(value, unit)


def probability(p: float | None) -> str:
    """A p-value with the digits it deserves."""
    return "-" if p is None else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def comparison(results: dict[str, Any]) -> RenderableType:
    """Every task: differences, groups, the items that changed most; then notes and warnings."""
    parts: list[RenderableType] = [Text(printable(f"baseline: {named(results['baseline'])}"), style="bold")]
    others = {other["run"]: other for other in results["others"]}
    for name, task in results["tasks"].items():
        for one in task["against"]:
            parts += against(name, task, one, named(others[one["run"]]))
    for line in [*results["notes"], *(f"warning: {line}" for line in results["warnings"])]:
        parts.append(Text(f"- {printable(line)}", style="dim"))
    return Group(*parts)


def named(run: dict[str, Any]) -> str:
    """A run's folder and model."""
    return f"{run['run']} ({run['model']['ref']})"


def against(name: str, task: dict[str, Any], one: dict[str, Any], run: str) -> Iterator[RenderableType]:
    """One task of one run against the baseline."""
    yield Text("")
    yield Text(printable(f"{name}: {run} minus the baseline; {task['form']}, {task['method']}"), style="bold")
    table = columns("metric", *HEADS)
    for metric, row in one["metrics"].items():
        table.add_row(metric, *cells(row))
    yield table
    if groups := one["groups"]:
        yield group_table(groups)
    items, changed = one["items"], one["changed"]
    yield Text(f"- {items['shared']} items in both, {changed['n']} of them read otherwise", style="dim")
    if items["only_baseline"] or items["only_other"]:
        left = f"{items['only_baseline']} items only in the baseline, {items['only_other']} only in the other"
        yield Text(f"- left out: {left}", style="dim")
    if changed["most"]:
        table = columns("changed most", "baseline", "other", "change")
        for row in changed["most"]:
            values = (row["baseline"], row["other"], row["change"])
            shown = (v if isinstance(v, str) else "" if v is None else f"{v:.3f}" for v in values)
            table.add_row(Text(printable(row["item"])), *map(Text, map(printable, shown)))
        yield table


def group_table(groups: list[dict[str, Any]]) -> RenderableType:
    """The first groups, a row each, with differences, intervals and corrected p-values; all of them with --json."""
    metrics = list(groups[0]["metrics"])[:4]
    table = columns("group", "n", *metrics)
    for group in groups[:MOST_GROUPS]:
        by = printable(", ".join(f"{k} {v}" for k, v in group["by"].items()))
        found = (group["metrics"].get(metric) for metric in metrics)
        shown = (
            f"{signed(row['difference'], row['unit'])} {interval(row)} p {probability(row['p_holm'])}" if row else "-"
            for row in found
        )
        table.add_row(Text(by), str(group["n"]), *map(Text, shown))
    more = f"; {len(groups) - MOST_GROUPS} more groups with --json" if len(groups) > MOST_GROUPS else ""
    table.caption = f"p after Holm over all groups{more}"
    return table


def columns(*names: str) -> Table:
    """A plain table with these heads."""
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for name in names:
        table.add_column(name, header_style="bold")
    return table


def cells(row: dict[str, Any]) -> Iterator[Text]:
    """A difference's cells, from the baseline's value on."""
    unit = row["unit"]
    yield Text(number(row["baseline"], unit))
    yield Text(number(row["other"], unit))
    yield Text(signed(row["difference"], unit))
    yield Text(interval(row))
    yield Text(probability(row["p"]))
    yield Text(probability(row["p_holm"]))
    yield Text(row["reading"] if row["ci_low"] is not None or row["reason"] is None else row["reason"])
