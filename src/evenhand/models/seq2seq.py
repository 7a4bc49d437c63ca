"""Encoder-decoder models on transformers.

BART-type models are denoisers of the whole text: they are read at their mask, like masked models. T5-type models fill
a sentinel: a fill's pieces are what the decoder says behind it. A sentence given a context is what the decoder says
when the encoder has read the context. EOS is never read.
"""

from collections.abc import Iterator, Sequence

from evenhand.errors import InputError
from evenhand.models import LoadOptions, hub, plan
from evenhand.models.checkpoint import Checkpoint
from evenhand.models.masked import Masked
from evenhand.models.steps import Step, reading
from evenhand.requests import Cloze, Request, Sentence

READ_AT_MASK = ("bart", "mbart")
SENTINEL = "<extra_id_0>"


class Denoiser(Masked):
    """BART and its kin."""

    kind = "seq2seq"


class Seq2Seq(Checkpoint):
    """T5 and its kin."""

    kind = "seq2seq"
    reading = "decoder"
    supports = frozenset({Cloze, Sentence})

    def steps(self, requests: Sequence[Request]) -> Iterator[Step]:
        """Decoder sequences behind one encoder text share a row where one is the other's beginning."""
        said = self.found.config.get("decoder_start_token_id")
        begin = self.pad if said is None else said
        by_source: dict[tuple[int, ...], list[plan.Path]] = {}
        for i, request in enumerate(requests):
            if isinstance(request, Cloze):
                source, pieces = self._cloze(request)
                lead = [begin, self._sentinel()]
            elif isinstance(request, Sentence):
                (source,) = self.encoder.dressed([request.context])
                lead, pieces = [begin], self.encoder.alone([request.text], bare=True)
            else:
                continue
            for choice, ids in enumerate(pieces):
                by_source.setdefault(source, []).append(plan.Path((*lead, *ids), len(lead), i, choice))
        rows = []
        for source, paths in by_source.items():
            for row in plan.chains(paths):
                row.source = source
                rows.append(row)
        yield from reading(rows, self.batch_tokens)

    def _sentinel(self) -> int:
        token = self.tokenizer.convert_tokens_to_ids(SENTINEL)
        if token is None or token == self.tokenizer.unk_token_id:
            raise InputError(f"{self.found.ref}: its tokenizer has no sentinel {SENTINEL}, so it fills no blanks")
        return int(token)

    def _cloze(self, request: Cloze) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
        start, end = request.span
        hole = request.text[start:end]
        text = request.text[:start] + SENTINEL + request.text[end:]
        if request.rule in ("alone", "alone-bare"):
            text = request.text.replace(hole, SENTINEL, 1).replace(hole, "")
        (source,) = self.encoder.dressed([text])
        pieces = self.encoder.alone(request.fills, bare=request.rule == "alone-bare")
        return source, [ids[:1] for ids in pieces] if request.rule == "first-piece" else pieces


def load(ref: str, options: LoadOptions) -> Checkpoint:
    """The encoder-decoder model at `ref`."""
    found = hub.locate(ref, options)
    hub.expect(found, "seq2seq")
    return Denoiser(found, options) if found.config.get("model_type") in READ_AT_MASK else Seq2Seq(found, options)
