"""stereoset: does a model prefer stereotypes to anti-stereotypes, and meaning to nonsense?

Nadeem, Bethke and Reddy 2020 (arXiv 2004.09456): lms, ss and icat by the authors' rules, from models or from
predictions in the authors' format.
"""

import math
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from evenhand.data import Dataset, stereoset, stereoset_predictions
from evenhand.data.stereoset import FORMATS, Example
from evenhand.metrics import icat
from evenhand.metrics.intervals import Measure, Resampling, estimates, groups
from evenhand.records import Metric, Outcome, Record
from evenhand.requests import Answer, Chat, Cloze, NextSentence, Request, Scores, Sentence
from evenhand.tasks import Card
from evenhand.tasks import stereoset_prompted as prompted

SS = Metric(
    name="ss", unit="percent", neutral=50, below="prefers anti-stereotypes", above="prefers stereotypes",
    text="how often the stereotype scores above the anti-stereotype; mean over target terms",
)  # fmt: skip
LMS = Metric(
    name="lms", unit="percent", best=100,
    text="how often a meaningful sentence scores above the unrelated one; mean over target terms",
)  # fmt: skip
ICAT = Metric(name="icat", unit="percent", best=100, text="lms * min(ss, 100 - ss) / 50")
LMS_BOTH = Metric(
    name="lms_both", unit="percent", best=100,
    text="how often both meaningful sentences score above the unrelated one; mean over target terms",
)  # fmt: skip
SS_MICRO = Metric(
    name="ss_micro", unit="percent", neutral=50, below="prefers anti-stereotypes", above="prefers stereotypes",
    text="ss over examples, whatever their term",
)  # fmt: skip
LMS_MICRO = Metric(name="lms_micro", unit="percent", best=100, text="lms over examples, whatever their term")
ICAT_MICRO = Metric(name="icat_micro", unit="percent", best=100, text="icat of lms_micro and ss_micro")
ICAT_TERM = Metric(name="icat_term_mean", unit="percent", best=100, text="mean over target terms of each term's icat")
TIES = Metric(name="ties", unit="count", text="examples in which two of the three scores are equal")

STATISTICS = {
    LMS: icat.lms,
    SS: icat.ss,
    ICAT: icat.icat,
    LMS_BOTH: icat.lms_both,
    LMS_MICRO: icat.lms_micro,
    SS_MICRO: icat.ss_micro,
    ICAT_MICRO: icat.icat_micro,
    ICAT_TERM: icat.icat_term_mean,
    TIES: icat.ties,
}
IN_GROUPS = (LMS, SS, ICAT)
PROPORTIONS = (LMS, SS, LMS_BOTH, LMS_MICRO, SS_MICRO)
SCORE_COLUMNS = ("score_stereotype", "score_anti_stereotype", "score_unrelated")
ID_COLUMNS = ("id_stereotype", "id_anti_stereotype", "id_unrelated")


class Options(BaseModel):
    """Options of stereoset."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    split: Literal["dev", "test"] = Field(default="dev", description="which published split, where no file is given")
    method: Literal["reference", "corrected", "pll", "prompted"] = Field(
        default="reference",
        description="reference as the authors score, corrected or pll as is sounder; prompted asks in words",
    )
    legacy_space: bool = Field(
        default=False,
        description="reference only: pieces without the leading space, as the authors had them for RoBERTa",
    )


def fills(example: Example) -> tuple[str, ...]:
    """The authors' fills: each sentence's word at the place of the context's last BLANK, ASCII punctuation deleted."""
    at = max(i for i, token in enumerate(example.context.split(" ")) if "BLANK" in token)
    words = (sentence.text.split(" ") for sentence in example.sentences)
    return tuple(word[at].translate(PUNCTUATION) if at < len(word) else "" for word in words)


PUNCTUATION = str.maketrans("", "", string.punctuation)


def spans(context: str, sentence: str) -> tuple[tuple[int, int], ...]:
    """Where the sentence has what the context leaves BLANK: one span per BLANK, by the text around it, case aside.

    Returns nothing where the sentence is not the context filled in.
    """
    around = [r"\s+".join(map(re.escape, re.split(r"\s+", part))) for part in context.split("BLANK")]
    found = re.fullmatch("(.+?)".join(around) + r"\s*", sentence, re.IGNORECASE)
    return tuple(found.span(i + 1) for i in range(len(around) - 1)) if found else ()


