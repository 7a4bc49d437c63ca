"""bios: each class's gap of true positive rates beside its share of women, and trainings compared."""

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

COMPARED = ("balanced_accuracy", "gap_rms", "gap_abs", "prediction_consistency")
SIDES = {"higher for men": BELOW, "higher for women": ABOVE, "no clear lean": NEITHER}
LABELLED = 4


def charts(shown: Sequence[Shown]) -> list[Chart]:
    """Gaps over shares of women; then what each training gains and costs, where there are several."""
    several = len(shown) > 1
    classes = [row for one in shown for row in by_class(one, several=several)]
    trainings = [row for one in shown for row in by_training(one, several=several)]
    found = [gaps(classes)] if classes else []
    return found + ([compared(trainings, several=several)] if trainings else [])


def by_class(one: Shown, *, several: bool) -> list[dict[str, Any]]:
    """Each class that has a gap."""
    rows = []
    for group in one.entry["groups"]:
        by, metrics = group["by"], group["metrics"]
        if "class" not in by or metrics["tpr_gap"]["value"] is None or metrics["share_women"]["value"] is None:
            continue
        gap = metrics["tpr_gap"]
        series = ", ".join(part for part in (one.run if several else "", by.get("train", "")) if part)
        rows.append({
            "series": series, "class": by["class"], "share": metrics["share_women"]["value"], "gap": gap["value"],
            "low": gap["ci_low"], "high": gap["ci_high"], "female": metrics["tpr_female"]["value"],
            "male": metrics["tpr_male"]["value"], "n": group["n"], "reading": gap["reading"],
            "side": gap["reading"] if gap["reading"] in SIDES else "no clear lean", "label": "",
        })  # fmt: skip
    ordered = sorted(rows, key=lambda row: row["gap"])
    for row in [*ordered[:LABELLED], *ordered[-LABELLED:]]:
        row["label"] = row["class"].replace("_", " ")
    return rows


def gaps(rows: list[dict[str, Any]]) -> Chart:
    """The picture of De-Arteaga et al.: do gaps compound the imbalance?"""
    import altair as alt

    names = list(dict.fromkeys(row["series"] for row in rows))
    columns = [Column("class", "class"), *([Column("series", "model, training")] if len(names) > 1 else [])]
    columns += [Column("share", "share of women", 3), Column("gap", "gap, women minus men", 3)]
    columns += [Column("low", "from", 3), Column("high", "to", 3)]
    columns += [Column("female", "found, women", 3), Column("male", "found, men", 3), Column("n", "rows", 0)]
    percent = alt.Axis(format=".0%")
    x = alt.X(
        field="share",
        type="quantitative",
        title="share of women in the class",
        axis=percent,
        scale=alt.Scale(domain=[0, 1]),
    )
    y = alt.Y(
        field="gap", type="quantitative", title="true positive rate, women minus men", axis=alt.Axis(format="+.0%")
    )
    if len(names) > 1:
        colour, shape = coloured("series", names), shaped("series", names)
    else:
        colour = coloured("side", list(SIDES), list(SIDES.values()))
        shape = shaped("side", list(SIDES))
    base = rows_chart().encode(color=colour)
    stems = base.mark_rule(opacity=0.28, strokeWidth=1.5).encode(x=x, y=alt.Y("low:Q"), y2="high")
    dots = base.mark_point(filled=True, opacity=0.95, size=80).encode(x=x, y=y, shape=shape, tooltip=tooltip(columns))
    layers = [*rule("y", 0, "equal"), stems, dots]
    if len(names) == 1:
        text = alt.Text(field="label", type="nominal")
        layers.append(
            rows_chart()
            .mark_text(align="left", dx=9, dy=-7, fontSize=11, color="var(--ink)")
            .encode(x=x, y=y, text=text)
        )
    low, high = (pick(rows, key=lambda row: row["gap"]) for pick in (min, max))
    return Chart(
        name="gaps",
        title="Who is recognised in which occupation",
        text="Above 0, women of an occupation are found more often than its men. A cloud that rises to the right "
        "compounds the imbalance: the gap goes with whoever is the majority. Lines are 95% intervals.",
        alt=f"Scatter chart of the gap of true positive rates over the share of women for {len(rows)} points, from "
        f"{low['gap']:+.2f} ({low['class']}) to {high['gap']:+.2f} ({high['class']}). A line marks 0.",
        spec=layered(*layers, height=420),
        rows=rows,
        columns=columns,
    )


def by_training(one: Shown, *, several: bool) -> list[dict[str, Any]]:
    """The metrics that trainings are compared by."""
    rows = []
    for group in one.entry["groups"]:
        if set(group["by"]) == {"train"}:
            train = group["by"]["train"]
            values = {name: (group["metrics"].get(name) or {}).get("value") for name in COMPARED}
            rows.append(
                {"run": one.run, "train": train, "series": f"{train}, {one.run}" if several else train, **values}
            )
    return [row for row in rows if row["balanced_accuracy"] is not None and row["gap_rms"] is not None]


def compared(rows: list[dict[str, Any]], *, several: bool) -> Chart:
    """Gap over accuracy: what a mitigation gains, and what it costs."""
    import altair as alt

    columns = [Column("train", "training"), *([Column("run", "model")] if several else [])]
    columns += [Column(name, name, 4) for name in COMPARED]
    x = alt.X(
        field="balanced_accuracy",
        type="quantitative",
        title="balanced_accuracy",
        scale=alt.Scale(zero=False, nice=True),
    )
    y = alt.Y(field="gap_rms", type="quantitative", title="gap_rms", scale=alt.Scale(zero=True, nice=True))
    names = list(dict.fromkeys(row["train"] for row in rows))
    dots = rows_chart().mark_point(filled=True, size=130, opacity=1).encode(
        x=x, y=y, color=coloured("train", names), shape=shaped("train", names), tooltip=tooltip(columns)
    )  # fmt: skip
    text = rows_chart().mark_text(align="left", dx=10, dy=-7, fontSize=11, color="var(--ink)").encode(
        x=x, y=y, text=alt.Text(field="series", type="nominal")
    )  # fmt: skip
    return Chart(
        name="trainings",
        title="What mitigation gains and costs",
        text="Better is to the right (more occupations found) and down (a smaller gap).",
        alt=f"Scatter chart of gap_rms over balanced_accuracy for {len(rows)} trainings; the table has the values.",
        spec=layered(dots, text, height=300),
        rows=rows,
        columns=columns,
        opened=True,
    )
