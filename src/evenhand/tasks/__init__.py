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
from evenhand.metrics.gap_pairs import Tally
from evenhand.metrics.intervals import Measure, Resampling
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
    """A benchmark: how it asks, and how it reads answers.

    Some methods are not every benchmark's. One whose records need all answers at once, since a classifier is trained on
    them, has `read_together(items, options, form, answers, *, seed) -> list[Record]`, which is called in place of
    `read`; one that asks about all items at once has `ask_together(items, options, form, *, seed)`, which gives every
    item's requests. One whose options decide in which forms it asks has `forms(options)`, in place of its card's. One
    that scores predictions made elsewhere has `predicted(path, data, *, allow_missing)`, or, where the file says what
    is true, `predictions(path, options) -> (data, records, notes)`.
    """

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

    def measures(self, records: Sequence[Record], options: Any) -> Sequence[Measure | Tally]:
        """Every metric, over all records and over their parts, as statistics: `summarise` and comparisons use them."""

    def reading(self, record: Record, options: Any) -> tuple[str, float | str]:
        """An item's name and what the model makes of it, as a number or a word: what a comparison lists."""

    def summarise(self, records: Sequence[Record], options: Any, how: Resampling) -> Outcome:
        """Estimates over the records."""


def form_for(
    card: Card, supports: frozenset[type[Request]], forms: Mapping[str, tuple[type[Request], ...]] | None = None
) -> str:
    """The best form in which this benchmark can ask a model that supports these requests.

    Args:
        card: the benchmark's.
        supports: what the model answers.
        forms: those that the benchmark's options leave; the card's if None.

    Raises:
        UnsupportedError: the model answers none of the forms.
    """
    forms = card.forms if forms is None else forms
    for form, needs in forms.items():
        if supports.issuperset(needs):
            return form
    wanted = " or ".join("+".join(kind.__name__ for kind in needs) for needs in forms.values())
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