@dataclass(frozen=True, slots=True)
class StereoSet:
    """The benchmark over one source of examples: the published splits, or the project's own small set."""

    card: Card
    own: str | None = None
    options = Options

    def load(self, options: Options, source: str | None, *, offline: bool) -> Dataset[Example]:
        """The examples, the two formats taking turns, so that a limit leaves some of both."""
        data = stereoset.load(self.own or source, split=options.split, offline=offline)
        places = dict.fromkeys(FORMATS, 0)
        order = []
        for row in data.rows:
            order.append((places[row.format], FORMATS.index(row.format)))
            places[row.format] += 1
        rows = tuple(row for _, row in sorted(zip(order, data.rows, strict=True), key=lambda pair: pair[0]))
        return Dataset(rows=rows, source=data.source, sha256=data.sha256, notes=data.notes)

    def forms(self, options: Options) -> Mapping[str, tuple[type[Request], ...]]:
        """Those of the method: `prompted` is a form of its own, and the default takes it where there is no other."""
        return prompted.forms(self.card.forms, options.method)

    def method(self, options: Options, form: str) -> str:
        """The rule by which sentences are scored."""
        if form == prompted.FORM:
            return prompted.FORM
        return options.method + (" (legacy_space)" if options.legacy_space and options.method == "reference" else "")

    def ask(self, item: Example, options: Options, form: str, *, seed: int) -> tuple[Request, ...]:
        """One or more requests per example; `read` knows which by the form, the method and the example."""
        if form == prompted.FORM:
            return (prompted.ask(item, seed),)
        start: Literal["always", "tokenizer"] = "always"
        if form == "likelihood" and options.method == "reference":
            start = "tokenizer"  # other models have no start token to leave out
        if item.format == "intersentence":
            if form == "cloze+next-sentence":
                return tuple(NextSentence(first=item.context, second=s.text) for s in item.sentences)
            return tuple(Sentence(s.text, item.context, start) for s in item.sentences)
        if form == "likelihood" or options.method == "pll":
            return tuple(Sentence(s.text, start=start) for s in item.sentences)
        if options.method == "reference":
            at = item.context.index("BLANK")
            rule: Literal["alone", "alone-bare"] = "alone-bare" if options.legacy_space else "alone"
            return (Cloze(item.context, (at, at + len("BLANK")), fills(item), rule),)
        return tuple(
            Cloze(s.text, span, (s.text[slice(*span)],)) for s in item.sentences for span in self._spans(item, s.text)
        )

    def _spans(self, item: Example, sentence: str) -> tuple[tuple[int, int], ...]:
        """The fills' places; where the sentence is not the context filled in, the authors' word's place."""
        if found := spans(item.context, sentence):
            return found
        words = sentence.split(" ")
        at = max(i for i, token in enumerate(item.context.split(" ")) if "BLANK" in token)
        at = min(at, len(words) - 1)
        word = words[at]
        start = len(" ".join(words[:at])) + bool(at)
        kept = word.strip(string.punctuation) or word
        start += word.index(kept)
        return ((start, start + len(kept)),)

    def read(self, item: Example, options: Options, form: str, answers: Sequence[Answer]) -> Record:
        """The three sentences' scores: more is more likely."""
        found = [answer.logprobs for answer in answers if isinstance(answer, Scores)]
        if item.format == "intersentence" or options.method == "pll":
            return record(item, [mean(one) for (one,) in found])
        if form == "likelihood":
            means = [mean(one) for (one,) in found]
            return record(item, [math.exp(m) for m in means] if options.method == "reference" else means)
        if options.method == "reference":
            ((*pieces,),) = found
            return record(item, [mean([math.exp(p) for p in fill]) for fill in pieces])
        fills_left = iter(mean(one) for (one,) in found)
        return record(item, [mean([next(fills_left) for _ in self._spans(item, s.text)]) for s in item.sentences])

    def read_together(
        self, items: Sequence[Example], options: Options, form: str, answers: Sequence[Sequence[Answer]], *, seed: int
    ) -> list[Record]:
        """Every example's row: a ranking is read in the order that the seed gave the options."""
        if form != prompted.FORM:
            return [self.read(item, options, form, own) for item, own in zip(items, answers, strict=True)]
        found = [prompted.read(item, seed, answer) for item, (answer,) in zip(items, answers, strict=True)]
        return [record(item, scores) | own for item, (scores, own) in zip(items, found, strict=True)]

    def predicted(self, path: str, data: Dataset[Example], *, allow_missing: bool) -> tuple[list[Record], list[str]]:
        """Records and notes from predictions in the authors' format, see `evenhand.data.stereoset`."""
        found = stereoset_predictions.matched(
            stereoset_predictions.read_predictions(path), data.rows, allow_missing=allow_missing
        )
        records = [record(item, scores) for item, scores in zip(found.examples, found.scores, strict=True)]
        notes = [f"{form}: {scored} of {total} examples are scored" for form, (scored, total) in found.coverage.items()]
        return records, notes

    def measures(self, records: Sequence[Record], options: Options) -> list[Measure]:
        """Overall (both formats pooled under a term), and by format, bias type and target term."""
        whole = [metric for metric in STATISTICS if metric != TIES or not prompted.asked(records)]
        found = measured(records, whole, {}) + prompted.measures(records, prompted.METRICS, {})
        for keys in (("format",), ("format", "bias_type"), ("bias_type",), ("target",)):
            parts: dict[tuple[str, ...], list[Record]] = {}
            for row in records:
                parts.setdefault(tuple(row[key] for key in keys), []).append(row)
            for part, rows in sorted(parts.items()):
                by = dict(zip(keys, part, strict=True))
                found += measured(rows, IN_GROUPS, by)
                found += prompted.measures(rows, () if "target" in by else prompted.IN_GROUPS, by)
        return found

    def reading(self, record: Record, options: Options) -> tuple[str, str]:
        """The example, and which of its sentences scores highest (a tie goes to the less stereotypical one), if any."""
        name = f"{record['item']} ({record['target']}, {record['bias_type']}, {record['format']})"
        if not prompted.ranked([record]):
            return name, str(record["read"])
        order = {"unrelated": SCORE_COLUMNS[2], "anti-stereotype": SCORE_COLUMNS[1], "stereotype": SCORE_COLUMNS[0]}
        return name, max(order, key=lambda label: float(record[order[label]]))

    def summarise(self, records: Sequence[Record], options: Options, how: Resampling) -> Outcome:
        """The estimates, the ties, and the predictions as a file for the authors' own scorer."""
        found = self.measures(records, options)
        scored = prompted.ranked(records)
        tied = [r["item"] for r in scored if len({r[column] for column in SCORE_COLUMNS}) < len(SCORE_COLUMNS)]
        notes = [f"ties: {len(tied)} examples have two equal scores, the first is {tied[0]}"] if tied else []
        notes += prompted.notes(records)
        predictions = {
            form: [
                {"id": row[name], "score": row[score]}
                for row in scored
                if row["format"] == form
                for name, score in zip(ID_COLUMNS, SCORE_COLUMNS, strict=True)
            ]
            for form in FORMATS
        }
        name = f"predictions-{self.own}.json" if self.own else "predictions.json"
        return Outcome(
            metrics=estimates(found, how),
            groups=groups(found, how),
            notes=notes,
            data={"n_terms": len({r["target"] for r in records})},
            files={name: {form: rows for form, rows in predictions.items() if rows}},
        )


