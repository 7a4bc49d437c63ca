"""The classifiers of bios: trained on the train rows' vectors, asked about the test rows and their swapped twins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand import classifiers
from evenhand.classifiers import Features, Floats, Ints, Linear, sensei
from evenhand.data.bios import GENDERS, Biography, digest
from evenhand.errors import InputError, ModelError
from evenhand.records import Record
from evenhand.requests import Answer, Vector
from evenhand.tasks.bios_summary import record

TRAININGS = ("baseline", "balanced", "cda", "scrub", "sensei")
WITH_TWINS = ("cda", "sensei", "all")
"""The trainings that read the train texts' twins."""


@dataclass(frozen=True, slots=True)
class Item:
    """A biography, its swapped twin, and how many words differ; without gendered words where that is asked for."""

    row: Biography
    twin: str
    words: int
    scrubbed: tuple[str, str] | None

    @property
    def id(self) -> str:
        """The biography's."""
        return self.row.id

    def texts(self) -> dict[str, str]:
        """Every version of the text, by its role."""
        found = {"text": self.row.text, "twin": self.twin}
        return found | dict(zip(("scrubbed", "scrubbed twin"), self.scrubbed or (), strict=False))


def roles(item: Item, train: str) -> tuple[str, ...]:
    """Which versions of an item's text are read, in order."""
    test = item.row.split == "test"
    found = []
    if train != "scrub":
        found += ["text", "twin"] if test or train in WITH_TWINS else ["text"]
    if train in ("scrub", "all"):
        found += ["scrubbed", "scrubbed twin"] if test else ["scrubbed"]
    return tuple(found)


def probe(
    items: Sequence[Item], answers: Sequence[Sequence[Answer]], *, train: str, c: float, seed: int
) -> list[Record]:
    """One record per test row and training.

    Raises:
        InputError: there are no train rows of two occupations, or no test rows.
        ModelError: a vector is not finite, or has another length than the first.
    """
    parts = split(items)
    vectors: dict[tuple[str, str], list[Answer]] = {}
    for item, found in zip(items, answers, strict=True):
        for role, answer in zip(roles(item, train), found, strict=True):
            vectors.setdefault((item.row.split, role), []).append(answer)
    features = {key: _matrix(found, parts[key[0]]) for key, found in vectors.items()}
    names = sorted({item.row.label for item in items})
    number = {name: i for i, name in enumerate(names)}
    labels = np.array([number[item.row.label] for item in parts["train"]])
    groups = np.array([GENDERS.index(item.row.gender) for item in parts["train"]])
    records: list[Record] = []
    for training in TRAININGS if train == "all" else (train,):
        fitted = _fitted(training, features, labels, groups, c, seed)
        first, second = ("scrubbed", "scrubbed twin") if training == "scrub" else ("text", "twin")
        records += rows(
            training,
            parts["test"],
            names,
            fitted.probabilities(features["test", first], len(names)),
            fitted.probabilities(features["test", second], len(names)),
            converged=fitted.converged,
        )
    return records


def split(items: Sequence[Item]) -> dict[str, list[Item]]:
    """Train and test items; InputError where there are none."""
    parts = {part: [item for item in items if item.row.split == part] for part in ("train", "test")}
    for part, found in parts.items():
        if not found:
            raise InputError(f"there are no {part} rows: the classifier needs both, train and test")
    return parts


def _matrix(answers: Sequence[Answer], items: Sequence[Item]) -> Features:
    """Vectors as rows: shape (rows, features), float32."""
    rows = [np.frombuffer(answer.values, dtype=np.float32) for answer in answers if isinstance(answer, Vector)]  # type: ignore[call-overload]
    for row, item in zip(rows, items, strict=True):
        if len(row) != len(rows[0]):
            raise ModelError(f"the model gives {len(row)} numbers for item {item.id!r}, and {len(rows[0])} for others")
    found = np.stack(rows)
    if (wrong := np.flatnonzero(~np.isfinite(found).all(axis=1))).size:
        raise ModelError(f"the model gives a vector that is not finite for item {items[wrong[0]].id!r}")
    return found


def _fitted(
    training: str, features: Mapping[tuple[str, str], Features], labels: Ints, groups: Ints, c: float, seed: int
) -> Linear:
    if training == "scrub":
        return classifiers.logistic(features["train", "scrubbed"], labels, c=c, seed=seed)
    own = features["train", "text"]
    if training == "balanced":
        return classifiers.logistic(own, labels, weights=classifiers.balanced_weights(labels, groups), c=c, seed=seed)
    if training == "cda":
        both = np.concatenate([own, features["train", "twin"]])
        return classifiers.logistic(both, np.tile(labels, 2), weights=np.full(len(both), 0.5), c=c, seed=seed)
    if training == "sensei":
        settings = sensei.Settings(penalty=1 / (c * len(labels)))  # the same penalty as the others'
        return sensei.train(own, features["train", "twin"], labels, settings=settings, seed=seed)
    return classifiers.logistic(own, labels, c=c, seed=seed)


def rows(
    training: str, items: Sequence[Item], names: Sequence[str], own: Floats, twin: Floats, *, converged: bool
) -> list[Record]:
    """Records of the test items: `own` and `twin` are probabilities of the classes `names`, of texts and twins."""
    guess, twin_guess = own.argmax(axis=1), twin.argmax(axis=1)
    number = {name: i for i, name in enumerate(names)}
    found = []
    for i, item in enumerate(items):
        said, true = guess[i], number[item.row.label]
        found.append(
            record(
                training,
                item.id,
                item.row.label,
                item.row.gender,
                (names[said], names[twin_guess[i]]),
                (float(own[i, said]), float(twin[i, said])),
                (float(own[i, true]), float(twin[i, true])),
                words_swapped=item.words,
                text_sha256=digest(item.row.text),
                converged=converged,
            )
        )
    return found
