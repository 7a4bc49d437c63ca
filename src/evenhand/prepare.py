"""What a run needs before it asks: tasks with their options and items, the model, the requests."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from evenhand.errors import InputError, nearest
from evenhand.spec import RunSpec, checked

if TYPE_CHECKING:
    from evenhand.data import Dataset
    from evenhand.models import Model
    from evenhand.requests import Request
    from evenhand.tasks import Task


@dataclass(frozen=True, slots=True)
class Job:
    """A task with its checked options, its items and the form it asks in."""

    task: "Task"
    options: Any
    data: "Dataset[Any]"
    form: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A job's items, the requests about each of them, and the requests that differ."""

    items: tuple[Any, ...]
    requests: list[tuple["Request", ...]]
    unique: "list[Request]"


def prepare(spec: RunSpec) -> list[Job]:
    """The tasks with their options and items, in the order asked, each once.

    Raises:
        InputError: a task, an option or data will not do.
    """
    from evenhand import tasks

    wanted = {name: tasks.get(name) for name in spec.tasks}
    for what, given in (("--data", spec.data), ("--option", spec.options)):
        for name in given:
            if name not in wanted:
                raise InputError(f"{what} {name}: that task is not part of this run; {nearest(name, wanted)}")
    packed = [name for name, task in wanted.items() if getattr(task, "takes_pack", False)]
    if spec.pack is not None and not packed:
        raise InputError(f"--pack {spec.pack}: no task of this run takes a pack")
    if spec.ray is None and (spec.ray_workers or spec.ray_gpus is not None):
        raise InputError("--ray-workers and --ray-gpus are about --ray, which is not given")
    jobs = []
    for name, task in wanted.items():
        options = checked(task.options, spec.options.get(name, {}), where=f"--option {name}.")
        source = spec.data.get(name, spec.pack if name in packed else None)
        jobs.append(Job(task, options, task.load(options, source, offline=spec.offline)))
    return jobs


@contextmanager
def loaded(spec: RunSpec, tell: Callable[[str], None]) -> "Iterator[Model]":
    """The model, here or on a cluster's workers, and its end; its weights load when they are first needed."""
    from evenhand import models

    load = models.LoadOptions(
        device=spec.device, dtype=spec.dtype, batch_tokens=spec.batch_tokens, offline=spec.offline,
        trust_remote_code=spec.trust_remote_code, tell=tell,
    )  # fmt: skip
    if spec.ray is None:
        model = models.load(spec.model, load)
    else:
        from evenhand.scale.ray import Spread

        model = Spread(spec.model, load, address=spec.ray, workers=spec.ray_workers, gpus=spec.ray_gpus)
    try:
        yield model
    finally:
        getattr(model, "close", lambda: None)()


def formed(job: Job, model: "Model") -> Job:
    """The job with the best form in which it can ask this model."""
    from evenhand.tasks import form_for

    own = getattr(job.task, "forms", None)
    return replace(job, form=form_for(job.task.card, model.supports, own and own(job.options)))


def ask(job: Job, spec: RunSpec) -> Asked:
    """What a job asks the model."""
    task, items = job.task, job.data.rows[: spec.limit]
    if whole := getattr(task, "ask_together", None):
        asked = whole(items, job.options, job.form, seed=spec.seed)
    else:
        one = partial(task.ask, options=job.options, form=job.form, seed=spec.seed)
        asked = [one(item) for item in items]
    return Asked(items, asked, list(dict.fromkeys(request for requests in asked for request in requests)))
