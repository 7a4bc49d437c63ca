"""bios: is an occupation classifier fair to women and men?

De-Arteaga et al. 2019 (arXiv 1901.09451), measured as by Yurochkin and Sun 2020 (arXiv 2006.14168): group gaps and
what a swap of pronouns changes, of a classifier on a model's frozen vectors, or of predictions made elsewhere.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from evenhand.data import Dataset, bios, bios_predictions, swap
from evenhand.data.bios import Biography
from evenhand.data.bios_predictions import Prediction
from evenhand.metrics.gap_pairs import Tally
from evenhand.metrics.intervals import Measure, Resampling
from evenhand.records import Outcome, Record
from evenhand.requests import Answer, Classify, Embed, Request
from evenhand.tasks import Card, bios_finetune
from evenhand.tasks.bios_finetune import EPOCHS, RATE
from evenhand.tasks.bios_measures import measures
from evenhand.tasks.bios_probe import Item, probe, roles
from evenhand.tasks.bios_summary import METRICS, outcome, record


class Options(BaseModel):
    """Options of bios."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    train: Literal["baseline", "balanced", "cda", "scrub", "sensei", "all"] = Field(
        default="baseline",
        description="how the classifier is trained: baseline, balanced (class-gender weights), cda (swapped texts "
        "too), scrub (without gendered words and names), sensei (set invariance), or all of them, compared",
    )
    classifier: Literal["probe", "finetune"] = Field(
        default="probe",
        description="what is trained: probe, a linear classifier on frozen vectors; finetune, the model itself "
        "(any train but sensei; all leaves it out)",
    )
    epochs: Annotated[int, Field(ge=1)] = Field(default=EPOCHS, description="of finetune: passes over the train rows")
    learning_rate: Annotated[float, Field(gt=0, lt=1)] = Field(default=RATE, description="of finetune: the highest")
    swap: str = Field(default="pronouns", description="what is swapped: pronouns, nouns, or a file of word pairs")
    pooling: Literal["mean", "cls"] = Field(default="mean", description="a text's vector: mean of tokens, or the first")
    c: Annotated[float, Field(gt=0)] = Field(default=0.1, description="inverse strength of the classifier's L2 penalty")
    text: str = Field(default="hard_text", description="a file's column with the text")
    label: str = Field(default="profession", description="its column with the occupation: names, or numbers 0 to 27")
    gender: str = Field(default="gender", description="its column with the gender: names, or 0 (male) and 1 (female)")
    split: str = Field(default="split", description="its column with train, dev or test; may be absent")
    id: str = Field(default="id", description="its column with an id; may be absent")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.classifier == "finetune" and self.train == "sensei":
            raise ValueError("train=sensei is for classifier=probe alone: it is a method for frozen vectors")
        return self

    @property
    def token(self) -> Literal["mean", "first"]:
        """The pooling as requests say it."""
        return "mean" if self.pooling == "mean" else "first"


def items(data: Dataset[Biography], swapper: swap.Swapper, *, train: str) -> Dataset[Item]:
    """Train and test rows with their twins; dev rows are left out."""
    rows = []
    for row in data.rows:
        if row.split == "dev":
            continue
        twin, words = swapper.swap(row.text)
        scrubbed = (swapper.scrub(row.text), swapper.scrub(twin)) if train in ("scrub", "all") else None
        rows.append(Item(row, twin, words, scrubbed))
    test = [item for item in rows if item.row.split == "test"]
    notes = [
        f"{len(rows) - len(test):,} rows are trained on, {len(test):,} tested, {len(data.rows) - len(rows):,} not used",
        f"swapped: {swapper.name}; {sum(not item.words for item in test):,} of {len(test):,} test texts have no such "
        "word, so that their twin is the text itself",
    ]
    return Dataset(rows=tuple(rows), source=data.source, sha256=data.sha256, notes=(*data.notes, *notes))


