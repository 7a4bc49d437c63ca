"""Runs that are revisions of one model, such as a training run's checkpoints: each leading metric as a curve."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenhand.report import parts, words
from evenhand.report.charts import Chart, Column, layered, rows_chart, rule, tooltip
from evenhand.report.source import View, called

if TYPE_CHECKING:
    import altair

FEWEST = 3
NUMBER = re.compile(r"(\d+(?:\.\d+)?)")
NEWEST = "main"  # what a Hub id without a revision stands for
CROWDED = 10  # times the middle number is less than the last one where a linear axis has no room for the first half
ROOM = 48  # pixels beside the first and the last dot: the neutral value's name has its place there
SHORT = 60  # characters that fit beside one another under the chart


@dataclass(frozen=True, slots=True)
class Revisions:
    """Runs of one model's revisions: each with its revision's name and, where the axis is one of numbers, its number.

    `axis` is what the number counts, by the revisions' own word for it; empty where the axis is one of names.
    """

    model: str
    axis: str
    steps: list[tuple[View, str, float | None]]


def revision(view: View) -> tuple[str, str, str]:
    """A run's model with what its revisions share, that model's name for people, and the revision's name.

    On the Hub the revision stands after the @; of anything else it is the number at the end of its name.
    """
    model = view.results["model"]
    ref, kind = str(model.get("ref", "?")), str(model.get("kind"))
    if model.get("revision"):
        repo, at, name = ref.partition("@")
        return f"{kind} {repo}", repo, name if at else NEWEST
    stem = re.sub(r"(\.[A-Za-z]\w*)?/*$", "", ref)
    shared = re.sub(r"\d+$", "", stem)
    if shared == stem:
        return f"{kind} {ref} alone", ref, ref
    name = re.split(r"[/#:]", stem)[-1]
    said = shared if called(shared) == shared else "/".join(shared.split("/")[-2:])
    return f"{kind} {shared}", said.rstrip("/-_. "), name


def revisions(views: Sequence[View]) -> list[Revisions]:
    """The models of which there are three revisions or more, each with its runs in the order of the axis."""
    found: dict[str, list[tuple[View, str, str]]] = {}
    for view in views:
        shared, model, name = revision(view)
        found.setdefault(shared, []).append((view, model, name))
    return [
        placed(runs[0][1], [(view, name) for view, _, name in runs])
        for runs in found.values()
        if len({name for _, _, name in runs}) >= FEWEST
    ]


def placed(model: str, runs: Sequence[tuple[View, str]]) -> Revisions:
    """The runs along numbers where their names are alike but for these; else along names, in the order given."""
    split = [NUMBER.split(name) for _, name in runs]  # text, number, text, number, ..., text
    if len({tuple(one[::2]) for one in split}) == 1:
        for i in range(1, len(split[0]), 2):
            numbers = [float(one[i]) for one in split]
            if len(set(numbers)) == len({name for _, name in runs}):
                before = split[0][i - 1].strip("-_./ ")
                axis = before if len(before) > 1 else "number"
                order = sorted(zip(numbers, runs, strict=True), key=lambda one: one[0])
                return Revisions(model, axis, [(view, name, number) for number, (view, name) in order])
    return Revisions(model, "", [(view, name, None) for view, name in runs])


def charts(task: str, views: Sequence[View]) -> list[Chart]:
    """A curve per model and leading metric of a task."""
    found: list[Chart] = []
    for model in revisions(views):
        entries = [view.tasks[task] for view, _, _ in model.steps]
        for lead in words.leads(task, entries):
            rows = points(task, lead.metric, model)
            if sum(row["value"] is not None for row in rows) >= FEWEST:
                like = next(e["metrics"][lead.metric] for e in entries if lead.metric in e["metrics"])
                found.append(curve(f"curve-{len(found) + 1}", lead.metric, model, rows, like))
    return found


def points(task: str, metric: str, model: Revisions) -> list[dict[str, Any]]:
    """A metric's value and interval in each revision that has it."""
    rows = []
    for i, (view, name, step) in enumerate(model.steps):
        if estimate := view.tasks[task]["metrics"].get(metric):
            rows.append({
                "revision": name, "step": step, "at": i, "value": estimate["value"], "low": estimate["ci_low"],
                "high": estimate["ci_high"], "n": estimate["n"], "reading": estimate["reason"] or parts.lean(estimate),
            })  # fmt: skip
    return rows


