"""`evenhand run`: one model or several, or what a run would take. Parse, call, print."""

import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from evenhand import errors
from evenhand.cli_results import show_comparison, wide

if TYPE_CHECKING:
    from evenhand.report.progress import Bar
    from evenhand.run import Run


def pairs(values: list[str], what: str) -> dict[str, str]:
    """NAME=VALUE arguments as a mapping."""
    found = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not name or not rest:
            raise errors.InputError(f"{what} {value}: write it as NAME=VALUE")
        found[name] = rest
    return found


def task_options(values: list[str]) -> dict[str, dict[str, Any]]:
    """TASK.KEY=VALUE arguments, by task."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in pairs(values, "--option").items():
        task, dot, option = name.rpartition(".")
        if not dot:
            raise errors.InputError(f"--option {name}={value}: write it as TASK.KEY=VALUE")
        found.setdefault(task, {})[option] = value
    return found


def show(results: dict[str, Any], names: list[str], *, as_json: bool) -> None:
    """Prints results as tables, or as the content of results.json and nothing else."""
    if as_json:
        typer.echo(json.dumps(results, indent=1, ensure_ascii=False))
        return
    from evenhand.report.table import task_table

    console = Console()
    for name in names:
        console.print(task_table(name, results["tasks"][name]))


def run_command(
    model: Annotated[
        list[str],
        typer.Argument(
            help="Hub id (or ID@REVISION), local folder, demo, smollm2-135m, minilm; masked:REF, causal:REF, "
            "encoder:REF, scripted:FILE, api:BASE_URL#MODEL. Several are compared with the first."
        ),
    ],
    tasks: Annotated[str, typer.Option(help="Benchmarks, separated by commas; see `evenhand tasks`.")] = "cooccurrence",
    out: Annotated[
        Path | None, typer.Option(help="Run folder; runs/MODEL if not given. Of several models, the one above.")
    ] = None,
    data: Annotated[list[str] | None, typer.Option(metavar="NAME=PATH", help="Data of your own for a task.")] = None,
    option: Annotated[list[str] | None, typer.Option(metavar="TASK.KEY=VALUE", help="An option of a task.")] = None,
    pack: Annotated[str | None, typer.Option(help="A pack's name or folder, for the task census.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first N items of each task.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    batch_tokens: Annotated[
        int | None, typer.Option(help="Tokens in one forward pass, at most; 2048, or what a GPU has memory for.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of resampling and sampling.")] = 0,
    bootstrap: Annotated[int, typer.Option(help="Bootstrap draws; 0 turns intervals off.")] = 9999,
    ray: Annotated[
        str | None,
        typer.Option(metavar="[ADDRESS]", help="Spread the work over a Ray cluster: the one there, or a new one here."),
    ] = None,
    ray_workers: Annotated[int | None, typer.Option(help="Workers; one per GPU, or per machine, if not given.")] = None,
    ray_gpus: Annotated[float | None, typer.Option(help="GPUs of each worker; one where there are any.")] = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would take: tokens, passes, and time by a short trial.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what the folder holds.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Use only what is on this machine.")] = False,
    trust_remote_code: Annotated[
        bool,
        typer.Option("--trust-remote-code", help="Run code that the model brings, with all your rights."),
    ] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write report.html too, where evenhand[report] is installed.")
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print results.json's content, or the comparison's, and nothing else.")
    ] = False,
) -> None:
    """Measure MODEL on benchmarks and keep everything in a run folder. The same command again goes on from there."""
    from evenhand.report.html import beside
    from evenhand.report.progress import Bar
    from evenhand.run import run

    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if trust_remote_code:
        typer.echo("--trust-remote-code: code from the model's repository runs with all your rights", err=True)
    names = list(dict.fromkeys(name.strip() for name in tasks.split(",") if name.strip()))
    bar = Bar(quiet=quiet)
    how: dict[str, Any] = {
        "data": pairs(data or [], "--data"), "options": task_options(option or []), "pack": pack, "limit": limit,
        "device": device, "dtype": dtype, "batch_tokens": batch_tokens, "seed": seed, "bootstrap": bootstrap,
        "ray": ray, "ray_workers": ray_workers, "ray_gpus": ray_gpus,
        "fresh": fresh, "offline": offline, "trust_remote_code": trust_remote_code,
    }  # fmt: skip
    if dry_run:
        forecasts(model, names, out, as_json=as_json, **how)
        return
    if len(model) > 1:
        run_several(model, names, out or Path("runs"), bar, report=report, as_json=as_json, **how)
        return
    with aside(bar):
        done = run(model[0], names, out=out, progress=bar, **how)
    show(done.results, names, as_json=as_json)
    page = beside(done.path, say, wanted=report)
    if not as_json:
        if page:
            typer.echo(f"a page to look at: {page}")
        typer.echo(f"written to {done.path}/results.json")


def forecasts(models: list[str], tasks: list[str], out: Path | None, *, as_json: bool, **how: Any) -> None:
    """Prints what each model's run would take, as tables or as JSON and nothing else."""
    from dataclasses import asdict

    from evenhand.forecast import forecast
    from evenhand.report.forecast import forecast_line, forecast_table
    from evenhand.spec import asked

    specs = [asked(model, tasks, out=out, **how) for model in models]
    with redirect_stdout(sys.stderr):
        found = [forecast(spec, tell=say) for spec in specs]
    if as_json:
        whole = [asdict(one) for one in found]
        typer.echo(json.dumps(whole if len(whole) > 1 else whole[0], indent=1, ensure_ascii=False))
        return
    for one in found:
        wide().print(forecast_table(one))
        typer.echo(forecast_line(one))