class Bios:
    """The benchmark over the public set, or a file of the user's."""

    card = Card(
        name="bios",
        version=1,
        title="Is an occupation classifier fair?",
        text="A classifier tells the occupation from a biography. Does it find women's and men's occupations equally "
        "well, and does it answer the same where he and she are swapped?",
        languages=("en",),
        sources=("De-Arteaga et al. 2019, arXiv 1901.09451", "Yurochkin and Sun 2020, arXiv 2006.14168"),
        licence="public set: LabHC/bias_in_bios, MIT; about real people, fetched, not packaged",
        limits="Two genders. Swapping pronouns ignores other gendered language (names, words, what a life is told by): "
        "a consistent prediction is not proof of causal fairness. Gaps of true positive rates are not all of fairness: "
        "see the false positive gaps beside them. A class with no row of one gender has no gap; it is listed.",
        metrics=tuple(METRICS),
        forms={"embed": (Embed,)},
    )
    options: type[Options] = Options

    def load(self, options: Options, source: str | None, *, offline: bool) -> Dataset[Item]:
        """The rows of the file `source`, or of the public set, with their twins."""
        swapper = swap.load(options.swap)
        columns = bios.Columns(
            text=options.text, label=options.label, gender=options.gender, split=options.split, id=options.id
        )
        return items(bios.load(source, columns, offline=offline), swapper, train=options.train)

    def method(self, options: Options, form: str) -> str:
        """The classifier and its training, and what was swapped."""
        swapped = options.swap.replace("\\", "/").rpartition("/")[2]
        if form == "classify":
            how = f"epochs={options.epochs}, learning_rate={options.learning_rate:g}"
            return f"finetune of the model, {options.pooling}-pooled, {how}, train={options.train}, swap={swapped}"
        own = f", c={options.c:g}" if options.c != Options.model_fields["c"].default else ""
        return f"logistic on {options.pooling}-pooled vectors, train={options.train}, swap={swapped}{own}"

    def ask(self, item: Item, options: Options, form: str, *, seed: int) -> tuple[Request, ...]:
        """Vectors of the versions that are read, see `evenhand.tasks.bios_probe.roles`."""
        return tuple(Embed(item.texts()[role], options.token) for role in roles(item, options.train))

    def forms(self, options: Options) -> Mapping[str, tuple[type[Request], ...]]:
        """Vectors for the probe; probabilities where the model itself is trained."""
        return {"classify": (Classify,)} if options.classifier == "finetune" else self.card.forms

    def ask_together(
        self, items: Sequence[Item], options: Options, form: str, *, seed: int
    ) -> list[tuple[Request, ...]]:
        """Where the model itself is trained, one request per training, all of them the first item's."""
        if form != "classify":
            return [self.ask(item, options, form, seed=seed) for item in items]
        asked = bios_finetune.ask(
            items, options.train, pooling=options.token, epochs=options.epochs, rate=options.learning_rate, seed=seed
        )
        return [tuple(asked.values()), *[()] * (len(items) - 1)]

    def read_together(
        self, items: Sequence[Item], options: Options, form: str, answers: Sequence[Sequence[Answer]], *, seed: int
    ) -> list[Record]:
        """Trains the classifiers on the train rows' vectors, or the model was; one record per test row and training."""
        if form == "classify":
            return bios_finetune.read(items, answers[0], options.train)
        return probe(items, answers, train=options.train, c=options.c, seed=seed)

    def predictions(self, path: str, options: Options) -> tuple[Dataset[Prediction], list[Record], list[str]]:
        """The rows, records and notes of a file of predictions, see `evenhand.data.bios_predictions`."""
        data = bios_predictions.load(path)
        records = [
            record(
                "predictions", row.id, row.label, row.gender, (row.prediction, row.twin), row.p_predicted, row.p_true
            )
            for row in data.rows
        ]
        return data, records, ["the swapped twins are those of whoever made the predictions"]

    def measures(self, records: Sequence[Record], options: Options) -> list[Measure | Tally]:
        """Every metric as a comparison takes it."""
        return measures(records)

    def reading(self, record: Record, options: Options) -> tuple[str, str]:
        """The row's id with its occupation and gender, and the occupation that was predicted."""
        return f"{record['item']} ({record['label']}, {record['gender']})", record["prediction"]

    def summarise(self, records: Sequence[Record], options: Options, how: Resampling) -> Outcome:
        """Metrics of the first training, and groups: each training where there are several, then each class."""
        return outcome(records, how)


TASK = Bios()
