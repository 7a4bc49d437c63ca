"""stereoset: ss and lms by bias type and format beside the ideal, and ss term by term."""

from collections.abc import Sequence
from typing import Any

from evenhand.report.charts import (
    ABOVE,
    BELOW,
    NEITHER,
    Chart,
    Column,
    Shown,
    coloured,
    layered,
    rows_chart,
    rule,
    shaped,
    tooltip,
)

MOST_NAMED = 110
BOTH = "both formats"
STAR = "M0,-1L.23,-.31L.95,-.31L.36,.12L.59,.81L0,.38L-.59,.81L-.36,.12L-.95,-.31L-.23,-.31Z"


def charts(shown: Sequence[Shown]) -> list[Chart]:
    """The plane of lms and ss, and the caterpillar of ss by target term."""
    several = len(shown) > 1
    points = [row for one in shown for row in parts(one)]
    found = [plane(points, several=several)] if points else []
    terms = [row for one in shown for row in by_term(one)]
    if terms:
        found.append(caterpillar(terms, [one.run for one in shown]))
    return found


def parts(one: Shown) -> list[dict[str, Any]]:
    """Overall, by bias type, and by both bias type and format."""
    rows = [point(one.run, "all", BOTH, one.entry["metrics"], one.entry["data"]["n"])]
    for group in one.entry["groups"]:
        by = group["by"]
        if set(by) == {"bias_type", "format"}:
            rows.append(point(one.run, by["bias_type"], by["format"], group["metrics"], group["n"]))
    return [row for row in rows if row["ss"] is not None and row["lms"] is not None]


def point(run: str, bias: str, form: str, metrics: dict[str, Any], n: int) -> dict[str, Any]:
    """A part's place in the plane, with its intervals."""
    row: dict[str, Any] = {"run": run, "bias_type": bias, "format": form, "n": n}
    for name in ("ss", "lms"):
        estimate = metrics[name]
        row |= {name: estimate["value"], f"{name}_low": estimate["ci_low"], f"{name}_high": estimate["ci_high"]}
    return row


def plane(rows: list[dict[str, Any]], *, several: bool) -> Chart:
    """The scatter of lms over ss; the ideal is at the top, in the middle."""
    import altair as alt

    columns = [
        Column("bias_type", "bias type"),
        Column("format", "format"),
        *([Column("run", "model")] if several else []),
    ]
    for name in ("ss", "lms"):
        columns += [Column(name, name, 1), Column(f"{name}_low", "from", 1), Column(f"{name}_high", "to", 1)]
    columns.append(Column("n", "examples", 0))
    x = alt.X(field="ss", type="quantitative", title="ss: how often the stereotype wins, percent").scale(
        zero=False, nice=True
    )
    y = alt.Y(field="lms", type="quantitative", title="lms: how often sense beats nonsense, percent").scale(
        zero=False, nice=True
    )
    forms = list(dict.fromkeys(row["format"] for row in rows))
    runs = list(dict.fromkeys(row["run"] for row in rows))
    colour = coloured("run", runs) if several else coloured("format", forms)
    base = rows_chart().encode(color=colour)
    across = base.mark_rule(opacity=0.3, strokeWidth=1.5).encode(x=alt.X("ss_low:Q"), x2="ss_high", y=y)
    up = base.mark_rule(opacity=0.3, strokeWidth=1.5).encode(x=x, y=alt.Y("lms_low:Q"), y2="lms_high")
    dots = base.mark_point(filled=True, size=110, opacity=1).encode(
        x=x, y=y, shape=shaped("format", forms), tooltip=tooltip(columns)
    )
    names = rows_chart().mark_text(align="left", dx=9, dy=-8, fontSize=11, color="var(--ink)").encode(
        x=x, y=y, text=alt.Text(field="bias_type", type="nominal")
    )  # fmt: skip
    ideal = alt.Chart(alt.InlineData([{"ss": 50, "lms": 100, "text": "ideal"}])).encode(x=x, y=y)
    star = ideal.mark_point(shape=STAR, filled=True, size=420, color="var(--ink)", opacity=1)
    name = ideal.mark_text(align="left", dx=13, dy=1, fontWeight="bold", color="var(--ink)").encode(text="text:N")
    overall = next((row for row in rows if row["bias_type"] == "all"), rows[0])
    alt_text = (
        f"Scatter chart of lms over ss for {len(rows)} parts of the data. The ideal is ss 50 and lms 100. "
        f"Over everything{' ' + overall['run'] if several else ''} stands at ss {overall['ss']:.1f}, "
        f"lms {overall['lms']:.1f}."
    )
    return Chart(
        name="plane",
        title="Stereotype against sense, by bias type and format",
        text="The star is the ideal: sense always beats nonsense, and the stereotype wins half the time. Right of 50, "
        "stereotypes win more often; lines are 95% intervals.",
        alt=alt_text,
        spec=layered(*rule("x", 50, ""), across, up, dots, names, star, name, height=400),
        rows=rows,
        columns=columns,
    )