def say(line: str) -> None:
    """A line on stderr, whatever is in it."""
    from evenhand.report.lines import printable

    typer.echo(printable(line), err=True)


@contextmanager
def aside(bar: "Bar") -> Iterator[None]:
    """Stdout is for results: what a model's code or Ray prints there goes to stderr, with the bar, until it ends."""
    with redirect_stdout(sys.stderr):
        try:
            yield
        finally:
            bar.end()


def run_several(
    models: list[str], tasks: list[str], out: Path, bar: "Bar", *, report: bool, as_json: bool, **how: Any
) -> None:
    """Measures the models, prints the comparison and where everything is; leaves with the first failure's code."""
    from evenhand.many import COMPARISON, run_many
    from evenhand.report.html import beside
    from evenhand.report.lines import told

    def done(run: "Run") -> None:
        beside(run.path, say, wanted=report)

    def failed(model: str, error: Exception) -> None:
        line = told(error)
        say(f"evenhand: {line}" if model.rpartition(":")[2] in line else f"evenhand: {model}: {line}")
        if "--debug" in sys.argv:
            traceback.print_exception(error)

    with aside(bar):
        found = run_many(models, tasks, out=out, done=done, failed=failed, progress=bar, **how)
    runs = [run.path for run in found.runs.values()]
    if found.comparison is not None:
        page = beside(out, say, wanted=report, runs=runs)
        if not found.comparison["tasks"]:
            say(f"evenhand: nothing can be compared: {(found.comparison['notes'] or ['no task in common'])[0]}")
        if as_json or found.comparison["tasks"]:
            show_comparison(found.comparison, as_json=as_json)
        if page and not as_json:
            typer.echo(f"a page to look at: {page}")
    if not as_json:
        written = [*(path / "results.json" for path in runs), *([out / COMPARISON] if found.comparison else [])]
        typer.echo("\n".join(f"written to {path}" for path in written), nl=bool(written))
    for error in found.failures.values():
        raise typer.Exit(getattr(error, "exit_code", errors.EvenhandError.exit_code))


def add(app: typer.Typer) -> None:
    """Adds this command to the command line."""
    app.command("run")(run_command)
