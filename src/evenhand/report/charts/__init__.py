"""Charts of a task's results: one file per family of tasks, found by file; `census.py` draws `census` and `census-us`.

Each file has `charts(shown)`, which takes the runs that have the task and gives Vega-Lite charts with the rows they
show. A task whose family has no file here is shown by its tables alone.
"""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from evenhand.records import Record

if TYPE_CHECKING:
    import altair

RUN_COLOURS = [f"var(--run{i})" for i in range(1, 7)]
SHAPES = ["circle", "diamond", "square", "triangle-up", "cross", "triangle-down"]
BELOW, ABOVE, NEITHER = "var(--below)", "var(--above)", "var(--neither)"


class Shown(NamedTuple):
    """One run's part of a task: what the run is called, its entry in results.json, its records (none if unreadable)."""

    run: str
    entry: dict[str, Any]
    records: list[Record]


class Column(NamedTuple):
    """A column of the rows behind a chart: its field, its title, and the digits after the point of a number."""

    field: str
    title: str
    digits: int | None = None

    def said(self, value: Any) -> str:
        """A value as the table has it."""
        if value is None:
            return "–"
        return str(value) if self.digits is None else f"{value:.{self.digits}f}"


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: what it shows in words, its Vega-Lite layers, and the rows that it draws, also shown as a table.

    Attributes:
        name: part of its id on the page.
        title: what it shows.
        text: how to read it.
        alt: what stands for it where it cannot be seen.
        spec: the Vega-Lite specification, without data.
        rows: its data.
        columns: the columns of the table behind it; the same in the tooltip.
        ends: named short lists of rows that stand out.
        opened: whether the table is shown without being asked for.
    """

    name: str
    title: str
    text: str
    alt: str
    spec: dict[str, Any]
    rows: list[dict[str, Any]]
    columns: list[Column]
    ends: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    opened: bool = False


def family(task: str) -> str:
    """The family of a task: `census` of `census-us`."""
    return task.partition("-")[0]


def known() -> set[str]:
    """The families that have charts."""
    return {module.name for module in pkgutil.iter_modules(__path__)}


def charts(task: str, shown: Sequence[Shown]) -> list[Chart]:
    """The charts of a task, none for a family without; may fail with KeyError or TypeError on rows of another shape."""
    if family(task) not in known():
        return []
    draw: Callable[[Sequence[Shown]], list[Chart]] = importlib.import_module(f"{__name__}.{family(task)}").charts
    return draw(shown)


def tooltip(columns: Sequence[Column]) -> "list[altair.Tooltip]":
    """The columns as Vega-Lite tooltips."""
    import altair as alt

    found = []
    for name, title, digits in columns:
        if digits is None:
            found.append(alt.Tooltip(field=name, type="nominal", title=title))
        else:
            found.append(alt.Tooltip(field=name, type="quantitative", title=title, format=f".{digits}f"))
    return found


def rows_chart() -> "altair.Chart":
    """A layer over the chart's own rows."""
    import altair as alt

    return alt.Chart(alt.NamedData("rows"))


def layered(*layers: "altair.Chart", height: int) -> dict[str, Any]:
    """Layers over one another as wide as the page lets them, as a Vega-Lite specification without data."""
    import altair as alt

    whole = alt.layer(*layers).properties(width="container", height=height)
    spec: dict[str, Any] = whole.to_dict(validate=False)
    return spec


def rule(axis: str, value: float, text: str) -> "list[altair.Chart]":
    """A line across the chart at a value of one axis (`x` or `y`), with its name at the line's end."""
    import altair as alt

    at: Any = alt.datum(value)
    line = alt.Chart(alt.InlineData([{}])).mark_rule(color="var(--ink)", strokeDash=[4, 3], opacity=0.7)
    name = alt.Chart(alt.InlineData([{"text": text}])).encode(text=alt.Text(field="text", type="nominal"))
    if axis == "x":
        named = name.mark_text(color="var(--soft)", align="center", baseline="bottom", dy=-4, fontSize=11)
        return [line.encode(x=at), named.encode(x=at, y=alt.value(0))]
    named = name.mark_text(color="var(--soft)", align="right", baseline="bottom", dy=-3, fontSize=11)
    return [line.encode(y=at), named.encode(y=at, x=alt.value("width"))]


def coloured(
    name: str, values: Sequence[str], colours: Sequence[str] = RUN_COLOURS, *, legend: bool = True
) -> "altair.Color":
    """Colour by a field whose values are known, in their order; a legend only where there is a choice.

    Names from data stand in the scale's domain: Vega reads a `sort` as an expression, which some of them would break.
    """
    import altair as alt

    span = [colours[i % len(colours)] for i in range(len(values))]
    shown = alt.Legend(title=None, orient="top", symbolOpacity=1) if legend and len(values) > 1 else None
    return alt.Color(field=name, type="nominal", scale=alt.Scale(domain=list(values), range=span), legend=shown)


def shaped(name: str, values: Sequence[str]) -> "altair.Shape":
    """Shape by the same field, so that colour alone carries nothing; the two share a legend."""
    import altair as alt

    span = [SHAPES[i % len(SHAPES)] for i in range(len(values))]
    legend = alt.Legend(title=None, orient="top") if len(values) > 1 else None
    return alt.Shape(field=name, type="nominal", scale=alt.Scale(domain=list(values), range=span), legend=legend)


def named(texts: Sequence[str], what: str, most: int = 3) -> str:
    """A few of many names, for alternative texts."""
    rest = f" and {len(texts) - most} more" if len(texts) > most else ""
    return f"{what} {', '.join(texts[:most])}{rest}"
