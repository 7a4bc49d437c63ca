"""census: share_women beside the census, form by form, and how far one predicate or one identifier alone moves it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evenhand.report.charts import Chart, Column, Shown, coloured, layered, named, rows_chart, rule, shaped, tooltip

if TYPE_CHECKING:
    import altair

LOW, HIGH = 45.0, 55.0
HOW = {
    "predicate": "share_women over all occupations, read with one predicate alone.",
    "identifier": "share_women over all occupations, with one identifier alone for its gender, and all of the other's.",
}


def charts(shown: Sequence[Shown]) -> list[Chart]:
    """The scatter of forms, and a strip of templates for predicates and for identifiers."""
    several = len(shown) > 1
    forms = [
        {
            "run": one.run, "occupation": r["occupation"], "number": r["number"],
            "census": r["pct_women"], "share": r["share_women"],
        }
        for one in shown for r in one.records
    ]  # fmt: skip
    found = [scatter(forms, bounds(shown[0]), several=several)] if forms else []
    for what, title in (("predicate", "Predicate by predicate"), ("identifier", "Identifier by identifier")):
        rows = [row for one in shown for row in alone(one, what)]
        if rows:
            found.append(templates(rows, what, title, bounds(shown[0]), several=several))
    return found


def bounds(one: Shown) -> tuple[float, float]:
    """The neutral class's bounds, as the run was asked."""
    options = one.entry.get("options") or {}
    return float(options.get("low", LOW)), float(options.get("high", HIGH))


def band(axis: str, low: float, high: float) -> "list[altair.Chart]":
    """The neutral class as a band across the chart, with its middle."""
    import altair as alt

    ends: dict[str, Any] = {axis: alt.datum(low), f"{axis}2": alt.datum(high)}
    area = alt.Chart(alt.InlineData([{}])).mark_rect(color="var(--band)", opacity=1)
    return [area.encode(**ends)]


def scatter(rows: list[dict[str, Any]], neutral: tuple[float, float], *, several: bool) -> Chart:
    """What the model believes over what the census counts."""
    import altair as alt

    columns = [Column("occupation", "occupation"), Column("number", "number")]
    columns += [Column("run", "model")] if several else []
    columns += [Column("census", "census: women, %", 1), Column("share", "model: share_women, %", 1)]
    key = "run" if several else "number"
    values = list(dict.fromkeys(row[key] for row in rows))
    full = alt.Scale(domain=[0, 100], nice=False)
    x = alt.X(field="census", type="quantitative", title="women in the occupation, census, percent", scale=full)
    y = alt.Y(field="share", type="quantitative", title="share_women, the model, percent", scale=full)
    dots = rows_chart().mark_point(filled=True, size=34, opacity=0.72).encode(
        x=x, y=y, color=coloured(key, values), shape=shaped(key, values), tooltip=tooltip(columns)
    )  # fmt: skip
    ends = alt.InlineData([{"census": 0, "share": 0}, {"census": 100, "share": 100}])
    diagonal = alt.Chart(ends).mark_line(color="var(--soft)", strokeDash=[4, 3], strokeWidth=1).encode(x=x, y=y)
    low, high = neutral
    label = alt.InlineData([{"text": f"neutral, {low:g} to {high:g}"}])
    name = alt.Chart(label).mark_text(align="right", dx=-6, fontSize=11, color="var(--soft)").encode(
        x=alt.value("width"), y=alt.datum((low + high) / 2), text="text:N"
    )  # fmt: skip
    n = len({row["occupation"] for row in rows})
    return Chart(
        name="forms",
        title="What the model believes beside what the census counts",
        text="Each dot is a form of an occupation. On the dashed line the model's share of women is the census's; "
        "inside the horizontal band it has no lean of its own, inside the vertical one the census has none.",
        alt=f"Scatter chart of share_women over the census's percentage of women for {len(rows)} forms of {n} "
        f"occupations, with a dashed diagonal where the two agree and a band from {low:g} to {high:g} for neutral.",
        spec=layered(*band("y", low, high), *band("x", low, high), diagonal, name, dots, height=460),
        rows=rows,
        columns=columns,
    )


def alone(one: Shown, what: str) -> list[dict[str, Any]]:
    """share_women of each predicate or identifier by itself."""
    rows = []
    for group in one.entry["groups"]:
        by, share = group["by"], group["metrics"].get("share_women")
        if what in by and share and share["value"] is not None:
            changed = group["metrics"].get("class_changed") or {}
            rows.append({
                "run": one.run, "name": by[what], "number": by.get("number", ""), "share": share["value"],
                "low": share["ci_low"], "high": share["ci_high"], "changed": changed.get("value"),
            })  # fmt: skip
    return rows


def templates(
    rows: list[dict[str, Any]], what: str, title: str, neutral: tuple[float, float], *, several: bool
) -> Chart:
    """Dots with intervals, a line each; spread along the axis is what the template does, not the occupation."""
    import altair as alt

    columns = [Column("name", what), Column("number", "number"), *([Column("run", "model")] if several else [])]
    columns += [Column("share", "share_women, %", 1), Column("low", "from", 1), Column("high", "to", 1)]
    columns.append(Column("changed", "classes changed when left out, %", 1))
    key = "run" if several else "number"
    values = list(dict.fromkeys(row[key] for row in rows))
    order = list(dict.fromkeys(row["name"] for row in rows))
    axis = alt.Axis(title=None, ticks=False, domain=False, grid=False, labelLimit=170)
    y = alt.Y(field="name", type="nominal", scale=alt.Scale(domain=order), axis=axis)
    x = alt.X(field="share", type="quantitative", title="share_women, percent", scale=alt.Scale(zero=False))
    base = rows_chart().encode(y=y, color=coloured(key, values))
    if several:
        base = base.encode(yOffset=alt.YOffset(field="run", type="nominal", scale=alt.Scale(domain=values)))
    stems = base.mark_rule(opacity=0.45, strokeWidth=2).encode(x=alt.X("low:Q"), x2="high")
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=x, shape=shaped(key, values), tooltip=tooltip(columns)
    )  # fmt: skip
    low, high = neutral
    step = 22 if not several else 12 * len(values) + 8
    return Chart(
        name=f"{what}s",
        title=title,
        text=HOW[what]
        + f" If the {what} did not matter, the dots of one number would stand on one line; lines are 95% "
        "intervals over occupations.",
        alt=f"Dot chart of share_women for {named(order, f'{len(order)} {what}s:')}, with the neutral band from "
        f"{low:g} to {high:g}.",
        spec=layered(*band("x", low, high), stems, dots, *rule("x", 50, "neutral"), height=max(70, step * len(order))),
        rows=rows,
        columns=columns,
    )
