"""Work cut into steps: plain data that any copy of a model can do, in any order, with the same numbers.

A backend plans its requests into steps, for which it needs no weights, and does them one by one. What the steps of one
request give is gathered into its answer. A process of its own does them in order; workers elsewhere do the same steps.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.models import Batch
from evenhand.models.plan import Row, Slot, batches
from evenhand.requests import Answer, Request, Scores

Part = tuple[Slot, float | Answer]
"""A log-probability at its place, or, where a step answers a request whole, the answer."""


@dataclass(frozen=True, slots=True)
class Step:
    """A piece of work: `what` names the way of doing it, `load` is what that way needs, such as rows of tokens.

    `serves` are the requests it is for, by index, `reads` is how many log-probabilities each of these takes over all
    steps, `tokens` what is forwarded, padding included; 0 where only `counted` finds that out.
    """

    what: str
    load: Any
    serves: tuple[int, ...]
    tokens: int
    reads: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a plan depends on and only loaded weights can tell: how rows are best laid, and tokens in one pass."""

    trees: bool
    window: int | None
    batch_tokens: int


class Gathering:
    """Puts together what steps give."""

    def __init__(self, requests: Sequence[Request], answered: Container[Request]) -> None:
        self._requests = requests
        self._missing = [request not in answered for request in requests]
        self._values: defaultdict[int, dict[Slot, float]] = defaultdict(dict)

    def wants(self, step: Step) -> bool:
        """Whether the step is for a request that has no answer yet."""
        return any(self._missing[i] for i in step.serves)

    def add(self, step: Step, parts: Iterable[Part]) -> Batch:
        """The requests that a step's parts complete, with their answers."""
        done: Batch = []
        for slot, value in parts:
            i = slot.request
            if not self._missing[i]:
                continue
            if not isinstance(value, float):
                self._missing[i] = False
                done.append((self._requests[i], value))
                continue
            found = self._values[i]
            found[slot] = value
            if len(found) == step.reads[i]:
                self._missing[i] = False
                done.append((self._requests[i], _scores(self._values.pop(i))))
        return done


class Stepwise:
    """A model whose `answer` does its steps in order."""

    told: Facts | None = None
    """Facts that another copy of the model has found out; where they are there, planning loads no weights."""

    @property
    def facts(self) -> Facts | None:
        """What this copy finds out, loading its weights, or None where plans depend on nothing."""
        return None

    def steps(self, requests: Sequence[Request]) -> Iterator[Step]:
        """What there is to do for these requests, all different."""
        raise NotImplementedError

    def do(self, step: Step) -> list[Part]:
        """Does a step.

        Raises:
            ModelError: the model failed.
        """
        raise NotImplementedError

    def counted(self, step: Step) -> Step:
        """The step with its tokens, where counting them is work that doing it does not need."""
        return step

    def smaller(self, step: Step, tokens: int) -> Step:
        """A step of the same kind with about so many tokens, to see how long such work takes."""
        return step

    def answer(self, requests: Sequence[Request], answered: Container[Request]) -> Iterator[Batch]:
        """Answers, batch by batch; a step of which every request is in `answered` is passed over."""
        if all(request in answered for request in requests):
            return
        gathering = Gathering(requests, answered)
        for step in self.steps(requests):
            if gathering.wants(step) and (done := gathering.add(step, self.do(step))):
                yield done


def reading(rows: Sequence[Row], batch_tokens: int) -> Iterator[Step]:
    """One step per batch of rows that are read."""
    reads: defaultdict[int, int] = defaultdict(int)
    for row in rows:
        for read in row.reads:
            reads[read.slot.request] += 1
    for batch in batches(rows, batch_tokens):
        serves = dict.fromkeys(read.slot.request for row in batch for read in row.reads)
        yield Step("read", batch, tuple(serves), padded_tokens(batch), reads)


def padded_tokens(rows: Sequence[Row]) -> int:
    """Tokens in a forward pass over these rows, padding and what an encoder reads included."""
    return len(rows) * (max(len(row.tokens) for row in rows) + max(len(row.source) for row in rows))


def whole(what: str, wanted: Iterable[tuple[int, Request]], tokens: Callable[[Any], int]) -> Iterator[Step]:
    """One step per request that is answered whole."""
    for i, request in wanted:
        yield Step(what, (i, request), (i,), tokens(request), {})


def _scores(values: dict[Slot, float]) -> Scores:
    """Reads of one request, put in the order of its choices and tokens."""
    choices: defaultdict[int, list[float]] = defaultdict(list)
    for slot in sorted(values):
        choices[slot.choice].append(values[slot])
    return Scores(tuple(tuple(choices[choice]) for choice in sorted(choices)))