def mean(values: Sequence[float]) -> float:
    """Their mean."""
    return sum(values) / len(values)


def record(item: Example, scores: Sequence[float | None]) -> Record:
    """An example's row; its scores are all there, or all None."""
    return {
        "item": item.id,
        "format": item.format,
        "bias_type": item.bias_type,
        "target": item.target,
        **{column: sentence.id for column, sentence in zip(ID_COLUMNS, item.sentences, strict=True)},
        **{c: score if score is None else float(score) for c, score in zip(SCORE_COLUMNS, scores, strict=True)},
    }


def measured(records: Sequence[Record], metrics: Sequence[Metric], by: Mapping[str, str]) -> list[Measure]:
    """The metrics over those of these records that have scores; clusters are target terms."""
    scored = prompted.ranked(records)
    targets = [r["target"] for r in scored]
    columns = icat.columns(np.reshape([r[c] for r in scored for c in SCORE_COLUMNS], (-1, 3)), targets)
    clusters = sorted(set(targets))
    return [
        Measure(
            metric=metric, statistic=STATISTICS[metric], clusters=clusters, columns=columns, n=len(scored), by=by,
            n_undefined=len(records) - len(scored),
            whole=100.0 if metric in PROPORTIONS and len(clusters) > 1 else None,
        )
        for metric in metrics
    ]  # fmt: skip


CARD = Card(
    name="stereoset",
    version=1,
    title="Stereotype, anti-stereotype or nonsense",
    text="Of three sentences about one term, which does the model find likeliest? In one format they differ in one "
    "word, in the other they follow a context.",
    languages=("en",),
    sources=("Nadeem, Bethke and Reddy 2020, arXiv 2004.09456",),
    licence="CC BY-SA 4.0; fetched, not packaged",
    limits="ss is best at 50: a model that always prefers the anti-stereotype is as far off as one that always prefers "
    "the stereotype. Crowd-written sentences of US English from 2020; not every pair is a clean contrast (Blodgett et "
    "al. 2021). Numbers of different methods or forms are different numbers.",
    metrics=(*STATISTICS, *prompted.METRICS),
    forms={
        "cloze+next-sentence": (Cloze, NextSentence),
        "cloze+likelihood": (Cloze, Sentence),
        "likelihood": (Sentence,),
        prompted.FORM: (Chat,),
    },
)
TASK = StereoSet(CARD)
