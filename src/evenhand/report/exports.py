"""Results in the forms that others read: CSV, LaTeX, Markdown, a model card's model-index, lm-eval's results."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

from evenhand.report.lines import printable
from evenhand.report.table import MOST_GROUPS, aim, interval, number

COLUMNS = (
    "model", "revision", "dtype", "task", "version", "method", "form", "data", "sha256", "group", "metric", "value",
    "ci_low", "ci_high", "level", "interval", "n", "n_undefined", "neutral", "best", "unit", "reading", "reason",
)  # fmt: skip
LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip
URL = "https://pypi.org/project/evenhand/"


def group_name(by: dict[str, str]) -> str:
    """A group in words."""
    return ", ".join(f"{key}={value}" for key, value in by.items())


def rows(results: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every metric of every task, over all items and by group, a flat row each."""
    model = {key: results["model"].get(key) for key in ("revision", "dtype")} | {"model": results["model"]["ref"]}
    for name, task in results["tasks"].items():
        about = {"task": name} | {key: task[key] for key in ("version", "method", "form")}
        data = {"data": task["data"]["source"], "sha256": task["data"]["sha256"]}
        for group in [{"by": {}, "metrics": task["metrics"]}, *task["groups"]]:
            for metric, estimate in group["metrics"].items():
                yield model | about | data | {"group": group_name(group["by"]), "metric": metric} | estimate


def as_csv(results: dict[str, Any]) -> str:
    """One line per metric and group, every digit kept; what is null is empty."""
    out = io.StringIO()
    table = csv.DictWriter(out, COLUMNS, extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    table.writerows(rows(results))
    return out.getvalue()


def latex(text: str) -> str:
    """The text with what LaTeX would read as a command spelled out."""
    return "".join(LATEX.get(c, c) for c in printable(text))


def markdown(text: str) -> str:
    """The text as a cell of a Markdown table: no markup, no HTML, no new cell."""
    escaped = "".join(f"\\{c}" if c in r"\`*_{}[]<>|#~$" else c for c in printable(text))
    return escaped.replace("&", "&amp;")


def as_latex(results: dict[str, Any]) -> str:
    """A booktabs table per task, and one of its first groups. The package booktabs is needed."""
    parts = ["% evenhand export --format latex; needs \\usepackage{booktabs}"]
    for caption, head, body in tables(results):
        align = "l" + "r" * (len(head) - 1)
        lines = [" & ".join(map(latex, row)) + r" \\" for row in (head, *body)]
        parts += [
            r"\begin{table}", r"\centering", rf"\caption{{{latex(caption)}}}", rf"\begin{{tabular}}{{{align}}}",
            r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}", r"\end{table}",
        ]  # fmt: skip
    return "\n".join(parts) + "\n"


def as_markdown(results: dict[str, Any]) -> str:
    """The same tables in Markdown, and each task's notes."""
    parts = [f"# {markdown(results['model']['ref'])}", ""]
    for caption, head, body in tables(results):
        lines = [f"| {' | '.join(map(markdown, row))} |" for row in (head, *body)]
        parts += [f"**{markdown(caption)}**", "", lines[0], "|" + "---|" * len(head), *lines[1:], ""]
    for name, task in results["tasks"].items():
        parts += [f"- {markdown(name)}: {markdown(line)}" for line in task["notes"]]
    return "\n".join(parts).rstrip() + "\n"


def tables(results: dict[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Per task a caption, a head and rows; then the same for its first groups."""
    for name, task in results["tasks"].items():
        data = task["data"]
        caption = f"{name} of {results['model']['ref']}: {data['n']} rows of {data['source']}; {shown(task)}"
        body = [
            [metric, number(e["value"], e["unit"]), interval(e), aim(e), str(e["n"]), e["reason"] or e["reading"]]
            for metric, e in task["metrics"].items()
        ]
        yield caption, ["metric", "value", "95% interval", "aim", "n", "reading"], body
        if groups := task["groups"]:
            metrics = list(groups[0]["metrics"])[:4]
            body = [
                [group_name(group["by"]), str(group["n"])]
                + [
                    f"{number(e['value'], e['unit'])} {interval(e)}" if (e := group["metrics"].get(m)) else "-"
                    for m in metrics
                ]
                for group in groups[:MOST_GROUPS]
            ]
            more = len(groups) - MOST_GROUPS
            note = f" ({more} more groups in the CSV)" if more > 0 else ""
            yield f"{name} by group{note}", ["group", "n", *metrics], body


def shown(task: dict[str, Any]) -> str:
    """How a task was asked."""
    return f"{task['form']}, {task['method']}, version {task['version']}"


def as_model_index(results: dict[str, Any]) -> str:
    """The `model-index` of a Hugging Face model card, in YAML; metrics without a value are left out."""
    from huggingface_hub import EvalResult, ModelCardData

    found = [
        EvalResult(
            task_type="other", task_name=name, dataset_type=task["data"]["source"], dataset_name=task["data"]["source"],
            dataset_config=name, dataset_revision=task["data"]["sha256"],
            dataset_args={"version": task["version"], "method": task["method"], "form": task["form"]},
            metric_type=metric, metric_name=metric, metric_value=e["value"],
            metric_args={
                key: e[key]
                for key in ("ci_low", "ci_high", "level", "interval", "n", "unit", "neutral", "best")
                if e.get(key) is not None
            },
            source_name="evenhand", source_url=URL,
        )
        for name, task in results["tasks"].items()
        for metric, e in task["metrics"].items()
        if e["value"] is not None
    ]  # fmt: skip
    name = results["model"]["ref"].rpartition(":")[2]
    return str(ModelCardData(model_name=name, eval_results=found).to_yaml()) + "\n"


def as_lm_eval(results: dict[str, Any]) -> str:
    """The shape of lm-evaluation-harness's results file; the intervals stand under `evenhand`."""
    tasks = results["tasks"]
    scores: dict[str, dict[str, Any]] = {}
    for name, task in tasks.items():
        scores[name] = {"alias": name}
        for metric, e in task["metrics"].items():
            if e["value"] is not None:
                scores[name] |= {f"{metric},none": e["value"], f"{metric}_stderr,none": "N/A"}
    shaped = {
        "results": scores,
        "group_subtasks": {name: [] for name in tasks},
        "configs": {
            name: {"task": name, "dataset_path": task["data"]["source"], "metadata": {"version": task["version"]}}
            for name, task in tasks.items()
        },
        "versions": {name: task["version"] for name, task in tasks.items()},
        "n-shot": dict.fromkeys(tasks, 0),
        "higher_is_better": {
            name: {metric: e["best"] != 0 if e.get("best") is not None else None for metric, e in t["metrics"].items()}
            for name, t in tasks.items()
        },
        "n-samples": {n: {"original": t["data"]["n"], "effective": t["data"]["n"]} for n, t in tasks.items()},
        "config": {"model": results["model"]["kind"], "model_args": f"pretrained={results['model']['ref']}"},
        "model_source": results["model"]["kind"],
        "model_name": results["model"]["ref"],
        "evenhand": {name: {"metrics": task["metrics"], "data": task["data"]} for name, task in tasks.items()},
    }
    return json.dumps(shaped, indent=2, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[[dict[str, Any]], str]] = {
    "csv": as_csv,
    "latex": as_latex,
    "markdown": as_markdown,
    "model-index": as_model_index,
    "lm-eval": as_lm_eval,
}
