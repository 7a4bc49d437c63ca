"""What a run would take: its tokens and passes by plan, its time by doing a few of its steps."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenhand.prepare import ask, formed, loaded, prepare
from evenhand.spec import RunSpec

if TYPE_CHECKING:
    from evenhand.models.steps import Step, Stepwise

SECONDS = 10.0
"""How long the steps that are tried may take, over all tasks."""
FIRST_TOKENS = 256


@dataclass(frozen=True, slots=True)
class TaskForecast:
    """One task: its items, its different requests, and what the plan makes of them.

    `tokens` are with padding. A model that does its work elsewhere has as many `passes` as texts go to it or are drawn
    from it; tokens and seconds are None then.
    """

    name: str
    form: str
    items: int
    requests: int
    passes: int | None
    tokens: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """A run: its tasks, the seconds until the model was ready, and the seconds in all (None if a task has none)."""

    model: str
    device: str
    tasks: list[TaskForecast]
    ready: float
    seconds: float | None


def forecast(spec: RunSpec, *, tell: Callable[[str], None] = lambda line: None, seconds: float = SECONDS) -> Forecast:
    """Plans a run and does a few of its steps; writes nothing, and asks a served model nothing but who it is.

    Args:
        spec: the run.
        tell: called with a line for the user, such as a licence notice.
        seconds: for the steps that are tried.

    Raises:
        InputError: something asked for is wrong.
        ModelError: the model failed.
    """
    from evenhand.models.steps import Stepwise

    begun = time.perf_counter()
    prepared = prepare(spec)
    found = []
    with loaded(spec.here(), tell) as model:
        jobs = [formed(job, model) for job in prepared]
        model.identity()
        tried, warm = 0.0, set[str]()
        for job in jobs:
            asked = ask(job, spec)
            name, sizes = job.task.card.name, (len(asked.items), len(asked.unique))
            if not isinstance(model, Stepwise):
                pieces = getattr(model, "parts", lambda request: ())
                texts = {part for request in asked.unique for part in pieces(request) or (request,)}
                found.append(TaskForecast(name, job.form, *sizes, len(texts), None, None))
                continue
            steps = [model.counted(step) for step in model.steps(asked.unique)]
            needed, spent = _tried(model, steps, seconds / len(jobs), warm)
            tried += spent
            tokens = sum(step.tokens for step in steps)
            found.append(TaskForecast(name, job.form, *sizes, len(steps), tokens, needed))
        ready = time.perf_counter() - begun - tried
        whole = [task.seconds for task in found if task.seconds is not None]
        total = ready + sum(whole) if len(whole) == len(found) else None
        return Forecast(spec.model, model.device, found, ready, total)


def _tried(model: "Stepwise", steps: Sequence["Step"], seconds: float, warm: set[str]) -> tuple[float, float]:
    """The seconds that all steps would take, and those that trying took, without what only the first ones cost."""
    kinds = {step.what: [other for other in steps if other.what == step.what] for step in steps if step.tokens}
    whole = spent = 0.0
    for own in kinds.values():
        if own[0].what not in warm:
            warm.add(own[0].what)
            model.do(model.smaller(own[0], 1))  # weights load, memory is taken
        rate, took = _rate(model, own, seconds / len(kinds))
        whole += rate * sum(step.tokens for step in own)
        spent += took
    return whole, spent


def _rate(model: "Stepwise", steps: Sequence["Step"], seconds: float) -> tuple[float, float]:
    """Seconds per token, and the seconds that trying took: steps in random order, a part of one where they are long."""

    def timed(step: "Step") -> float:
        at = time.perf_counter()
        model.do(step)
        return time.perf_counter() - at

    order = random.Random(0).sample(steps, len(steps))  # noqa: S311 - not for secrets
    first = model.smaller(order[0], FIRST_TOKENS)
    spent = timed(first)
    left = seconds - spent
    if spent / first.tokens * order[0].tokens > left:
        part = model.smaller(order[0], max(1, int(left * first.tokens / spent)))
        took = timed(part)
        return took / part.tokens, spent + took
    took, tokens = 0.0, 0
    for step in order:
        took += timed(step)
        tokens += step.tokens
        if took > left:
            break
    return took / tokens, spent + took
