"""Requests and answers: what a task may ask of a model, and what comes back.

A request is frozen: it is never changed after it is made, and its `key` (a hash of its content) is its name in
the answer store, so that equal requests are one. Answers keep the log-probability (natural logarithm) of every
token, since benchmarks combine them differently.
"""

import hashlib
import json
import sys
from array import array
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Continuation:
    """Log-probabilities of each choice's tokens, given `context`. A choice carries its own leading space."""

    context: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cloze:
    """Log-probabilities of each fill's pieces at `text[span[0]:span[1]]`, read at the mask.

    By the rule `word`, the text is encoded with the fill in its place, and a fill of several pieces is read within the
    word, left to right (Kauf and Ivanova 2023): each piece is predicted with itself and the pieces to its right masked.
    By the rule `first-piece`, one mask stands for the whole fill, and only the fill's first piece is read there.
    By the rule `alone`, the fill is encoded alone, as it stands inside a text, and piece by piece the text is encoded
    anew with what comes before the piece and one mask at the span, and wherever else the span's text occurs; the first
    mask is read. `alone-bare` leaves out the space in front of the fill.
    """

    text: str
    span: tuple[int, int]
    fills: tuple[str, ...]
    rule: Literal["word", "first-piece", "alone", "alone-bare"] = "word"


@dataclass(frozen=True, slots=True)
class MaskCloze(Cloze):
    """A cloze for models with a mask token: one that says its fills behind a sentinel (T5) is not asked."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """Log-probabilities of the text's tokens, given `context`.

    A masked model reads each token with itself and the rest of its word to the right masked. For a causal model the
    start token is in front of all tokens (`always`), or only where the tokenizer puts it there (`tokenizer`); the first
    token is read given the start token either way.
    """

    text: str
    context: str = ""
    start: Literal["always", "tokenizer"] = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class NextSentence:
    """log P(`second` is the sentence that follows `first`), from a pre-trained head."""

    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Generate:
    """`samples` texts that follow `prompt`, drawn at temperature 1 from the whole distribution, seeded."""

    prompt: str
    samples: int
    max_tokens: int
    seed: int


@dataclass(frozen=True, slots=True)
class Chat:
    """`samples` replies to one message of a user; at temperature 0 the likeliest, else drawn, seeded."""

    message: str
    samples: int
    max_tokens: int
    seed: int
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class Embed:
    """The text as one vector: the mean over its tokens' last hidden states, or the first token's alone."""

    text: str
    pooling: Literal["mean", "first"] = "mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Classify:
    """Probabilities of every class for every query, by the model itself after training on texts with labels.

    The answer is one vector, query after query. Labels are 0 to the number of classes less one. `weights` is what each
    text weighs, mean 1; all the same if empty. `batch` texts make a step; the rate rises over the first tenth of the
    steps and falls to 0. The model that answers other requests stays as it is.
    """

    texts: tuple[str, ...]
    labels: tuple[int, ...]
    queries: tuple[str, ...]
    weights: tuple[float, ...] = ()
    pooling: Literal["mean", "first"] = "mean"
    epochs: int = 1
    learning_rate: float = 1e-4
    batch: int = 16
    seed: int = 0


Request = Continuation | Cloze | Sentence | NextSentence | Generate | Chat | Embed | Classify
REQUEST_TYPES: tuple[type[Request], ...] = (Continuation, Cloze, Sentence, NextSentence, Generate, Chat, Embed)
"""What can be written down for a model; what it says after training cannot."""


@dataclass(frozen=True, slots=True)
class Scores:
    """One tuple of token log-probabilities per choice or fill; one in all for a sentence."""

    logprobs: tuple[tuple[float, ...], ...]
    kind: Literal["scores"] = "scores"

    def totals(self) -> tuple[float, ...]:
        """Sum of the tokens' log-probabilities, per choice or fill."""
        return tuple(sum(tokens) for tokens in self.logprobs)


@dataclass(frozen=True, slots=True)
class Texts:
    """Generated texts, without the prompt."""

    texts: tuple[str, ...]
    kind: Literal["texts"] = "texts"


@dataclass(frozen=True, slots=True)
class Vector:
    """One vector, kept as packed float32: a set of texts may have hundreds of thousands."""

    values: Sequence[float]
    kind: Literal["vector"] = "vector"

    def __post_init__(self) -> None:
        """Packs the values; anything with the buffer of a float32 array is copied as it is."""
        object.__setattr__(self, "values", array("f", self.values))


Answer = Scores | Texts | Vector


def key(request: Request) -> str:
    """The request's name in the answer store: a hash of its type and content."""
    content = json.dumps([type(request).__name__, *astuple(request)], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


def dump(answer: Answer) -> str | bytes:
    """An answer as JSON in which floats keep every digit; a vector as its little-endian float32 bytes."""
    if isinstance(answer, Vector):
        return _little(array("f", answer.values)).tobytes()
    return json.dumps([answer.kind, astuple(answer)[0]], separators=(",", ":"))


def _little(values: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        values.byteswap()
    return values


def parse(text: str | bytes) -> Answer:
    """The inverse of `dump`."""
    if isinstance(text, bytes):
        return Vector(_little(array("f", text)))
    kind, value = json.loads(text)
    match kind:
        case "scores":
            return Scores(tuple(tuple(tokens) for tokens in value))
        case _:
            return Texts(tuple(value))
