"""Spans of text to tokens: what a tokenizer's own joint encoding says, never a guess from a model's name.

Special tokens are found out by asking: what the tokenizer puts around a text by default stands around every text,
once. A continuation's tokens are what the joint encoding adds to the context's; a fill's pieces are the tokens of the
joint encoding that cover its characters.
"""

from array import array
from collections.abc import Sequence
from typing import Any

from evenhand.errors import InputError

PART = 4096
"""Texts that are encoded at a time, where only their tokens are kept."""


class Encoder:
    """A transformers tokenizer, asked in batches."""

    def __init__(self, tokenizer: Any, *, max_tokens: int | None = None) -> None:
        """Finds the special tokens around a text, and the start token: BOS, else EOS, else what stands in front."""
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        bare = self._ids(["a"])[0]
        dressed = tokenizer(["a"])["input_ids"][0]
        if not bare:
            raise InputError("the tokenizer gives no tokens for 'a': its files are missing or empty")
        at = next((i for i in range(len(dressed)) if dressed[i : i + len(bare)] == bare), None)
        if at is None:
            raise InputError("the tokenizer encodes a text differently with and without special tokens")
        self.prefix: tuple[int, ...] = tuple(dressed[:at])
        self.suffix: tuple[int, ...] = tuple(dressed[at + len(bare) :])
        starts = [tokenizer.bos_token_id, tokenizer.eos_token_id, *self.prefix]
        self.start: int | None = next((token for token in starts if token is not None), None)
        self.start_name = (
            "bos" if tokenizer.bos_token_id is not None else "eos" if tokenizer.eos_token_id is not None else None
        )
        self.mask: int | None = tokenizer.mask_token_id

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        found: list[list[int]] = self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        return found

    def _checked(self, tokens: tuple[int, ...], text: str, room: int = 0) -> tuple[int, ...]:
        if self._max_tokens is not None and len(tokens) + room > self._max_tokens:
            more = f" and {room} new ones" if room else ""
            raise InputError(
                f"{len(tokens)} tokens{more} are more than this model's {self._max_tokens}, "
                f"in the text {text[:60]!r}..."
            )
        return tokens

    def _opened(self, ids: Sequence[int]) -> tuple[int, ...]:
        """The ids behind the default prefix, which is not put twice where a text already spells it."""
        n = len(self.prefix)
        return tuple(ids) if n and tuple(ids[:n]) == self.prefix else (*self.prefix, *ids)

    def continuations(
        self, contexts: Sequence[str], choices: Sequence[Sequence[str]]
    ) -> list[list[tuple[tuple[int, ...], int]]]:
        """Per context and choice: the joint tokens, and the index of the first that is read.

        All choices of a context are read from one place: where the joint encodings first leave the context's. That is
        the context's end, unless a token spans the join, so that no choice loses a token to it.

        Raises:
            InputError: a choice adds no token, or a text is too long.
        """
        joint = self._ids([context + choice for context, row in zip(contexts, choices, strict=True) for choice in row])
        alone = self._ids(contexts) if any(contexts) else [[] for _ in contexts]
        found, at = [], 0
        for context, ids, row in zip(contexts, alone, choices, strict=True):
            opened = self._opened(ids) if context else self.prefix
            paths = [self._opened(tokens) for tokens in joint[at : at + len(row)]]
            at += len(row)
            begin = min((_common(opened, path) for path in paths), default=0)
            lead = () if begin else (self._start(context),)
            for choice, path in zip(row, paths, strict=True):
                if len(path) <= begin:
                    raise InputError(f"the continuation {choice!r} of {context!r} adds no token to be read")
            found.append([
                (self._checked((*lead, *path), context + choice), begin + len(lead))
                for choice, path in zip(row, paths, strict=True)
            ])  # fmt: skip
        return found

    def _start(self, text: str) -> int:
        if self.start is None:
            raise InputError(f"this tokenizer has no token to start from, so {text!r} has no first condition")
        return self.start

    def prompts(self, texts: Sequence[str], *, room: int = 0) -> list[tuple[int, ...]]:
        """Per text: its tokens as they stand before what is to be generated, with room for `room` more."""
        found = [self._opened(ids) or (self._start(text),) for text, ids in zip(texts, self._ids(texts), strict=True)]
        return [self._checked(tokens, text, room) for tokens, text in zip(found, texts, strict=True)]

    def sentences(
        self, texts: Sequence[str], contexts: Sequence[str], starts: Sequence[str]
    ) -> list[list[tuple[tuple[int, ...], int]]]:
        """Per text: the tokens of context, one space and text, and the index of the first token of the text.

        By the policy `always`, the start token stands in front. By `tokenizer` it does only where the tokenizer puts
        it: a text without context then has its first token read behind the start token alone, in a sequence of its
        own, and the others without it.
        """
        choices = [[f" {text}" if context else text] for text, context in zip(texts, contexts, strict=True)]
        found = []
        joint = self.continuations(contexts, choices)
        for ((tokens, begin),), text, context, policy in zip(joint, texts, contexts, starts, strict=True):
            started = tokens[0] == self.start or tokens[: len(self.prefix)] == self.prefix != ()
            if policy == "always" and not started:
                found.append([((self._start(text), *tokens), begin + 1)])
            elif policy == "tokenizer" and not context and not self.prefix and len(tokens) > 2:
                found.append([(tokens[:2], 1), (tokens[1:], 1)])
            else:
                found.append([(tokens, begin)])
        return found

    def alone(self, words: Sequence[str], *, bare: bool = False) -> list[tuple[int, ...]]:
        """Each word's tokens by itself, as it stands inside a text (behind a space), or bare.

        Raises:
            InputError: a word has no token.
        """
        if bare:
            found = [tuple(ids) for ids in self._ids(words)]
        else:
            (left,) = self._ids(["a"])
            joint = self._ids([f"a {word}" for word in words])
            found = [tuple(ids[len(left) :]) if ids[: len(left)] == left else () for ids in joint]
        for word, ids in zip(words, found, strict=True):
            if not ids:
                raise InputError(f"the tokenizer has no token for {word!r}")
        return found

    def dressed(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Per text: its tokens with special tokens around."""
        return [
            self._checked((*self.prefix, *ids, *self.suffix), text)
            for text, ids in zip(texts, self._ids(texts), strict=True)
        ]

    def cut(self, texts: Sequence[str]) -> list["array[int]"]:
        """Per text: its tokens with special tokens around, the text's cut where they are too many for the model.

        A text without a token is its special tokens, or the start token. Packed, and encoded part by part: a
        tokenizer's own encodings of hundreds of thousands of texts would take gigabytes.
        """
        room = None if self._max_tokens is None else max(1, self._max_tokens - len(self.prefix) - len(self.suffix))
        found = []
        for low in range(0, len(texts), PART):
            for ids in self._ids(texts[low : low + PART]):
                whole = (*self.prefix, *ids[:room], *self.suffix)
                found.append(array("i", whole or (self._start(""),)))
        return found

    def around(self, texts: Sequence[str]) -> list[tuple[tuple[int, ...], int]]:
        """Per text with a mask token in it: its tokens with special tokens around, and the first mask's index."""
        found = []
        for text, tokens in zip(texts, self.dressed(texts), strict=True):
            if self.mask not in tokens:
                raise InputError(f"the tokenizer finds no mask in {text!r}")
            found.append((tokens, tokens.index(self.mask)))
        return found

    def words(self, texts: Sequence[str], contexts: Sequence[str]) -> list[tuple[tuple[int, ...], list[range]]]:
        """Per text: the tokens of context, one space and text with special tokens around, and the text's words.

        A word is what the tokenizer's own first split and white space both leave whole; each is a range of tokens.
        """
        starts = [len(context) + 1 if context else 0 for context in contexts]
        joint = [f"{context} {text}" if context else text for text, context in zip(texts, contexts, strict=True)]
        spans = [(start, len(whole)) for start, whole in zip(starts, joint, strict=True)]
        found = []
        for whole, encoding, (tokens, covered) in zip(
            joint, self._encodings(joint), self.pieces(joint, spans), strict=True
        ):
            n = len(self.prefix)
            words: list[range] = []
            last = None
            for i in covered:
                low, high = encoding.offsets[i - n]
                first = high - len(whole[low:high].lstrip())
                this = (encoding.word_ids[i - n], len(whole[: first + 1].split()))
                words.append(range(words.pop().start, i + 1) if this == last else range(i, i + 1))
                last = this
            found.append((tokens, words))
        return found

    def _encodings(self, texts: Sequence[str]) -> list[Any]:
        if not self._tokenizer.is_fast:
            raise InputError("this tokenizer gives no character offsets, so a fill's pieces cannot be told")
        return list(self._tokenizer(list(texts), add_special_tokens=False).encodings) if texts else []

    def pairs(self, firsts: Sequence[str], seconds: Sequence[str]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Per pair: the tokens as the tokenizer joins two texts, and which of the two each belongs to."""
        encoded = self._tokenizer(list(firsts), list(seconds), return_token_type_ids=True)
        return [
            (self._checked(tuple(ids), text), tuple(types))
            for ids, types, text in zip(encoded["input_ids"], encoded["token_type_ids"], firsts, strict=True)
        ]

    def pieces(self, texts: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[tuple[tuple[int, ...], range]]:
        """Per text: its tokens with special tokens around, and which of them cover the span.

        Raises:
            InputError: the tokenizer gives no offsets, no token covers the span, or the text is too long.
        """
        found = []
        for text, (start, end), encoding in zip(texts, spans, self._encodings(texts), strict=True):
            covers = [i for i, (low, high) in enumerate(encoding.offsets) if low < end and high > start]
            if not covers:
                raise InputError(f"no token covers {text[start:end]!r} in {text!r}: it cannot be read at the mask")
            low, high = encoding.offsets[covers[0] - 1] if covers[0] else (0, 0)
            # A space of its own belongs to the word behind it; some tokenizers trim its offsets to nothing.
            if high == start > 0 and text[min(low, start - 1) : start].isspace():
                covers.insert(0, covers[0] - 1)
            n = len(self.prefix)
            tokens = self._checked((*self.prefix, *encoding.ids, *self.suffix), text)
            found.append((tokens, range(n + covers[0], n + covers[-1] + 1)))
        return found


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two sequences share at their beginning."""
    for i, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return i
    return min(len(first), len(second))
