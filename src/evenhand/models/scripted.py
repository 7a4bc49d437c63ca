"""`scripted:FILE.json`: a model whose probabilities are written down. For tests, selfcheck and teaching.

{"name": "...",                                   optional
 "supports": ["Continuation", "Cloze", ...],      optional; else what the file has sections for
 "Continuation": {CONTEXT: {CHOICE: LOGPROBS}},   LOGPROBS: one number, or a list with one per token, in nats
 "Cloze": {"text with [] at the span": {FILL: LOGPROBS}},
 "Sentence": {TEXT: LOGPROBS},  or  {CONTEXT: {TEXT: LOGPROBS}}
 "NextSentence": {FIRST: {SECOND: LOGPROB}},
 "Generate": {PROMPT: [TEXT, ...]},               repeated until there are enough
 "Chat": {MESSAGE: [TEXT, ...]},                  likewise
 "Embed": {TEXT: [NUMBER, ...]},
 "default": LOGPROB}                              for every text that has none written; without it that is an error
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from evenhand.errors import InputError, ModelError, nearest
from evenhand.models import Identity, LoadOptions, Work
from evenhand.models.plan import Slot
from evenhand.models.steps import Part, Step, Stepwise
from evenhand.requests import (
    REQUEST_TYPES,
    Answer,
    Chat,
    Classify,
    Cloze,
    Continuation,
    Embed,
    Generate,
    MaskCloze,
    NextSentence,
    Request,
    Scores,
    Sentence,
    Texts,
    Vector,
)

TYPES = {kind.__name__: kind for kind in REQUEST_TYPES}
BATCH = 64
SHOWN = 60


class Scripted(Stepwise):
    """The written-down model."""

    device = "none"

    def __init__(self, ref: str, raw: bytes, script: dict[str, Any]) -> None:
        for name in script:
            if name not in {*TYPES, "name", "supports", "default"}:
                raise InputError(f"{ref}: unknown section {name!r}; {nearest(name, TYPES)}")
        said = script.get("supports", [name for name in TYPES if name in script])
        if not isinstance(said, list):
            raise InputError(f"{ref}: supports is a list of request types, not {said!r}")
        for name in said:
            if not isinstance(name, str) or name not in TYPES:
                raise InputError(f"{ref}: supports {name!r}; {nearest(str(name), TYPES)}")
        found = [TYPES[name] for name in said]
        self.supports = frozenset([*found, MaskCloze] if Cloze in found else found)
        self.work = Work()
        self._ref, self._script = ref, script
        self._fingerprint = hashlib.sha256(raw).hexdigest()

    def identity(self) -> Identity:
        """The script's hash is the fingerprint."""
        name = self._script.get("name", Path(self._ref).stem)
        return Identity(ref=f"scripted:{name}", kind="scripted", revision=None, fingerprint=self._fingerprint)

    def steps(self, requests: Sequence[Request]) -> Iterator[Step]:
        """What is to be looked up, in batches of 64."""
        for start in range(0, len(requests), BATCH):
            batch = list(enumerate(requests[start : start + BATCH], start))
            yield Step("look up", batch, tuple(i for i, _ in batch), 0, {})

    def do(self, step: Step) -> list[Part]:
        """What the script says."""
        self.work.passes += 1
        return [(Slot(i, 0, 0), self._one(request)) for i, request in step.load]

    def _one(self, request: Request) -> Answer:  # noqa: PLR0911 - one return per request type
        match request:
            case Continuation(context, choices):
                return Scores(tuple(self._logprobs("Continuation", context, choice) for choice in choices))
            case Cloze(text, (start, end), fills):
                shown = f"{text[:start]}[]{text[end:]}"
                return Scores(tuple(self._logprobs("Cloze", shown, fill) for fill in fills))
            case Sentence(text, ""):
                return Scores((self._logprobs("Sentence", text),))
            case Sentence(text, context):
                return Scores((self._logprobs("Sentence", context, text),))
            case NextSentence(first=first, second=second):
                return Scores((self._logprobs("NextSentence", first, second),))
            case Generate(prompt, samples):
                return Texts(tuple(islice(cycle(self._listed("Generate", prompt, of=str)), samples)))
            case Chat(message, samples):
                return Texts(tuple(islice(cycle(self._listed("Chat", message, of=str)), samples)))
            case Embed(text):
                return Vector(tuple(self._listed("Embed", text, of=(int, float))))
            case Classify():
                raise ModelError(f"{self._ref} is written down: it cannot be trained")

    def _written(self, *path: str) -> Any:
        value: Any = self._script
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is None or value in ([], {}):
            whole = path[0] != "Embed" or len(path[1]) <= SHOWN  # a long one may be about a person
            shown = " / ".join(repr(part) for part in path[1:]) if whole else f"a text of {len(path[1])} characters"
            raise ModelError(f"{self._ref} has nothing written in {path[0]} for {shown}, and no default")
        return value

    def _listed(self, section: str, text: str, *, of: type | tuple[type, ...]) -> list[Any]:
        value = self._written(section, text)
        if not isinstance(value, list) or not all(isinstance(x, of) and not isinstance(x, bool) for x in value):
            belongs = "a list of texts belongs" if of is str else "a list of numbers belongs"
            raise ModelError(f"{self._ref}: {section} {text!r} has {value!r} where {belongs}")
        return value

    def _logprobs(self, *path: str) -> tuple[float, ...]:
        default = self._script.get("default")
        try:
            value = self._written(*path)
        except ModelError:
            if default is None:
                raise
            value = default
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in values):
            raise ModelError(f"{self._ref}: {path[0]} {path[1]!r} has {value!r} where log-probabilities belong")
        return tuple(float(number) for number in values)


def load(ref: str, options: LoadOptions) -> Scripted:
    """The script in the file `ref`."""
    try:
        raw = Path(ref).read_bytes()
        script = json.loads(raw)
    except OSError as error:
        raise InputError(f"cannot read the script {ref}: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(f"{ref} is not JSON: {error}") from None
    if not isinstance(script, dict):
        raise InputError(f"{ref}: a script is a JSON object, not a {type(script).__name__}")
    return Scripted(ref, raw, script)
