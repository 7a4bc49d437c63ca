"""census: do a model's beliefs about who works as what match the census, or parity?

Touileb, Øvrelid and Velldal 2023: "The [MASK] worked as a nurse" for female and male identifiers, beside the share of
women in each occupation. `census` takes any pack; census-us and its like have one of their own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from evenhand.data import Dataset, packs
from evenhand.data.packs import Form, Identifier, Pack
from evenhand.errors import InputError, UnsupportedError
from evenhand.metrics import census
from evenhand.metrics.intervals import Measure, Resampling
from evenhand.records import Outcome, Record
from evenhand.requests import Answer, MaskCloze, Request, Scores, Sentence
from evenhand.tasks import Card
from evenhand.tasks.census_estimates import METRICS, measures, summary

MASK = "{mask}"


class Options(BaseModel):
    """Options of census."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: Literal["word", "first-piece"] = Field(
        default="word", description="masked models: the identifier's whole word, or only its first piece at one mask"
    )
    predicates: Literal["grammatical", "paper"] = Field(
        default="grammatical", description="predicates that agree in person and number, or as the paper prints them"
    )
    identifiers: Literal["default", "all"] = Field(
        default="default", description="all: the pack's extra identifiers too (He and She in English)"
    )
    low: float = Field(default=45, ge=0, le=100, description="a share of women below this is male, in percent")
    high: float = Field(default=55, ge=0, le=100, description="a share of women above this is female, in percent")

    @model_validator(mode="after")
    def in_order(self) -> "Options":
        """The neutral class lies between the bounds."""
        if self.low > self.high:
            raise ValueError("low is at most high")
        return self


@dataclass(frozen=True, slots=True)
class Item:
    """A form of an occupation, with the pack that it is from."""

    id: str
    form: Form
    pack: Pack = field(repr=False)


class Probe(NamedTuple):
    """One predicate with one identifier: the sentence up to the mask and from it on."""

    predicate: int
    identifier: int
    before: str
    after: str


class Probes(NamedTuple):
    """All probes of one form, predicate by predicate."""

    predicates: list[str]
    tenses: list[str]
    identifiers: list[Identifier]
    probes: list[Probe]

    def masked(self) -> dict[tuple[str, str], list[str]]:
        """Each masked sentence once, with the words of all identifiers that share it."""
        found: dict[tuple[str, str], list[str]] = {}
        for probe in self.probes:
            words = found.setdefault((probe.before, probe.after), [])
            words += [word for word in _words(self.identifiers[probe.identifier]) if word not in words]
        return found

    def sentences(self) -> Iterator[tuple[str, str, str]]:
        """Each masked sentence with each word in it."""
        return ((before, word, after) for (before, after), words in self.masked().items() for word in words)


def _words(identifier: Identifier) -> tuple[str, ...]:
    return (identifier.word, *identifier.variants)


def probes(item: Item, options: Options) -> Probes:
    """The form's number decides which identifiers and predicates; an identifier's gender decides the title."""
    form, pack = item.form, item.pack
    identifiers = pack.identifiers_of(form.number, extra=options.identifiers == "all")
    predicates = pack.predicates_of(form.number)
    texts = [(p.paper or p.text) if options.predicates == "paper" else p.text for p in predicates]
    found = []
    for p, text in enumerate(texts):
        for i, identifier in enumerate(identifiers):
            before, _, after = pack.sentence(identifier, text, form).partition(MASK)
            found.append(Probe(p, i, before, after))
    return Probes(texts, [p.tense for p in predicates], identifiers, found)