def by_term(one: Shown) -> list[dict[str, Any]]:
    """The ss of each target term, with the bias type that the records give it."""
    bias = {r["target"]: r["bias_type"] for r in one.records}
    rows = []
    for group in one.entry["groups"]:
        estimate = group["metrics"].get("ss")
        if set(group["by"]) == {"target"} and estimate and estimate["value"] is not None:
            term = group["by"]["target"]
            value, low, high = (estimate[key] for key in ("value", "ci_low", "ci_high"))
            side = "stereotype" if value > 50 else "anti-stereotype" if value < 50 else "neither"
            rows.append({
                "run": one.run, "term": term, "bias_type": bias.get(term, ""), "n": group["n"],
                "ss": value, "low": low, "high": high, "reading": estimate["reading"], "side": side,
            })  # fmt: skip
    return rows


def caterpillar(rows: list[dict[str, Any]], runs: list[str]) -> Chart:
    """The ss term by term, in the order of the first run."""
    import altair as alt

    several = len(runs) > 1
    first = sorted((row for row in rows if row["run"] == rows[0]["run"]), key=lambda row: (row["ss"], row["term"]))
    order = list(dict.fromkeys(row["term"] for row in [*first, *rows]))
    place = {term: i for i, term in enumerate(order)}
    rows = sorted(rows, key=lambda row: (place[row["term"]], runs.index(row["run"])))
    columns = [Column("term", "term"), Column("bias_type", "bias type"), *([Column("run", "model")] if several else [])]
    columns.append(Column("ss", "ss", 1))
    intervals = any(row["low"] is not None for row in rows)
    if intervals:
        columns += [Column("low", "from", 1), Column("high", "to", 1)]
    columns.append(Column("n", "examples", 0))
    named = len(order) <= MOST_NAMED
    axis = (
        alt.Axis(title=None, ticks=False, domain=False, grid=False, labelFontSize=10, labelLimit=110) if named else None
    )
    y = alt.Y(field="term", type="nominal", scale=alt.Scale(domain=order), axis=axis)
    x = alt.X(field="ss", type="quantitative", title="ss, percent", scale=alt.Scale(domain=[0, 100]))
    sides = ["anti-stereotype", "stereotype", "neither"]
    colour = coloured("run", runs) if several else coloured("side", sides, [BELOW, ABOVE, NEITHER], legend=False)
    base = rows_chart().encode(y=y, color=colour)
    if several:
        base = base.encode(yOffset=alt.YOffset(field="run", type="nominal", scale=alt.Scale(domain=runs)))
    if intervals:
        stem = base.mark_rule(opacity=0.45, strokeWidth=2).encode(x=alt.X("low:Q"), x2="high")
    else:
        stem = base.mark_rule(opacity=0.35, strokeWidth=1.5).encode(x=x, x2=alt.datum(50))
    hover = rows_chart().mark_bar(color="var(--ink)", opacity=0).encode(
        y=y, x=alt.value(0), x2=alt.value("width"), tooltip=tooltip(columns)
    )  # fmt: skip
    dots = base.mark_circle(size=46, opacity=1).encode(x=x, tooltip=tooltip(columns))
    step = 5 if not named else 13 if not several else 9 * len(runs) + 4
    layers = [stem, dots] if several else [hover, stem, dots]
    low, high = first[0], first[-1]
    return Chart(
        name="terms",
        title="Stereotype score term by term",
        text="Terms in the order of their ss"
        + (f" in {runs[0]}" if several else "")
        + "; right of 50 the stereotype wins more often than the anti-stereotype. One term has few examples: read the "
        "shape, not the single dot.",
        alt=f"Dot chart of ss for {len(order)} target terms, from {low['term']} at {low['ss']:.0f} to {high['term']} "
        f"at {high['ss']:.0f}. A line marks 50, the neutral value.",
        spec=layered(*layers, *rule("x", 50, "neutral"), height=max(80, step * len(order))),
        rows=rows,
        columns=columns,
    )
