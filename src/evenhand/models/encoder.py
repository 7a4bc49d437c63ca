"""Encoders on transformers: texts to vectors, no head. Any checkpoint will do: `encoder:REF` leaves its head out."""

from collections.abc import Iterator, Sequence

from evenhand.models import LoadOptions, hub
from evenhand.models.checkpoint import Checkpoint
from evenhand.models.steps import Step
from evenhand.requests import Classify, Embed, Request


class TextEncoder(Checkpoint):
    """Vectors are pooled over last hidden states."""

    kind = "encoder"
    reading = "vectors"
    supports = frozenset({Embed, Classify})

    def steps(self, requests: Sequence[Request]) -> Iterator[Step]:
        """Batches by length; then training."""
        yield from self.vectors(requests)
        yield from self.training(requests)


def load(ref: str, options: LoadOptions) -> TextEncoder:
    """The encoder at `ref`."""
    return TextEncoder(hub.locate(ref, options), options)
