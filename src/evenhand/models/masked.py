"""Masked language models on transformers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from evenhand.errors import InputError, ModelError
from evenhand.models import LoadOptions, hub, plan
from evenhand.models.checkpoint import Checkpoint
from evenhand.models.steps import Part, Step, reading
from evenhand.requests import Classify, Cloze, Embed, MaskCloze, NextSentence, Request, Scores, Sentence


class Masked(Checkpoint):
    """Requests that share a masked input share its forward pass."""

    kind = "masked"
    reading = "masked"

    def __init__(self, found: hub.Located, options: LoadOptions) -> None:
        super().__init__(found, options)
        head = {NextSentence} if hub.has_next_sentence_head(found, options) else set()
        self.supports = frozenset({Cloze, MaskCloze, Sentence, Embed, Classify, *head})

    def steps(self, requests: Sequence[Request]) -> Iterator[Step]:
        """All that is read of one masked input comes from one pass; next sentences are read from their own head."""
        if rows := plan.inputs(self._probes(requests)):
            yield from reading(rows, self.batch_tokens)
        yield from self._next_sentences(requests)
        yield from self.vectors(requests)
        yield from self.training(requests)

    def smaller(self, step: Step, tokens: int) -> Step:
        """Fewer pairs of sentences, or what every checkpoint does."""
        if step.what == "follow":
            encoded, serves = step.load
            n = max(1, round(len(encoded) * min(1.0, tokens / step.tokens)))
            width = max(len(pair) for pair, _ in encoded[:n])
            return replace(step, load=(encoded[:n], serves[:n]), tokens=n * width)
        return super().smaller(step, tokens)

    def do(self, step: Step) -> list[Part]:
        """Reads next sentences, or does what every checkpoint does."""
        return self._follow(*step.load) if step.what == "follow" else super().do(step)

    def _probes(self, requests: Sequence[Request]) -> Iterator[plan.Probe]:
        clozes = [(i, r) for i, r in enumerate(requests) if isinstance(r, Cloze)]
        sentences = [(i, r) for i, r in enumerate(requests) if isinstance(r, Sentence)]
        if (clozes or sentences) and self.encoder.mask is None:
            raise InputError(f"{self.found.ref}: its tokenizer has no mask token")
        yield from self._words([(i, r) for i, r in clozes if r.rule in ("word", "first-piece")])
        yield from self._alone([(i, r) for i, r in clozes if r.rule not in ("word", "first-piece")])
        yield from self._sentences(sentences)

    def _within(
        self, tokens: tuple[int, ...], word: range, request: int, choice: int, first: int
    ) -> Iterator[plan.Probe]:
        """Each piece of a word, with itself and the pieces to its right within the word masked."""
        for n, at in enumerate(word):
            masked = (*tokens[:at], *(self.encoder.mask or 0,) * (word.stop - at), *tokens[word.stop :])
            yield plan.Probe(masked, at, tokens[at], plan.Slot(request, choice, first + n))

    def _words(self, asked: Iterable[tuple[int, Cloze]]) -> Iterator[plan.Probe]:
        """Fills encoded in their place, read piece by piece, or the first piece alone at one mask for all of them."""
        fills = [(i, choice, r, fill) for i, r in asked for choice, fill in enumerate(r.fills)]
        texts = [r.text[: r.span[0]] + fill + r.text[r.span[1] :] for _, _, r, fill in fills]
        spans = [(r.span[0], r.span[0] + len(fill)) for _, _, r, fill in fills]
        for (i, choice, r, _), (tokens, word) in zip(fills, self.encoder.pieces(texts, spans), strict=True):
            if r.rule == "word":
                yield from self._within(tokens, word, i, choice, 0)
            else:
                masked = (*tokens[: word.start], self.encoder.mask or 0, *tokens[word.stop :])
                yield plan.Probe(masked, word.start, tokens[word.start], plan.Slot(i, choice, 0))

    def _alone(self, asked: Iterable[tuple[int, Cloze]]) -> Iterator[plan.Probe]:
        """Fills encoded alone; the text is encoded anew for every piece, with the pieces before it spelled out."""
        asked = list(asked)
        fills = [(i, choice, r, fill) for i, r in asked for choice, fill in enumerate(r.fills)]
        pieces: list[tuple[int, ...]] = [()] * len(fills)
        for bare in (False, True):
            some = [n for n, (_, _, r, _) in enumerate(fills) if (r.rule == "alone-bare") == bare]
            for n, ids in zip(some, self.encoder.alone([fills[n][3] for n in some], bare=bare), strict=True):
                pieces[n] = ids
        slots, targets, texts = [], [], []
        for (i, choice, r, _), ids in zip(fills, pieces, strict=True):
            hole = r.text[slice(*r.span)]
            for n, piece in enumerate(ids):
                before = self.tokenizer.decode(ids[:n]).lstrip() if n else ""
                slots.append(plan.Slot(i, choice, n))
                targets.append(piece)
                texts.append(r.text.replace(hole, before + self.tokenizer.mask_token))
        for slot, target, (tokens, at) in zip(slots, targets, self.encoder.around(texts), strict=True):
            yield plan.Probe(tokens, at, target, slot)

    def _sentences(self, asked: Sequence[tuple[int, Sentence]]) -> Iterator[plan.Probe]:
        """Every token of the sentence, word by word: pseudo-log-likelihood, within-word left to right."""
        found = self.encoder.words([r.text for _, r in asked], [r.context for _, r in asked])
        for (i, _), (tokens, words) in zip(asked, found, strict=True):
            for word in words:
                yield from self._within(tokens, word, i, 0, word.start - words[0].start)

    def _next_sentences(self, requests: Sequence[Request]) -> Iterator[Step]:
        """Steps for the pre-trained head, by length."""
        wanted = [(i, r) for i, r in enumerate(requests) if isinstance(r, NextSentence)]
        if not wanted:
            return
        encoded = self.encoder.pairs([r.first for _, r in wanted], [r.second for _, r in wanted])
        for batch in plan.grouped([len(tokens) for tokens, _ in encoded], self.batch_tokens):
            serves = tuple(wanted[n][0] for n in batch)
            width = max(len(encoded[n][0]) for n in batch)
            yield Step("follow", ([encoded[n] for n in batch], serves), serves, width * len(batch), {})

    @cached_property
    def _head(self) -> Any:
        """In float32, whatever the rest is in: nearly all its answers are near certain, and would be rounded alike."""
        import torch

        return hub.load_weights(self.found, "next-sentence", torch.float32, self._place, self.options)

    def _follow(self, encoded: Sequence[tuple[Sequence[int], Sequence[int]]], serves: Sequence[int]) -> list[Part]:
        """Each pair's log P(is next); a batch that does not fit in memory is halved."""
        from evenhand.models.forward import out_of_memory

        try:
            values = self._is_next(encoded)
        except (RuntimeError, MemoryError) as error:
            half = len(encoded) // 2
            if out_of_memory(error) and half:
                return self._follow(encoded[:half], serves[:half]) + self._follow(encoded[half:], serves[half:])
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ModelError(f"the next-sentence head failed: {reason}") from error
        return [(plan.Slot(i, 0, 0), Scores(((value,),))) for i, value in zip(serves, values, strict=True)]

    def _is_next(self, encoded: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[float]:
        """Kept in log space from the head's two numbers, its index 0 first, so that near-certainties differ."""
        import torch

        from evenhand.models.forward import padded

        model = self._head
        ids, seen = padded([tokens for tokens, _ in encoded], self.pad)
        types, _ = padded([kinds for _, kinds in encoded], 0)
        inputs = {"input_ids": ids, "token_type_ids": types, "attention_mask": seen}
        with torch.inference_mode():
            logits = model(**{name: value.to(model.device) for name, value in inputs.items()}).logits
        logits = logits.cpu().double()
        self.work.passes += 1
        self.work.rows += len(encoded)
        self.work.tokens += int(seen.sum())
        self.work.padding += ids.numel() - int(seen.sum())
        self.work.largest = max(self.work.largest, ids.numel())
        # log_softmax is 0 from a difference of 37 on
        found: list[float] = torch.nn.functional.logsigmoid(logits[:, 0] - logits[:, 1]).tolist()
        return found


def load(ref: str, options: LoadOptions) -> Masked:
    """The masked model at `ref`."""
    found = hub.locate(ref, options)
    hub.expect(found, "masked")
    return Masked(found, options)
