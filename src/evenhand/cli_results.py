"""Commands that read what was measured: compare, gate, export; and selfcheck. Parse, call, print."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from evenhand import errors

FAILED = 1
WIDE = 160  # columns of a table that goes to a file or a pipe


class By(StrEnum):
    """What a gate's rules are held to."""

    value = "value"
    interval = "interval"


class Format(StrEnum):
    """What `evenhand export` writes."""

    csv = "csv"
    latex = "latex"
    markdown = "markdown"
    model_index = "model-index"
    lm_eval = "lm-eval"


def save(path: Path, text: str) -> None:
    """Writes a file of the user's choosing."""
    from evenhand.folder import write

    try:
        write(path, text)
    except OSError as error:
        raise errors.InputError(f"cannot write {path}: {error.strerror or error}") from None


def wide() -> Console:
    """A console on which a table keeps its columns where it goes to a file or a pipe."""
    return Console(width=None if Console().is_terminal else WIDE)


def show_comparison(found: dict[str, Any], *, as_json: bool) -> None:
    """Prints a comparison, as tables or as JSON and nothing else."""
    from evenhand.report.differences import comparison

    if as_json:
        typer.echo(json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False))
    else:
        wide().print(comparison(found))


def compare_command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, two or more; the first is the baseline.")],
    bootstrap: Annotated[int, typer.Option(min=0, help="Draws of intervals and p-values; 0 turns them off.")] = 9999,
    seed: Annotated[int, typer.Option(min=0, help="Their seed.")] = 0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON and nothing else.")] = False,
) -> None:
    """Compare runs on the items they share: differences, intervals, p-values, and the items that changed most."""
    from evenhand.compare import compare

    show_comparison(compare(runs, bootstrap=bootstrap, seed=seed), as_json=as_json)


def gate_command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    rule: Annotated[list[str] | None, typer.Option(help='A rule, such as "stereoset.ss within 45..55".')] = None,
    baseline: Annotated[Path | None, typer.Option(help="The run folder that `baseline` in a rule means.")] = None,
    by: Annotated[By, typer.Option(help="Hold the value, or the whole interval, to the rules.")] = By.value,
    junit: Annotated[Path | None, typer.Option(help="Write the verdicts as JUnit XML.")] = None,
    *,
    github: Annotated[bool, typer.Option("--github", help="Print GitHub annotations.")] = False,
) -> None:
    """Hold a run's numbers to rules: exit code 0 if all pass, 1 if one fails."""
    from evenhand.gate import gate
    from evenhand.report import verdicts

    found = gate(run, rule or [], baseline=baseline, by=by.value)
    if junit is not None:
        save(junit, verdicts.junit(found))
    for verdict in found:
        typer.echo(verdicts.annotation(verdict) if github else verdicts.line(verdict))
    if not all(verdict.passed for verdict in found):
        raise typer.Exit(FAILED)


def export_command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    form: Annotated[Format, typer.Option("--format", help="What to write.")],
    out: Annotated[Path | None, typer.Option(help="The file; standard output if not given.")] = None,
) -> None:
    """Write a run's numbers as a table or a file for other programs."""
    from evenhand.folder import read_results
    from evenhand.report.exports import FORMATS

    text = FORMATS[form.value](read_results(run))
    if out is None:
        typer.echo(text, nl=False)
    else:
        save(out, text)


def report_command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; several are shown side by side.")],
    out: Annotated[Path, typer.Option(help="The HTML file.")] = Path("report.html"),
) -> None:
    """Write one self-contained HTML page: results in plain words, charts, tables, limits, provenance."""
    from evenhand.report.html import write

    typer.echo(f"written to {write(runs, out)}")


def selfcheck_command(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON and nothing else.")] = False,
) -> None:
    """Measure models whose bias is known, through the whole pipeline: exit code 1 if a number is not as it must be."""
    from evenhand.report.checks import checks_json, lines
    from evenhand.selfcheck import selfcheck

    found = selfcheck()
    if as_json:
        typer.echo(json.dumps(checks_json(found), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        typer.echo("\n".join(lines(found)))
    if not all(check.passed for check in found):
        raise typer.Exit(FAILED)


def add(app: typer.Typer) -> None:
    """Adds these commands to the command line."""
    app.command("compare")(compare_command)
    app.command("report")(report_command)
    app.command("gate")(gate_command)
    app.command("export")(export_command)
    app.command("selfcheck")(selfcheck_command)
