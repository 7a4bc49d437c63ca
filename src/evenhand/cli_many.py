"""Several models on the command line: call, print."""

import json
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from evenhand import errors
from evenhand.cli_results import WIDE

if TYPE_CHECKING:
    from evenhand.run import Run


def say(line: str) -> None:
    """A line on stderr, whatever is in it."""
    from evenhand.report.lines import printable

    typer.echo(printable(line), err=True)


def run_several(models: list[str], tasks: list[str], out: Path, *, report: bool, as_json: bool, **how: Any) -> None:
    """Measures the models, prints the comparison and where everything is; leaves with the first failure's code."""
    from evenhand.many import COMPARISON, run_many
    from evenhand.report.html import beside
    from evenhand.report.lines import told

    def done(run: "Run") -> None:
        beside(run.path, say, wanted=report)

    def failed(model: str, error: Exception) -> None:
        say(f"evenhand: {model}: {told(error)}")
        if "--debug" in sys.argv:
            traceback.print_exception(error)

    found = run_many(models, tasks, out=out, done=done, failed=failed, **how)
    runs = [run.path for run in found.runs.values()]
    if found.comparison is not None:
        page = beside(out, say, wanted=report, runs=runs)
        if not found.comparison["tasks"]:
            say(f"evenhand: nothing can be compared: {(found.comparison['notes'] or ['no task in common'])[0]}")
        show(found.comparison, as_json=as_json)
        if page and not as_json:
            typer.echo(f"a page to look at: {page}")
    if not as_json:
        written = [*(path / "results.json" for path in runs), *([out / COMPARISON] if found.comparison else [])]
        typer.echo("\n".join(f"written to {path}" for path in written), nl=bool(written))
    for error in found.failures.values():
        raise typer.Exit(getattr(error, "exit_code", errors.EvenhandError.exit_code))


def show(comparison: dict[str, Any], *, as_json: bool) -> None:
    """Prints a comparison as `evenhand compare` does; as a table only where there is something in it."""
    from evenhand.report.differences import comparison as tables

    if as_json:
        typer.echo(json.dumps(comparison, indent=1, ensure_ascii=False, allow_nan=False))
    elif comparison["tasks"]:
        plain = Console()
        Console(width=None if plain.is_terminal else WIDE).print(tables(comparison))
