"""Benchmarks: one file each, exposing `TASK`; found by file, or by the entry-point group `evenhand.tasks`."""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol

from pydantic import BaseModel

from evenhand.data import Dataset
from evenhand.errors import InputError, UnsupportedError, nearest
from evenhand.metrics.intervals import Resampling
from evenhand.records import Metric, Outcome, Record
from evenhand.requests import Answer, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a benchmark is, for `evenhand tasks` and the docs."""

    name: str
    version: int
    title: str
    text: str
    languages: tuple[str, ...]
    sources: tuple[str, ...]
    licence: str
    limits: str
    metrics: tuple[Metric, ...]
    forms: Mapping[str, tuple[type[Request], ...]]


class Task(Protocol):
    """A benchmark: how it asks, and how it reads answers."""

    card: Card
    options: type[BaseModel]

    def load(self, options: Any, source: str | None, *, offline: bool) -> Dataset[Any]:
        """The items, typed, with their source and hash. Raises InputError for data that will not do."""

    def method(self, options: Any, form: str) -> str:
        """The name of the rule that the numbers follow; runs of different methods are never compared."""

    def ask(self, item: Any, options: Any, form: str, *, seed: int) -> tuple[Request, ...]:
        """What to ask the model about one item."""

    def read(self, item: Any, options: Any, form: str, answers: Sequence[Answer]) -> Record:
        """One item's answers, in the order asked, as one flat row."""

    def summarise(self, records: Sequence[Record], options: Any, how: Resampling) -> Outcome:
        """Estimates over the records."""


def form_for(card: Card, supports: frozenset[type[Request]]) -> str:
    """The best form in which this benchmark can ask a model that supports these requests.

    Raises:
        UnsupportedError: the model answers none of the forms.
    """
    for form, needs in card.forms.items():
        if supports.issuperset(needs):
            return form
    wanted = " or ".join("+".join(kind.__name__ for kind in needs) for needs in card.forms.values())
    have = ", ".join(sorted(kind.__name__ for kind in supports)) or "nothing"
    raise UnsupportedError(f"{card.name} asks for {wanted}, and this model answers {have}")


@cache
def known() -> dict[str, Task]:
    """Every benchmark by name."""
    found: dict[str, Task] = {}
    for module in pkgutil.iter_modules(__path__):
        task = getattr(importlib.import_module(f"{__name__}.{module.name}"), "TASK", None)
        if task is not None:
            found[task.card.name] = task
    for point in entry_points(group="evenhand.tasks"):
        task = point.load()
        found[task.card.name] = task
    return found


def get(name: str) -> Task:
    """The benchmark of that name; InputError with the nearest one if there is none."""
    if name not in known():
        raise InputError(f"no task {name!r}; {nearest(name, known())}")
    return known()[name]
