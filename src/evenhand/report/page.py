"""Views of runs to a page: what stands where, and the template that it is put into."""

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from evenhand.report import curve, parts, words
from evenhand.report.charts import Chart, Shown, charts, family, known
from evenhand.report.source import View

if TYPE_CHECKING:
    from evenhand.tasks import Task


def page(views: Sequence[View]) -> str:
    """The page as HTML."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from evenhand.tasks import known as known_tasks

    there = known_tasks()
    names = list(dict.fromkeys(name for view in views for name in view.tasks))
    tasks = [task(name, views, there.get(name)) for name in names]
    specs = {chart["id"]: chart.pop("spec") for one in tasks for chart in one["charts"]}
    scripts = {"library": bundle() if specs else "", "own": asset("page.js")}
    environment = Environment(
        loader=PackageLoader("evenhand.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("page.html.jinja").render(
        title=" and ".join(view.label for view in views) if len(views) < 3 else f"{len(views)} runs",
        runs=[run(view, i) for i, view in enumerate(views, 1)],
        tasks=tasks,
        problems=[(view.label, problem) for view in views for problem in view.problems],
        warnings=[
            (view.label, str(line).removeprefix("warning: "))
            for view in views
            for line in view.results.get("warnings") or ()
        ],
        provenance=parts.provenance(views),
        policy=policy([script for script in scripts.values() if script]),
        style=Markup(asset("page.css")),  # noqa: S704 - the project's own file
        library=Markup(scripts["library"]),  # noqa: S704 - of the pinned package, no text from data in it
        own=Markup(scripts["own"]),  # noqa: S704 - the project's own file
        specs=Markup(embedded(specs)),  # noqa: S704 - escaped by embedded()
    )


def asset(name: str) -> str:
    """One of the page's own files."""
    return (files("evenhand.report") / "templates" / name).read_text(encoding="utf-8")


@cache
def bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, kept in the user's cache, since making it takes seconds."""
    from importlib.metadata import version

    import vl_convert

    from evenhand.data.fetch import cache_folder
    from evenhand.folder import write

    kept = cache_folder() / f"vega-{version('vl-convert-python')}.js"
    try:
        text = kept.read_text(encoding="utf-8")
        if text.startswith(seal(text.partition("\n")[2])):
            return text.partition("\n")[2]
    except (OSError, ValueError):
        pass
    script: str = vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;")
    script = script.replace("\r", "").replace("</script", "<\\/script").replace("<!--", "<\\!--")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write(kept, f"{seal(script)}\n{script}")
    except OSError:
        pass  # a cache that cannot be written costs the seconds again
    return script


def seal(script: str) -> str:
    """What stands before a kept script, so that half a file is not taken for one."""
    return f"// {hashlib.sha256(script.encode()).hexdigest()}"


def policy(scripts: Sequence[str]) -> str:
    """The Content-Security-Policy: nothing from anywhere, and no script but these."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def embedded(value: Any) -> str:
    """JSON that can stand in a script element: nothing in it ends the element."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def run(view: View, number: int) -> dict[str, Any]:
    """A run's line in the page's head."""
    model = view.results["model"]
    seconds = view.meta.get("seconds")
    facts = [
        ("kind", model.get("kind")),
        ("dtype", model.get("dtype")),
        ("log-probabilities by", model.get("reads")),
        ("device", view.meta.get("device")),
        ("begun", str(view.meta.get("started") or "").replace("T", " ").removesuffix("Z")),
        ("took", f"{seconds:.0f} s" if isinstance(seconds, int | float) else None),
    ]
    return {"number": number, "label": view.label, "facts": [(k, v) for k, v in facts if v]}


def task(name: str, views: Sequence[View], found: "Task | None") -> dict[str, Any]:
    """A task's card on the page."""
    card = found.card if found else None
    usual = {name: field.default for name, field in found.options.model_fields.items()} if found else {}
    having = [view for view in views if name in view.tasks]
    entries = [view.tasks[name] for view in having]
    identity = "task-" + "".join(c if c.isascii() and c.isalnum() else "-" for c in name)
    unlike = [what for what in ("version", "method", "form") if len({str(entry[what]) for entry in entries}) > 1]
    if len({str(entry["data"].get("sha256")) for entry in entries}) > 1:
        unlike.append("data")
    numbers = [views.index(view) + 1 for view in having]
    return {
        "name": name,
        "id": identity,
        "title": card.title if card else "A task that is not installed here",
        "card": card,
        "unlike": unlike,
        "leads": parts.leads(name, having, numbers),
        "about": [
            (view.label, number, parts.about(view.tasks[name], usual))
            for view, number in zip(having, numbers, strict=True)
        ],
        "metrics": parts.metric_table(name, having, numbers, card),
        "groups": parts.group_table(name, having),
        "charts": [drawn(identity, chart) for chart in [*curve.charts(name, having), *shown(name, having)]],
        "notes": noted(entries, [view.label for view in having]),
        "absent": [view.label for view in views if view not in having],
        "source": words.source(card) if card else [],
    }


def shown(name: str, views: Sequence[View]) -> list[Chart]:
    """A task's charts; rows that are not what the charts expect become a problem of the run, and no chart."""
    if family(name) not in known():
        return []
    seen = [Shown(view.label, view.tasks[name], view.records(name)) for view in views]
    try:
        return charts(name, seen)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        views[0].problems.append(f"{name}: its rows are not what the charts expect, so there are none ({error!r})")
        return []


def drawn(task: str, chart: Chart) -> dict[str, Any]:
    """A chart on the page: its specification with its data, and the same rows as a table."""
    spec = {key: value for key, value in chart.spec.items() if key not in ("$schema", "config")}
    keep = {column.field for column in chart.columns} | {"run", "side", "series", "label", "at"}
    rows = [
        {key: round(value, 6) if isinstance(value, float) else value for key, value in row.items() if key in keep}
        for row in chart.rows
    ]
    return {
        "id": f"{task}-{chart.name}",
        "title": chart.title,
        "text": chart.text,
        "alt": chart.alt,
        "spec": spec | {"datasets": spec.get("datasets", {}) | {"rows": rows}},
        "table": parts.chart_table(chart),
        "ends": chart.ends,
        "opened": chart.opened,
    }


def noted(entries: Sequence[dict[str, Any]], labels: Sequence[str]) -> list[tuple[str, str]]:
    """Notes and context, each once, with the run's name where not all of them have it."""
    lines: dict[str, list[str]] = {}
    for entry, label in zip(entries, labels, strict=True):
        for line in [*(entry["notes"] or ()), *(entry["context"] or ())]:
            lines.setdefault(str(line), []).append(label)
    return [("" if len(have) == len(entries) else ", ".join(dict.fromkeys(have)), line) for line, have in lines.items()]
