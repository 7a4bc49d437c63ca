"""cooccurrence: occupations in the order of their log-odds."""

from collections import Counter
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
    tooltip,
)

MOST_NAMED = 45  # rows that still have room for their names on the axis
ENDS = 8


def charts(shown: Sequence[Shown]) -> list[Chart]:
    """One chart over all runs, and over all prompts where there are several."""
    if not all({"occupation", "likelihood_diff"} <= set(r) for one in shown for r in one.records[:1]):
        return []
    rows = [row for one in shown for row in named_rows(one)]
    if not rows:
        return []
    runs, prompts = (list(dict.fromkeys(row[key] for row in rows)) for key in ("run", "prompt"))
    rows = [row | {"series": series(row, runs, prompts)} for row in rows]
    names = list(dict.fromkeys(row["series"] for row in rows))
    first = sorted(
        (row for row in rows if row["series"] == names[0]), key=lambda row: (row["value"], row["occupation"])
    )
    order = list(dict.fromkeys(row["occupation"] for row in [*first, *rows]))
    place = {occupation: i for i, occupation in enumerate(order)}
    rows.sort(key=lambda row: (place[row["occupation"]], names.index(row["series"])))
    columns = [Column("occupation", "occupation")]
    if len(names) > 1:
        columns.append(Column("series", "prompt" if len(runs) == 1 else "model"))
    else:
        columns.append(Column("side", "leans"))
    columns.append(Column("value", "log-odds (likelihood_diff)", 3))
    low, high = first[0], first[-1]
    alt = (
        f"Dot chart of {len(order)} occupations from the most male log-odds to the most female: {low['occupation']} "
        f"at {low['value']:.2f} nats to {high['occupation']} at {high['value']:.2f}. A line marks 0, where neither is "
        "likelier."
    )
    ordered = f", in the order of {names[0]}" if len(names) > 1 else ""
    return [
        Chart(
            name="occupations",
            title="Occupations by log-odds",
            text=f"Each line is an occupation{ordered}. Right of 0, words for women are likelier after it; left of 0, "
            "words for men. One nat is a factor of 2.7.",
            alt=alt,
            spec=spec(order, names, columns),
            rows=rows,
            columns=columns,
            ends={
                "Furthest to the male side": [(row["occupation"], row["value"]) for row in first[:ENDS]],
                "Furthest to the female side": [(row["occupation"], row["value"]) for row in first[: -ENDS - 1 : -1]],
            }
            if len(names) == 1 and len(first) > 2 * ENDS
            else {},
        )
    ]


def named_rows(one: Shown) -> list[dict[str, Any]]:
    """A run's records, equal sentences once; an occupation with several sentences is told apart by them."""
    unique = {(r.get("prompt", ""), r["sentence"], r["occupation"]): r for r in one.records}
    often = Counter((prompt, occupation) for prompt, _, occupation in unique)
    return [
        {
            "run": one.run,
            "prompt": prompt,
            "occupation": occupation if often[prompt, occupation] == 1 else f"{occupation} ({sentence})",
            "value": r["likelihood_diff"],
            "side": "male" if r["likelihood_diff"] < 0 else "female" if r["likelihood_diff"] > 0 else "neither",
        }
        for (prompt, sentence, occupation), r in unique.items()
    ]


def series(row: dict[str, Any], runs: Sequence[str], prompts: Sequence[str]) -> str:
    """What tells the row's dot from the others of its line."""
    parts = ([row["run"]] if len(runs) > 1 else []) + ([row["prompt"]] if len(prompts) > 1 else [])
    return ", ".join(parts) or row["prompt"] or row["run"]


def spec(order: list[str], names: list[str], columns: list[Column]) -> dict[str, Any]:
    """Dots on stems from 0, a line each; wide invisible bars take the pointer."""
    import altair as alt

    few = len(order) <= MOST_NAMED
    axis = alt.Axis(title=None, ticks=False, domain=False, grid=False, labelLimit=150) if few else None
    y = alt.Y(field="occupation", type="nominal", scale=alt.Scale(domain=order), axis=axis)
    x = alt.X(field="value", type="quantitative", title="log-odds in nats: male ← 0 → female")
    if len(names) == 1:
        colour = coloured("side", ["male", "female", "neither"], [BELOW, ABOVE, NEITHER], legend=False)
    else:
        colour = coloured("series", names)
    base = rows_chart().encode(y=y)
    hover = base.mark_bar(color="var(--ink)", opacity=0, tooltip=True).encode(
        x=alt.value(0), x2=alt.value("width"), tooltip=tooltip(columns)
    )
    stems = base.mark_rule(opacity=0.35, strokeWidth=1.2).encode(x=x, x2=alt.datum(0), color=colour)
    dots = base.mark_circle(size=26 if not few else 60, opacity=0.9).encode(x=x, color=colour, tooltip=tooltip(columns))
    layers = [hover, stems, dots] if len(names) == 1 else [dots]
    return layered(*layers, *rule("x", 0, "neutral"), height=max(60, 17 * len(order)) if few else 460)