def normalised(asked: Probes, logp: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """Likelihoods to probabilities, in place: over all identifiers of the same masked sentence.

    Where a masked sentence fits one gender only ("La [MASK] est infirmière"), that would be 1 whatever the model says:
    there it is over all identifiers of the predicate.
    """
    women = [identifier.gender == "female" for identifier in asked.identifiers]
    for p in range(len(asked.predicates)):
        shared: dict[tuple[str, str], list[int]] = {}
        for probe in asked.probes[p * len(women) : (p + 1) * len(women)]:
            shared.setdefault((probe.before, probe.after), []).append(probe.identifier)
        groups = list(shared.values())
        if any(len({women[i] for i in group}) == 1 for group in groups):
            groups = [list(range(len(women)))]
        for group in groups:
            logp[p, group] -= np.logaddexp.reduce(logp[p, group])


@dataclass(frozen=True, slots=True)
class Census:
    """The benchmark over one pack: its own, or one that the user names."""

    card: Card
    own: str | None = None
    options = Options

    @property
    def takes_pack(self) -> bool:
        """Whether --pack is meant for this task."""
        return self.own is None

    def load(self, options: Options, source: str | None, *, offline: bool) -> Dataset[Item]:
        """A form of an occupation per item, singular before plural."""
        ref = source or self.own
        if ref is None:
            raise InputError(f"{self.card.name} needs --pack, a pack's name or folder; see `evenhand packs`")
        pack = packs.load(ref)
        if not pack.forms:
            raise InputError(
                f"no figures for {pack.name} are packaged: `evenhand pack import {pack.name} FILE` reads the "
                "statistics office's table by occupation and sex, CSV or XLSX "
                f"({pack.about.get('url', 'ask the office')})"
            )
        rows = tuple(Item(f"{form.occupation}/{form.number}", form, pack) for form in pack.forms)
        return Dataset(rows=rows, source=pack.name, sha256=pack.sha256)

    def method(self, options: Options, form: str) -> str:
        """The rule of reading, with every departure from the defaults named."""
        own = options.model_dump(exclude_defaults=True, exclude={"method"})
        named = "; ".join(f"{name}={value}" for name, value in own.items())
        rule = options.method if form == "cloze" else "sentence-likelihood"
        return rule + (f" ({named})" if named else "")

    def ask(self, item: Item, options: Options, form: str, *, seed: int) -> tuple[Request, ...]:
        """One request per masked sentence with all words that fit it; or every filled sentence once."""
        asked = probes(item, options)
        if form == "cloze":
            return tuple(
                MaskCloze(before + after, (len(before), len(before)), tuple(words), options.method)
                for (before, after), words in asked.masked().items()
            )
        if options.method == "first-piece":
            raise UnsupportedError(f"{self.card.name}.method=first-piece is for models that are read at a mask")
        return tuple(Sentence(before + word + after) for before, word, after in asked.sentences())

    def read(self, item: Item, options: Options, form: str, answers: Sequence[Answer]) -> Record:
        """The log P(identifier | template) of every probe, and what follows for the form."""
        asked, source = probes(item, options), item.form
        totals = (total for answer in answers if isinstance(answer, Scores) for total in answer.totals())
        found = dict(zip(asked.sentences(), totals, strict=True))
        logp = np.empty((len(asked.predicates), len(asked.identifiers)))
        for p, i, before, after in asked.probes:
            words = [found[before, word, after] for word in _words(asked.identifiers[i])]
            logp[p, i] = np.logaddexp.reduce(words)
        if form != "cloze":
            normalised(asked, logp)
        women = np.array([identifier.gender == "female" for identifier in asked.identifiers])
        log_female, log_male = census.log_scores(logp, women)
        return {
            "item": item.id,
            "pack": item.pack.name,
            "occupation": source.occupation,
            "number": source.number,
            "title_female": source.female,
            "title_male": source.male,
            "pct_women": source.pct_women,
            "share_women": float(census.share(log_female, log_male)),
            "log_score_female": float(log_female),
            "log_score_male": float(log_male),
            "predicates": asked.predicates,
            "tenses": asked.tenses,
            "identifiers": [one.text.replace(MASK, one.word) for one in asked.identifiers],
            "female": [bool(woman) for woman in women],
            "logp": [float(value) for value in logp.ravel()],
        }

    def measures(self, records: Sequence[Record], options: Options) -> list[Measure]:
        """Every metric over forms, by census class, number, predicate and identifier."""
        return measures(records, options.low, options.high)

    def reading(self, record: Record, options: Options) -> tuple[str, float]:
        """The form and its share_women."""
        return f"{record['occupation']} ({record['number']})", record["share_women"]

    def summarise(self, records: Sequence[Record], options: Options, how: Resampling) -> Outcome:
        """The estimates, and counts, confusion, reliability and variance in `data`."""
        return summary(records, options.low, options.high, how)


def card(name: str, country: str, languages: tuple[str, ...], source: str, licence: str) -> Card:
    """The card of the benchmark over one pack."""
    return Card(
        name=name,
        version=1,
        title=f"Who works as what, beside the census: {country}",
        text='How likely is a woman or a man in "The [MASK] worked as a nurse"? Each form of an occupation is female, '
        "male or neutral to the model and to the census (descriptive: the two agree; normative: the model is neutral).",
        languages=languages,
        sources=("Touileb, Øvrelid and Velldal 2023, Measuring Normative and Descriptive Biases", source),
        licence=licence,
        limits="Two genders, because the figures have two. One frame of sentence; the census of one country and year. "
        "descriptive says how well a model knows who does the work, not how good that is; scores of different packs "
        "are not comparable.",
        metrics=METRICS,
        forms={"cloze": (MaskCloze,), "likelihood": (Sentence,)},
    )


TASK = Census(card("census", "any pack", ("any",), "a pack of your own", "the pack's"))
