"""Encoders on transformers: texts to vectors, no head. Any checkpoint will do: `encoder:REF` leaves its head out."""

from collections.abc import Container, Iterator, Sequence

from evenhand.models import Batch, LoadOptions, hub
from evenhand.models.checkpoint import Checkpoint
from evenhand.requests import Classify, Embed, Request


class TextEncoder(Checkpoint):
    """Vectors are pooled over last hidden states."""

    kind = "encoder"
    reading = "vectors"
    supports = frozenset({Embed, Classify})

    def answer(self, requests: Sequence[Request], answered: Container[Request]) -> Iterator[Batch]:
        """Batches by length; then what training says."""
        yield from self.embed(requests, answered)
        yield from self.classify(requests, answered)


def load(ref: str, options: LoadOptions) -> TextEncoder:
    """The encoder at `ref`."""
    return TextEncoder(hub.locate(ref, options), options)
