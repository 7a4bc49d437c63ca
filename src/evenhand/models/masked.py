"""Masked language models on transformers."""

from collections.abc import Container, Iterator, Sequence

from evenhand.errors import InputError
from evenhand.models import Batch, LoadOptions, plan
from evenhand.models.checkpoint import Checkpoint
from evenhand.models.hub import expect, locate
from evenhand.requests import Cloze, Request


class Masked(Checkpoint):
    """Requests that share a masked input share its forward pass."""

    kind = "masked"
    supports = frozenset({Cloze})

    def answer(self, requests: Sequence[Request], answered: Container[Request]) -> Iterator[Batch]:
        """All fills of a text whose pieces are one each are read from one pass."""
        if any(request not in answered for request in requests):
            yield from self.run(requests, plan.inputs(self._probes(requests)), answered)

    def _probes(self, requests: Sequence[Request]) -> list[plan.Probe]:
        """Each piece of each fill, with itself and the pieces to its right within the fill masked."""
        mask = self.encoder.mask
        if mask is None:
            raise InputError(f"{self.found.ref}: its tokenizer has no mask token")
        asked = [
            (i, choice, r.text, r.span, fill)
            for i, r in enumerate(requests)
            if isinstance(r, Cloze)
            for choice, fill in enumerate(r.fills)
        ]
        texts = [text[:start] + fill + text[end:] for _, _, text, (start, end), fill in asked]
        spans = [(start, start + len(fill)) for _, _, _, (start, _), fill in asked]
        probes = []
        for (i, choice, *_), (tokens, pieces) in zip(asked, self.encoder.pieces(texts, spans), strict=True):
            for token, position in enumerate(pieces):
                masked = (*tokens[:position], *(mask,) * (pieces.stop - position), *tokens[pieces.stop :])
                probes.append(plan.Probe(masked, position, tokens[position], plan.Slot(i, choice, token)))
        return probes


def load(ref: str, options: LoadOptions) -> Masked:
    """The masked model at `ref`."""
    found = locate(ref, options)
    expect(found, "masked")
    return Masked(found, options)