def along(axis: str, rows: list[dict[str, Any]]) -> "altair.X":
    """The axis of the revisions: their numbers with a tick at each, or their names in the order given."""
    import altair as alt

    if not axis:
        names = list(dict.fromkeys(row["revision"] for row in rows))
        angle = 0 if len("".join(names)) <= SHORT else -35
        ticks = alt.Axis(title="revision", labelAngle=angle, labelLimit=150, grid=False)
        return alt.X(field="revision", type="nominal", axis=ticks, scale=alt.Scale(domain=names, type="point"))
    steps = [row["step"] for row in rows]
    ticks = alt.Axis(values=steps, labelOverlap="greedy", labelSeparation=8, grid=False, format=",.2~f")
    if CROWDED * steps[len(steps) // 2] < steps[-1]:
        least = min(step for step in steps if step)
        scale = alt.Scale(type="symlog", constant=least, nice=False, padding=ROOM)
        return alt.X(field="step", type="quantitative", title=f"{axis}, logarithmic", axis=ticks, scale=scale)
    scale = alt.Scale(zero=False, nice=False, padding=ROOM)
    return alt.X(field="step", type="quantitative", title=axis, axis=ticks, scale=scale)


def curve(name: str, metric: str, model: Revisions, rows: list[dict[str, Any]], like: dict[str, Any]) -> Chart:
    """The line with its intervals, and the value to read it against; `like` is one of the metric's estimates."""
    import altair as alt

    value = Column("value", metric, 1 if like["unit"] == "percent" else 3)
    columns = [Column("revision", "revision"), value]
    if model.axis:
        columns.insert(1, Column("step", model.axis, 0 if all(row["step"].is_integer() for row in rows) else 2))
    intervals = any(row["low"] is not None for row in rows)
    if intervals:
        columns += [Column("low", "from", value.digits), Column("high", "to", value.digits)]
    if any(row["reading"] for row in rows):
        columns.append(Column("reading", "reading"))
    scale = alt.Scale(zero=False, nice=True)
    y = alt.Y(field="value", type="quantitative", title=f"{metric}, {like['unit']}", scale=scale)
    base = rows_chart().encode(x=along(model.axis, rows))
    line = base.mark_line(color="var(--run1)", strokeWidth=2).encode(y=y, order=alt.Order("at:Q"))
    stems = base.mark_rule(color="var(--run1)", opacity=0.45, strokeWidth=2).encode(y=alt.Y("low:Q"), y2="high")
    dots = base.mark_point(color="var(--run1)", filled=True, size=80, opacity=1).encode(y=y, tooltip=tooltip(columns))
    aim, layers = "", [*([stems] if intervals else []), line, dots]
    for key in ("best", "neutral"):
        if (target := like.get(key)) is not None:
            aim, layers = f"The dashed line is the {key} value, {target:g}.", [*rule("y", target, key), *layers]
    level = f"{100 * (like.get('level') or 0.95):g}%"
    said = [value.said(row["value"]) for row in (rows[0], rows[-1])]
    return Chart(
        name=name,
        title=f"{metric} along the revisions of {model.model}",
        text=" ".join(filter(None, [f"Each dot is a run{f', with its {level} interval' if intervals else ''}.", aim])),
        alt=f"Line chart of {metric} over {len(rows)} revisions of {model.model}, from {rows[0]['revision']} "
        f"at {said[0]} to {rows[-1]['revision']} at {said[1]}. {aim}".strip(),
        spec=layered(*layers, height=260),
        rows=rows,
        columns=columns,
        opened=True,
    )
