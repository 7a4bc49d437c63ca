"""The only loop: spec -> items -> requests -> answers -> records -> estimates, into a run folder."""

import math
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from evenhand.errors import InputError, ModelError
from evenhand.prepare import Job, ask, formed, loaded, prepare
from evenhand.spec import RunSpec, asked

if TYPE_CHECKING:
    from evenhand.folder import RunFolder
    from evenhand.models import Model
    from evenhand.records import Record
    from evenhand.requests import Answer, Request


class Progress(Protocol):
    """Who wants to know how far a run is."""

    def say(self, line: str) -> None:
        """A line for the user."""

    def begin(self, task: str, total: int, done: int) -> None:
        """A task begins: `total` requests, `done` of them answered before."""

    def advance(self, n: int) -> None:
        """`n` more requests are answered."""

    def end(self) -> None:
        """The task's requests are all answered."""


class Silent:
    """Nobody does."""

    def say(self, line: str) -> None:
        """Nothing."""

    def begin(self, task: str, total: int, done: int) -> None:
        """Nothing."""

    def advance(self, n: int) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: its folder and what results.json holds."""

    path: Path
    results: dict[str, Any]

    def records(self, task: str) -> "list[Record]":
        """One row per item of a task.

        Raises:
            InputError: the run has no such task.
        """
        from evenhand.folder import read_records

        return read_records(self.path, task)


def run(
    model: str,
    tasks: Sequence[str] | str | None = None,
    *,
    out: str | Path | None = None,
    data: Mapping[str, str | Path] | None = None,
    pack: str | Path | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Run:
    """Measures a model and keeps everything in a run folder.

    Args:
        model: a Hub id, a local folder, `demo`, `masked:REF`, `causal:REF`, `scripted:FILE.json`.
        tasks: names of benchmarks, see `evenhand tasks`; the default of `evenhand run` if None.
        out: the run folder; `runs/` and the model's name if None. A folder with answers goes on from there.
        data: task name to a file of your own, in place of the task's data.
        pack: a pack's name or folder, for the task that takes one.
        options: task name to its options.
        progress: told how far the run is.
        **settings: the other fields of `evenhand.spec.RunSpec`: limit, device, dtype, batch_tokens, seed, bootstrap,
            ray, ray_workers, ray_gpus, fresh, offline, trust_remote_code.

    Returns:
        The run, with `.results` (what results.json holds) and `.records(task)`.

    Raises:
        InputError: something asked for is wrong.
        ModelError: the model failed.
    """
    spec = asked(model, tasks, out=out, data=data, pack=pack, options=options, **settings)
    return execute(spec, progress or Silent())


def execute(spec: RunSpec, progress: Progress, prepared: Sequence[Job] | None = None) -> Run:
    """Runs a checked spec: everything that can be wrong is looked at before the model loads, if it was not before."""
    from evenhand.folder import RunFolder

    started = time.time()
    prepared = prepare(spec) if prepared is None else prepared
    with loaded(spec, progress.say) as model:
        jobs = [formed(job, model) for job in prepared]
        with closing(RunFolder(spec.out, fresh=spec.fresh)) as folder:
            return _run(spec, jobs, model, folder, progress, started)


def _run(
    spec: RunSpec, jobs: Sequence[Job], model: "Model", folder: "RunFolder", progress: Progress, started: float
) -> Run:
    from evenhand.folder import SCHEMA

    identity = model.identity()
    before = folder.previous()
    if before and before.get("model", {}).get("fingerprint") != identity.fingerprint:
        raise InputError(
            f"{spec.out} holds a run of another model ({before.get('model', {}).get('ref')}, or other weights or "
            "dtype); choose another --out, or --fresh to begin anew"
        )
    about = asdict(identity)
    results: dict[str, Any] = {
        "schema": SCHEMA,
        "model": about,
        "tasks": dict(before.get("tasks", {})),
        "warnings": [],
    }
    meta = _meta(spec, about, model, started)
    folder.write_json("run.json", meta)
    counts = {}
    for job in jobs:
        name = job.task.card.name
        results["tasks"][name], counts[name] = _measure(job, spec, model, identity.fingerprint, folder, progress)
        results["warnings"] = sorted(
            {n for t in results["tasks"].values() for n in t["notes"] if n.startswith("warning:")}
        )
        folder.write_json("results.json", results)
    seconds = round(time.time() - started, 3)
    folder.write_json("run.json", meta | {"requests": counts, "work": asdict(model.work), "seconds": seconds})
    return Run(spec.out, results)


def _measure(
    job: Job, spec: RunSpec, model: "Model", fingerprint: str, folder: "RunFolder", progress: Progress
) -> tuple[dict[str, Any], dict[str, int]]:
    """One task's entry in results.json, and how many requests it took."""
    from evenhand.folder import entry
    from evenhand.metrics.intervals import Resampling

    task, card = job.task, job.task.card
    made = ask(job, spec)
    items, unique = made.items, made.unique
    owner: dict[Request, Any] = {}
    for item, requests in zip(items, made.requests, strict=True):
        owner |= {request: item for request in requests if request not in owner}
    pieces = getattr(model, "parts", lambda request: ())
    known = folder.answers([*unique, *(part for request in unique for part in pieces(request))], fingerprint)
    answers = {request: known[request] for request in unique if request in known}
    counts = {"asked": sum(map(len, made.requests)), "unique": len(unique), "already_answered": len(answers)}
    progress.begin(card.name, len(unique), len(answers))
    for batch in model.answer(unique, known):
        asked_for = [(request, answer) for request, answer in batch if request in owner]
        for request, answer in asked_for:
            _sound(answer, getattr(owner[request], "id", str(owner[request])), card.name)
        folder.keep(batch, fingerprint)
        answers.update(asked_for)
        progress.advance(len(asked_for))
    progress.end()
    given = [[answers[request] for request in requests] for requests in made.requests]
    if together := getattr(task, "read_together", None):
        records = together(items, job.options, job.form, given, seed=spec.seed)
    else:
        records = [task.read(item, job.options, job.form, own) for item, own in zip(items, given, strict=True)]
    folder.write_records(card.name, records)
    outcome = task.summarise(records, job.options, Resampling(spec.bootstrap, spec.seed))
    for name, content in outcome.files.items():
        folder.write_json(name, content)
    limited = spec.limit is not None and spec.limit < len(job.data.rows)
    notes = [f"limited to the first {spec.limit} of {len(job.data.rows)} items"] if limited else []
    method = task.method(job.options, job.form)
    return entry(card, method, job.form, job.data, records, outcome, notes, job.options), counts


def _sound(answer: "Answer", item: str, task: str) -> None:
    """Refuses log-probabilities that are not finite or not at most 0, naming the item."""
    from evenhand.requests import Scores

    if isinstance(answer, Scores):
        for value in (value for tokens in answer.logprobs for value in tokens):
            if not math.isfinite(value) or value > 1e-4:
                raise ModelError(f"the model gives {value} as a log-probability for {task} item {item!r}")


def _meta(spec: RunSpec, about: dict[str, Any], model: "Model", started: float) -> dict[str, Any]:
    """What run.json holds besides the work done: what results.json leaves out because it differs by time and place."""
    from importlib.metadata import PackageNotFoundError, version

    from evenhand import __version__

    packages = {"evenhand": __version__}
    for name in ("numpy", "scipy", "pyarrow", "torch", "transformers", "tokenizers", "huggingface_hub"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "spec": spec.model_dump(mode="json"),
        "model": about,
        "device": model.device,
        "packages": packages,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "command": sys.argv,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
    }
