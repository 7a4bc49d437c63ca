"""Benchmarks' cards as text for a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pydantic import BaseModel

    from evenhand.tasks import Card


def card_table(cards: "Sequence[Card]") -> RenderableType:
    """Every benchmark, a row each."""
    table = Table("task", "what it measures", "languages", "metrics")
    for card in cards:
        metrics = ", ".join(metric.name for metric in card.metrics)
        table.add_row(card.name, escape(card.title), ", ".join(card.languages), metrics)
    return table


def card_page(card: "Card", options: "type[BaseModel]") -> RenderableType:
    """One benchmark: what it asks, its metrics, options, sources and limits."""
    table = Table("metric", "unit", "aim", "definition")
    for metric in card.metrics:
        aim = f"neutral {metric.neutral:g}" if metric.neutral is not None else ""
        aim = f"best {metric.best:g}" if metric.best is not None else aim
        table.add_row(metric.name, metric.unit, aim, escape(metric.text))
    choices = Table("option", "default", "meaning")
    for name, field in options.model_fields.items():
        default = ",".join(field.default) if isinstance(field.default, tuple) else str(field.default)
        choices.add_row(f"{card.name}.{name}", escape(default), escape(field.description or ""))
    facts = {
        "asks as": ", then ".join(card.forms),
        "sources": "; ".join(card.sources),
        "licence": card.licence,
        "limits": card.limits,
    }
    lines = [Text(f"{name}: {value}") for name, value in facts.items()]
    return Group(
        Text(f"{card.name} (version {card.version}): {card.title}", style="bold"),
        Text(card.text),
        table,
        choices,
        *lines,
    )
