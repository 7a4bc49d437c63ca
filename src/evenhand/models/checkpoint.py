"""What all transformers backends share: lazy tokenizer and weights, identity, and steps of work."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from evenhand.errors import InputError
from evenhand.models import BATCH_TOKENS, Identity, LoadOptions, Work, cards, hub, plan
from evenhand.models.encode import Encoder
from evenhand.models.steps import Facts, Part, Step, Stepwise, padded_tokens, whole
from evenhand.requests import Classify, Embed, Request, Vector

if TYPE_CHECKING:
    from evenhand.models.forward import Forward, Reading


class Checkpoint(Stepwise):
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
        """The torch device's name, and how many cards where one is too small."""
        import torch

        name = str(self._torch_device)
        return f"{name}, laid over {torch.cuda.device_count()} by accelerate" if self._too_large else name

    @cached_property
    def _too_large(self) -> bool:
        return cards.too_large(self.found, self.options, self._dtype, self._torch_device)

    @property
    def _place(self) -> Any:
        return cards.layout(self.found) if self._too_large else self._torch_device

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
    def batch_tokens(self) -> int:
        """Tokens in one forward pass, at most: as asked, else what a GPU has memory for, else a processor's few."""
        if self.told:
            return self.told.batch_tokens
        if self.options.batch_tokens:
            return self.options.batch_tokens
        measured = self._torch_device.type == "cuda" and not self._too_large
        return self.forward.fitting if measured else BATCH_TOKENS

    @property
    def facts(self) -> Facts:
        """Facts of the loaded weights."""
        return Facts(self.forward.trees, self.forward.window, self.batch_tokens)

    @property
    def pad(self) -> int:
        """A token for padding; what it is does not matter, since padding is never seen."""
        pads = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, 0)
        return next(token for token in pads if token is not None)

    @cached_property
    def forward(self) -> "Forward":
        """The weights, loaded and tried out."""
        from evenhand.models.forward import Forward

        model = hub.load_weights(self.found, self.kind, self._dtype, self._place, self.options)
        return Forward(model, pad=self.pad, work=self.work, reading=self.reading)

    def smaller(self, step: Step, tokens: int) -> Step:
        """Fewer rows of a forward pass, or fewer texts to train on."""
        share = min(1.0, tokens / max(1, step.tokens))

        def some(things: Sequence[Any]) -> Sequence[Any]:
            return things[: max(1, round(share * len(things)))]

        if step.what == "read":
            rows = some(step.load)
            return replace(step, load=rows, tokens=padded_tokens(rows))
        if step.what == "vectors":
            rows, serves, pooling = step.load
            rows = some(rows)
            return replace(step, load=(rows, serves[: len(rows)], pooling), tokens=padded_tokens(rows))
        if step.what == "train":
            _, request = step.load
            n = max(request.batch, round(share * len(request.texts)))
            cut = replace(
                request, texts=request.texts[:n], labels=request.labels[:n], weights=request.weights[:n],
                queries=some(request.queries), epochs=1,
            )  # fmt: skip
            return self.counted(next(self.training([cut])))
        return step

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

    def vectors(self, requests: Sequence[Request]) -> Iterator[Step]:
        """Steps for the texts' vectors, by length; a text longer than the model reads is cut at its end."""
        wanted = [(i, request) for i, request in enumerate(requests) if isinstance(request, Embed)]
        tokens = self.encoder.cut([request.text for _, request in wanted])
        places: defaultdict[str, list[int]] = defaultdict(list)
        for n, (_, request) in enumerate(wanted):
            places[request.pooling].append(n)
        for pooling, own in places.items():
            for group in plan.grouped([len(tokens[n]) for n in own], self.batch_tokens):
                rows = [plan.Row(tokens[own[j]]) for j in group]
                serves = tuple(wanted[own[j]][0] for j in group)
                yield Step("vectors", (rows, serves, pooling), serves, padded_tokens(rows), {})

    def training(self, requests: Sequence[Request]) -> Iterator[Step]:
        """Steps in which a copy of the model's body is trained, one request after the other."""
        wanted = ((i, r) for i, r in enumerate(requests) if isinstance(r, Classify))
        yield from whole("train", wanted, lambda request: 0)

    def counted(self, step: Step) -> Step:
        """Training's tokens: one that is learned from goes forward once in each epoch, and back at twice the price."""
        if step.what != "train":
            return step
        _, request = step.load
        learned, asked = (sum(map(len, self.encoder.cut(texts))) for texts in (request.texts, request.queries))
        return replace(step, tokens=3 * request.epochs * learned + asked)

    def do(self, step: Step) -> list[Part]:
        """Forwards the step's rows, or does what else it says."""
        if step.what == "vectors":
            rows, serves, pooling = step.load
            vectors = self.forward.vectors(rows, first=pooling == "first")
            return [(plan.Slot(i, 0, 0), Vector(vector.tolist())) for i, vector in zip(serves, vectors, strict=True)]
        if step.what == "train":
            from evenhand.models.finetune import probabilities

            i, request = step.load
            return [(plan.Slot(i, 0, 0), Vector(probabilities(self, request)))]
        return list(self.forward.logprobs(step.load))
