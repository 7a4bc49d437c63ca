"""bios where the model itself is trained: one request per training, with the train rows' texts and the test rows'."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from evenhand.classifiers import Floats, balanced_weights
from evenhand.data.bios import GENDERS
from evenhand.errors import InputError, ModelError
from evenhand.records import Record
from evenhand.requests import Answer, Classify, Vector
from evenhand.tasks.bios_probe import TRAININGS, Item, rows, split

EPOCHS, RATE = 3, 1e-4


def trainings(train: str) -> tuple[str, ...]:
    """Those that `train` stands for; SenSeI is a method for frozen vectors."""
    return tuple(name for name in TRAININGS if name != "sensei") if train == "all" else (train,)


def _roles(training: str) -> tuple[str, str]:
    return ("scrubbed", "scrubbed twin") if training == "scrub" else ("text", "twin")


def _queries(items: Sequence[Item], training: str) -> tuple[str, ...]:
    """Each different text and twin once: a text that is its own twin is answered the same."""
    return tuple(dict.fromkeys(item.texts()[role] for role in _roles(training) for item in items))


def ask(
    items: Sequence[Item], train: str, *, pooling: Literal["mean", "first"], epochs: int, rate: float, seed: int
) -> dict[str, Classify]:
    """The request of every training, by its name.

    Raises:
        InputError: there are no train rows of two occupations, or no test rows.
    """
    parts = split(items)
    names = sorted({item.row.label for item in parts["train"]})
    if len(names) < 2:
        raise InputError("the training rows are all of one class: there is nothing to learn")
    number = {name: i for i, name in enumerate(names)}
    labels = tuple(number[item.row.label] for item in parts["train"])
    groups = np.array([GENDERS.index(item.row.gender) for item in parts["train"]])
    found = {}
    for training in trainings(train):
        own, twin = _roles(training)
        read = (own, twin) if training == "cda" else (own,)
        weights = balanced_weights(np.array(labels), groups).tolist() if training == "balanced" else ()
        found[training] = Classify(
            texts=tuple(item.texts()[role] for role in read for item in parts["train"]),
            labels=labels * len(read),
            queries=_queries(parts["test"], training),
            weights=tuple(weights),
            pooling=pooling,
            epochs=epochs,
            learning_rate=rate,
            seed=seed,
        )
    return found


def read(items: Sequence[Item], answers: Sequence[Answer], train: str) -> list[Record]:
    """One record per test row and training; `answers` are those to the requests of `ask`, in order."""
    parts = split(items)
    names = sorted({item.row.label for item in items})
    learnt = sorted({item.row.label for item in parts["train"]})
    columns = [names.index(name) for name in learnt]
    records: list[Record] = []
    for training, answer in zip(trainings(train), answers, strict=True):
        queries = _queries(parts["test"], training)
        assert isinstance(answer, Vector)  # noqa: S101 - what answers a Classify
        said = np.frombuffer(answer.values, dtype=np.float32)  # type: ignore[call-overload]
        if said.size != len(queries) * len(learnt) or not np.isfinite(said).all():
            raise ModelError(f"train={training}: the model's probabilities are not finite, or too many or too few")
        whole = np.zeros((len(queries), len(names)))
        whole[:, columns] = said.reshape(len(queries), len(learnt))
        place = {query: i for i, query in enumerate(queries)}
        own, twin = (_picked(whole, place, parts["test"], role) for role in _roles(training))
        records += rows(training, parts["test"], names, own, twin, converged=True)
    return records


def _picked(whole: Floats, place: Mapping[str, int], items: Sequence[Item], role: str) -> Floats:
    found: Floats = whole[[place[item.texts()[role]] for item in items]]
    return found
