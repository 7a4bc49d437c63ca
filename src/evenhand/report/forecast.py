"""A forecast as a table, and its time in words."""

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from evenhand.report.lines import printable

if TYPE_CHECKING:
    from evenhand.forecast import Forecast

COLUMNS = ("task", "form", "items", "requests", "passes", "tokens", "time")


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whatever reads best."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def forecast_table(found: "Forecast") -> Table:
    """One row per task; a dash where a served model does its work elsewhere."""
    title = escape(printable(f"{found.model}, {found.device}"))
    table = Table(title=title, title_justify="left", title_style="", box=None, padding=(0, 1), pad_edge=False)
    for column in COLUMNS:
        table.add_column(
            column, header_style="bold", justify="left" if column in ("task", "form") else "right", no_wrap=True
        )
    for task in found.tasks:
        numbers = (task.items, task.requests, task.passes, task.tokens)
        table.add_row(
            task.name, task.form, *("-" if n is None else f"{n:,}" for n in numbers),
            "-" if task.seconds is None else duration(task.seconds),
        )  # fmt: skip
    return table


def forecast_line(found: "Forecast") -> str:
    """What it comes to."""
    if found.seconds is None:
        return "the time is the server's: it was sent one short text, to see how it answers, and nothing more"
    return f"about {duration(found.seconds)} in all, {duration(found.ready)} of it until the model is ready"
