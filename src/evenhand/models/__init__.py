"""Backends: requests to answers. One file each, exposing `load`; chosen by `kind:ref`, or by a checkpoint's config."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from evenhand.errors import InputError, nearest
from evenhand.requests import Answer, Request

if TYPE_CHECKING:
    from evenhand.models.hub import Located

Batch = list[tuple[Request, Answer]]
BATCH_TOKENS = 2048
"""Tokens in one forward pass on a processor, and in training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How a model is to be loaded and run. `tell` is called with a line for the user, such as a licence notice.

    `found` is where a checkpoint was located before, if it was. Without `batch_tokens` a GPU's passes are as large as
    its memory allows, others have `BATCH_TOKENS`.
    """

    device: str = "auto"
    dtype: str = "auto"
    batch_tokens: int | None = None
    offline: bool = False
    trust_remote_code: bool = False
    tell: Callable[[str], None] = lambda line: None
    found: "Located | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who answered. `fingerprint` hashes what decides the answers: weights, tokenizer, dtype, reading rules.

    `start` is the token in front of a text, by name; `reads` is how a served model's log-probabilities are read.
    """

    ref: str
    kind: str
    revision: str | None
    fingerprint: str
    dtype: str | None = None
    start: str | None = None
    reads: str | None = None


@dataclass(slots=True)
class Work:
    """What answering took: forward passes, their rows, tokens forwarded (padding apart), vocabulary-head positions.

    `largest` is the largest pass in tokens, padding included.
    """

    passes: int = 0
    rows: int = 0
    tokens: int = 0
    padding: int = 0
    heads: int = 0
    largest: int = 0


class Model(Protocol):
    """A backend's model. Weights load when first asked, `supports` is known before."""

    supports: frozenset[type[Request]]
    work: Work

    @property
    def device(self) -> str:
        """Where it runs."""

    def identity(self) -> Identity:
        """Who this is; reads the weights' bytes, not the weights."""

    def answer(self, requests: Sequence[Request], answered: Mapping[Request, Answer]) -> Iterator[Batch]:
        """Answers to the requests, all different, batch by batch.

        The plan is made over all of `requests`, so that a run that goes on makes the same batches as one that was
        never interrupted; batches of which every request is in `answered` are passed over. A batch may hold answers
        to requests that were not asked, the parts of one that was: they are kept, and a model that makes them says
        which by `parts(request)`, so that `answered` has them too when the run goes on.

        Raises:
            ModelError: the model failed.
            InputError: a request cannot be put to this model, such as a text over its length.
        """


Loader = Callable[[str, LoadOptions], Model]


@cache
def kinds() -> dict[str, str]:
    """Every backend by kind: the module that has its `load`."""
    found = {module.name: f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)}
    inner = {"checkpoint", "encode", "plan", "forward", "hub", "packaged", "finetune", "steps", "cards"}
    inner |= {"address", "align", "echo", "probing", "served"}
    backends = {name: path for name, path in found.items() if name not in inner}
    return backends | {point.name: point.value for point in entry_points(group="evenhand.models")}


def load(ref: str, options: LoadOptions) -> Model:
    """The model that `ref` names: a Hub id, a local folder, a packaged name, or any of them as `kind:ref`.

    Raises:
        InputError: there is no such model, or it is not of the kind that was said.
    """
    from evenhand.models.packaged import PACKAGED

    kind, colon, rest = ref.partition(":")
    if colon and not Path(ref).exists() and re.fullmatch(r"[a-z][a-z0-9_-]+", kind):
        if kind not in kinds():
            raise InputError(f"no kind of model {kind!r} (in {ref!r}); {nearest(kind, kinds())}")
        return loader(kind)(rest, options)
    if ref not in PACKAGED and not set("/@") & set(ref) and not Path(ref).exists():
        from difflib import get_close_matches

        if close := get_close_matches(ref, PACKAGED, n=1, cutoff=0.75):
            raise InputError(f"no model {ref!r}: did you mean {close[0]!r}?")
    from evenhand.models.hub import kind_of, locate

    options = replace(options, found=locate(ref, options))
    return loader(kind_of(ref, options))(ref, options)


def loader(kind: str) -> Loader:
    """The `load` of a kind's module."""
    module, _, name = kinds()[kind].partition(":")
    found: Loader = getattr(importlib.import_module(module), name or "load")
    return found
