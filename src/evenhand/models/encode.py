"""Spans of text to tokens: what a tokenizer's own joint encoding says, never a guess from a model's name.

Special tokens are found out by asking: what the tokenizer puts around a text by default stands around every text,
once. A continuation's tokens are what the joint encoding adds to the context's; a fill's pieces are the tokens of the
joint encoding that cover its characters.
"""

from collections.abc import Sequence
from typing import Any

from evenhand.errors import InputError


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

    def _checked(self, tokens: tuple[int, ...], text: str) -> tuple[int, ...]:
        if self._max_tokens is not None and len(tokens) > self._max_tokens:
            raise InputError(
                f"{len(tokens)} tokens are more than this model's {self._max_tokens}, in the text {text[:60]!r}..."
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

    def prompts(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Per text: its tokens as they stand before what is to be generated."""
        found = [self._opened(ids) or (self._start(text),) for text, ids in zip(texts, self._ids(texts), strict=True)]
        return [self._checked(tokens, text) for tokens, text in zip(found, texts, strict=True)]

    def sentences(self, texts: Sequence[str], contexts: Sequence[str]) -> list[tuple[tuple[int, ...], int]]:
        """Per text: the tokens of context, one space and text, and the index of the text's first token.

        The start token always stands in front, so that the first token is read too.
        """
        choices = [[f" {text}" if context else text] for text, context in zip(texts, contexts, strict=True)]
        found = []
        for (path,), text in zip(self.continuations(contexts, choices), texts, strict=True):
            tokens, begin = path
            if tokens[0] not in (self.start, *self.prefix[:1]):
                tokens, begin = (self._start(text), *tokens), begin + 1
            found.append((tokens, begin))
        return found

    def pieces(self, texts: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[tuple[tuple[int, ...], range]]:
        """Per text: its tokens with special tokens around, and which of them cover the span.

        Raises:
            InputError: the tokenizer gives no offsets, no token covers the span, or the text is too long.
        """
        if not self._tokenizer.is_fast:
            raise InputError("this tokenizer gives no character offsets, so a fill's pieces cannot be told")
        if not texts:
            return []
        encoded = self._tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True)
        found = []
        for text, (start, end), ids, offsets in zip(
            texts, spans, encoded["input_ids"], encoded["offset_mapping"], strict=True
        ):
            covers = [i for i, (low, high) in enumerate(offsets) if low < end and high > start]
            if not covers:
                raise InputError(f"no token covers {text[start:end]!r} in {text!r}: it cannot be read at the mask")
            n = len(self.prefix)
            tokens = self._checked((*self.prefix, *ids, *self.suffix), text)
            found.append((tokens, range(n + covers[0], n + covers[-1] + 1)))
        return found


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two sequences share at their beginning."""
    for i, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return i
    return min(len(first), len(second))
