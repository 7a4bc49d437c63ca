"""What all transformers backends share: lazy tokenizer and weights, identity, and planned rows to answers."""

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from evenhand.errors import InputError
from evenhand.models import Batch, Identity, LoadOptions, Work, hub, plan
from evenhand.models.encode import Encoder
from evenhand.requests import Classify, Embed, Request, Scores, Vector

if TYPE_CHECKING:
    from evenhand.models.forward import Forward, Reading


class Checkpoint:
    """A checkpoint of one kind; its weights load when they are first needed."""

    kind: ClassVar[str]
    reading: ClassVar["Reading"]
    supports: frozenset[type[Request]]

    def __init__(self, found: hub.Located, options: LoadOptions) -> None:
        try:
            import torch  # noqa: F401
            import transformers  # noqa: F401
        except ImportError as error:
            raise InputError(f"{found.ref} needs {error.name}: pip install 'evenhand[hf]'") from None
        self.found, self.options = found, options
        self.work = Work()

    @cached_property
    def _torch_device(self) -> Any:
        import torch

        name = self.options.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        kind, _, index = name.partition(":")
        there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
        if not there[kind]:
            raise InputError(f"--device {name}: this machine has none that torch can use")
        if index and int(index) >= torch.cuda.device_count():
            raise InputError(f"--device {name}: this machine has {torch.cuda.device_count()}, counted from 0")
        return torch.device(name)

    @property
    def device(self) -> str:
        """The torch device's name."""
        return str(self._torch_device)

    @cached_property
    def _dtype(self) -> Any:
        """float32, unless asked otherwise; on a GPU `auto` takes the dtype that the checkpoint is stored in."""
        import torch

        name = self.options.dtype
        if name == "auto":
            stored = str(self.found.config.get("dtype") or self.found.config.get("torch_dtype") or "float32")
            name = stored if self._torch_device.type == "cuda" else "float32"
        return getattr(torch, name.removeprefix("torch."))

    @cached_property
    def tokenizer(self) -> Any:
        """The checkpoint's tokenizer."""
        return hub.tokenizer(self.found, self.options)

    @cached_property
    def encoder(self) -> Encoder:
        """Texts to tokens."""
        config = self.found.config
        said = [config.get(name) for name in ("max_position_embeddings", "n_positions")]
        limits = [limit for limit in (*said, self.tokenizer.model_max_length) if limit]
        return Encoder(self.tokenizer, max_tokens=min(limits, default=None))

    @property
    def pad(self) -> int:
        """A token for padding; what it is does not matter, since padding is never seen."""
        pads = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, 0)
        return next(token for token in pads if token is not None)

    @cached_property
    def forward(self) -> "Forward":
        """The weights, loaded and tried out."""
        from evenhand.models.forward import Forward

        model = hub.load_weights(self.found, self.kind, self._dtype, self._torch_device, self.options)
        return Forward(model, pad=self.pad, work=self.work, reading=self.reading)

    def identity(self) -> Identity:
        """Reference, revision, and the hash of weights, config and tokenizer with the dtype."""
        weights = hub.fingerprint(self.found, self.options)  # hashed in a thread while the tokenizer loads
        dtype = str(self._dtype).removeprefix("torch.")
        return Identity(
            ref=self.found.ref,
            kind=self.kind,
            revision=self.found.revision,
            dtype=dtype,
            start=self.encoder.start_name if self.kind == "causal" else None,
            fingerprint=f"{weights.result()}-{dtype}",
        )

    def run(self, requests: Sequence[Request], rows: list[plan.Row], answered: Container[Request]) -> Iterator[Batch]:
        """Forwards every batch that has a request to be answered; yields requests as their last read comes in."""
        missing = [request not in answered for request in requests]
        left: defaultdict[int, int] = defaultdict(int)
        for row in rows:
            for read in row.reads:
                left[read.slot.request] += 1
        values: defaultdict[int, dict[plan.Slot, float]] = defaultdict(dict)
        for batch in plan.batches(rows, self.options.batch_tokens):
            if not any(missing[read.slot.request] for row in batch for read in row.reads):
                continue
            done: Batch = []
            for slot, value in self.forward.logprobs(batch):
                if missing[slot.request]:
                    found = values[slot.request]
                    found[slot] = value
                    if len(found) == left[slot.request]:
                        done.append((requests[slot.request], _scores(values.pop(slot.request))))
            if done:
                yield done

    def embed(self, requests: Sequence[Request], answered: Container[Request]) -> Iterator[Batch]:
        """Vectors of the texts, in batches by length; a text longer than the model reads is cut at its end."""
        wanted = [request for request in requests if isinstance(request, Embed)]
        if all(request in answered for request in wanted):
            return
        tokens = self.encoder.cut([request.text for request in wanted])
        places: defaultdict[str, list[int]] = defaultdict(list)
        for i, request in enumerate(wanted):
            places[request.pooling].append(i)
        for pooling, own in places.items():
            for group in plan.grouped([len(tokens[i]) for i in own], self.options.batch_tokens):
                todo = [i for i in (own[j] for j in group) if wanted[i] not in answered]
                if todo:
                    # The whole batch, answered or not: what is padded decides the last digits.
                    rows = [plan.Row(list(tokens[own[j]])) for j in group]
                    vectors = self.forward.vectors(rows, first=pooling == "first")
                    found = {own[j]: Vector(vector.tolist()) for j, vector in zip(group, vectors, strict=True)}
                    yield [(wanted[i], found[i]) for i in todo]

    def classify(self, requests: Sequence[Request], answered: Container[Request]) -> Iterator[Batch]:
        """What a copy of the model's body says after training, one request after the other."""
        for request in requests:
            if isinstance(request, Classify) and request not in answered:
                from evenhand.models.finetune import probabilities

                yield [(request, Vector(probabilities(self, request)))]


def _scores(values: dict[plan.Slot, float]) -> Scores:
    """Reads of one request, put in the order of its choices and tokens."""
    choices: defaultdict[int, list[float]] = defaultdict(list)
    for slot in sorted(values):
        choices[slot.choice].append(values[slot])
    return Scores(tuple(tuple(choices[choice]) for choice in sorted(choices)))
