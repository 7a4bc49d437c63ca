"""What a server says about a text it was given: its tokens, where they stand in the text, their log-probabilities."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.errors import InputError, ModelError
from evenhand.models.align import aligned, shown
from evenhand.requests import Sentence, Texts


@dataclass(frozen=True, slots=True)
class Prompt(Sentence):
    """A text put to a server. Its answer, kept as a text, is what `Spelled.kept` makes: it is paid for only once."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token: its string, its characters `start:end` in the text, its log-probability in nats if it has one."""

    start: int
    end: int
    logprob: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Spelled:
    """The tokens of a text, and how many special ones the server put in front of it."""

    in_front: int
    tokens: tuple[Token, ...]

    @property
    def first_is_read(self) -> bool:
        """Whether the text's first token has a log-probability."""
        return self.tokens[0].logprob is not None

    def kept(self) -> Texts:
        """As it stands in the answer store."""
        rows = [[token.start, token.end, token.logprob, token.text] for token in self.tokens]
        return Texts((json.dumps([self.in_front, rows], separators=(",", ":"), ensure_ascii=False),))

    @classmethod
    def of(cls, kept: Texts) -> "Spelled":
        """The inverse of `kept`."""
        in_front, rows = json.loads(kept.texts[0])
        return cls(in_front, tuple(Token(*row) for row in rows))


def spelled(text: str, choice: dict[str, Any], mode: str) -> Spelled | None:
    """The tokens of `text` in a choice of a server's answer, or None if it says nothing about given text.

    Args:
        text: as it was sent.
        choice: with `logprobs` {tokens, token_logprobs, text_offset}, or `prompt_logprobs` [null, {id: {...}}, ...].
        mode: `echo` or `prompt_logprobs`.

    Raises:
        ModelError: tokens do not fit the text, or log-probabilities are missing.
    """
    tokens, values, offsets = _echoed(choice, text) if mode == "echo" else _listed(choice, text)
    if not tokens or (mode == "echo" and len(tokens) == 1 and tokens[0] != text):
        return None  # only what the server wrote itself
    in_front, spans = aligned(text, tokens, offsets)
    found = []
    for i, span in enumerate(spans, in_front):
        value = values[i] if i < len(values) else None
        if (value is None and i) or (value is not None and not _sound(value)):
            raise ModelError(f"the server gives {value} as the log-probability of {tokens[i]!r} in {shown(text)}")
        found.append(Token(*span, value, tokens[i] or text[slice(*span)]))
    return Spelled(in_front, tuple(found))


def _sound(value: Any) -> bool:
    """Whether it is a log-probability, but for rounding."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value <= 1e-4


Raw = tuple[list[str | None], list[Any], list[int] | None]


def _echoed(choice: dict[str, Any], text: str) -> Raw:
    said = choice.get("logprobs")
    if not isinstance(said, dict) or not isinstance(said.get("tokens"), list):
        return [], [], None
    tokens, values, offsets = said["tokens"], said.get("token_logprobs"), said.get("text_offset")
    if not all(isinstance(token, str) for token in tokens):
        raise ModelError(f"the server's tokens of {shown(text)} are no strings")
    values, offsets = (found if isinstance(found, list) else [] for found in (values, offsets))
    for name, n in (("log-probabilities", len(values)), ("offsets", len(offsets))):
        if n != len(tokens):
            raise ModelError(f"the server gives {n} {name} for the {len(tokens)} tokens of {shown(text)}")
    if not all(isinstance(offset, int) for offset in offsets):
        raise ModelError(f"the server's offsets of {shown(text)} are no whole numbers")
    return list(tokens), values, offsets


def _listed(choice: dict[str, Any], text: str) -> Raw:
    said = choice.get("prompt_logprobs")
    if not isinstance(said, list) or not said:
        return [], [], None
    tokens: list[str | None] = []
    values: list[Any] = []
    for entry in said:
        if entry is None:
            tokens.append(None)
            values.append(None)
            continue
        only = list(entry.values()) if isinstance(entry, dict) else []
        if len(only) != 1 or not isinstance(only[0], dict) or not isinstance(only[0].get("decoded_token"), str):
            raise ModelError(f"the server's prompt_logprobs of {shown(text)} do not name one token a place")
        tokens.append(only[0]["decoded_token"])
        values.append(only[0].get("logprob"))
    if None in tokens[1:]:
        raise ModelError(f"the server gives no log-probability inside {shown(text)}")
    return tokens, values, None


def joined(context: str, choices: Sequence[str], texts: Sequence[Spelled]) -> tuple[tuple[float, ...], ...]:
    """Per choice: log-probabilities of what it adds to the context.

    All choices are read from one place: the first token that is not whole inside the context in every choice's text,
    so that no choice loses a token that spans the join.

    Raises:
        InputError: a choice adds no token, or its first has no log-probability.
    """
    join = len(context)
    begin = len(texts[0].tokens)
    for found in texts:
        whole = [token.end <= join and token.start < join for token in found.tokens]
        same = [
            (a.start, a.end, a.text) == (b.start, b.end, b.text)
            for a, b in zip(found.tokens, texts[0].tokens, strict=False)
        ]
        begin = min(begin, [*whole, False].index(False), [*same, False].index(False))
    for choice, found in zip(choices, texts, strict=True):
        if len(found.tokens) <= begin:
            raise InputError(f"the continuation {choice!r} of {shown(context)} adds no token to be read")
    if begin == 0 and not texts[0].first_is_read:
        raise InputError(
            f"this server gives no log-probability of a text's first token, so {shown(context + choices[0])} "
            "cannot be read from its beginning"
        )
    return tuple(tuple(_value(token) for token in found.tokens[begin:]) for found in texts)


def alone(text: str, found: Spelled) -> tuple[float, ...]:
    """Log-probabilities of a text's tokens; without its first, where the server gives none for it.

    Raises:
        InputError: there is nothing else to read.
    """
    tokens = found.tokens if found.first_is_read else found.tokens[1:]
    if not tokens:
        raise InputError(
            f"this server gives no log-probability of a text's first token, and {shown(text)} has no other"
        )
    return tuple(_value(token) for token in tokens)


def _value(token: Token) -> float:
    if token.logprob is None:
        raise ModelError(f"the server gives no log-probability of {token.text!r}")
    return float(token.logprob)


def misplaced(choice: dict[str, Any], text: str, found: Spelled) -> str | None:
    """What shows that log-probabilities stand beside the wrong tokens, or None.

    The echo has one token behind the text, written at temperature 0: it is the likeliest at its place.
    """
    said, last = choice["logprobs"], found.in_front + len(found.tokens)
    written, whole = said["tokens"][last:], choice.get("text")
    if not written:
        wrote = whole.removeprefix(text) if isinstance(whole, str) and whole.startswith(text) else ""
        return f"it writes {wrote!r} and gives it none" if wrote else None
    tops = said.get("top_logprobs")
    top = tops[last] if isinstance(tops, list) and len(tops) > last else None
    own = said["token_logprobs"][last]
    if not isinstance(top, dict) or not _sound(own) or not all(map(_sound, top.values())):
        return None
    best = max(top, key=lambda token: float(top[token]), default=written[0])
    if top and top[best] > own + 0.01:
        return f"it writes {written[0]!r} and gives {best!r} a higher one"
    return None
